"""The managers that are compared, pilothouse and kube-controller-manager, with the same controllers, not throttled."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.real_cluster import RealCluster

from bench.processes import environment, pilothouse
from bench.report import Figure, figure

ORDER = ("pilothouse", "upstream", "upstream", "pilothouse", "pilothouse", "upstream")
_SETTLE_SECONDS = 3.0


def command(cluster: RealCluster, who: str, controllers: str, *more: str) -> list[str]:
    """The command line of ``pilothouse`` or ``upstream``. ``more``: flags that both have."""
    flags = [
        f"--kubeconfig={cluster.kubeconfig}", f"--controllers={controllers}", "--kube-api-qps=100000",
        "--kube-api-burst=100000", "--leader-elect=false", "--secure-port=0", *more,
    ]  # fmt: skip
    if who == "pilothouse":
        return pilothouse("manager", *flags)
    return [
        str(cluster.assets / "kube-controller-manager"), *flags, "--port=0", f"--cert-dir={cluster.directory}",
        f"--authentication-kubeconfig={cluster.kubeconfig}", f"--authorization-kubeconfig={cluster.kubeconfig}",
    ]  # fmt: skip


@contextlib.contextmanager
def running_manager(command: list[str], log: Path) -> Iterator[int]:
    """Start it, give it time to fill its caches, and end it after the block. The process id."""
    with (
        log.open("ab") as sink,
        subprocess.Popen(command, stdout=sink, stderr=sink, env=dict(environment())) as process,
    ):
        try:
            time.sleep(_SETTLE_SECONDS)
            assert process.poll() is None, f"{command[0]} ended: {log.read_text()[-2000:]}"
            yield process.pid
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


Runs = dict[str, list[dict[str, float]]]
"""What was measured of ``pilothouse`` and ``upstream``, run by run."""


def in_turn(what: str, order: Sequence[str], measure: Callable[[str, str], dict[str, float]]) -> Runs:
    """``measure(who, name)`` for each of ``order``, the name another one each time.

    Every run is shown at once: whoever waits for minutes wants to see it move.
    """
    runs: Runs = {"pilothouse": [], "upstream": []}
    for number, who in enumerate(order):
        found = measure(who, f"bench-{number}")
        runs[who].append(found)
        shown = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
        print(f"{what}, {who}: {shown}", file=sys.stderr, flush=True)
    return runs


_HELD_TO = {"s": (1.1, 0.9), "µs": (1.2, 0.6), "MB": (0.7, 0.5), "writes": (1.05, 1.0)}
"""Budget and aim by unit: wall time, CPU, memory, requests that change something."""


def comparisons(what: str, runs: Runs, *, series: str = "", size: int = 0) -> list[Figure]:
    """Every figure of both managers' runs; its name ends in the unit. Times and CPU by the best run, memory by median.

    ``series`` names what is measured at several sizes, ``size`` is this one.
    """
    return [_compared(what, name, runs, series, size) for name in runs["pilothouse"][0]]


def _compared(what: str, name: str, runs: Runs, series: str, size: int) -> Figure:
    title, _, unit = name.rpartition(" ")
    budget, aim = _HELD_TO[unit]
    pilothouse, upstream = [run[name] for run in runs["pilothouse"]], [run[name] for run in runs["upstream"]]
    return figure(
        f"{what}: {title}",
        unit,
        pilothouse,
        upstream,
        other_name="Go",
        budget=budget,
        aim=aim,
        by_best=unit != "MB",
        series=f"{series}: {title}" if series else "",
        size=size,
    )
