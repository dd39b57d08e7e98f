"""The two managers of side-by-side runs: ours and the Go program, with the same controllers and without throttling."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tests.real_cluster import RealCluster

from bench.processes import environment, pilothouse
from bench.report import Figure, figure

ORDER = ("ours", "go", "go", "ours", "ours", "go")
_SETTLE_SECONDS = 3.0


def command(cluster: RealCluster, who: str, controllers: str) -> list[str]:
    """The command line of ``ours`` or ``go``."""
    flags = [
        f"--kubeconfig={cluster.kubeconfig}", f"--controllers={controllers}", "--kube-api-qps=100000",
        "--kube-api-burst=100000", "--leader-elect=false", "--secure-port=0",
    ]  # fmt: skip
    if who == "ours":
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


_HELD_TO = {"s": (1.1, 0.9), "µs": (1.2, 0.6), "MB": (0.7, 0.5)}
"""Budget and aim by unit: wall time, CPU, memory."""


def compared(
    what: str, name: str, runs: dict[str, list[dict[str, float]]], *, series: str = "", size: int = 0
) -> Figure:
    """One figure of both managers' runs; its name ends in the unit. Times and CPU by the best run, memory by median.

    ``series`` names what is measured at several sizes, ``size`` is this one.
    """
    title, _, unit = name.rpartition(" ")
    budget, aim = _HELD_TO[unit]
    ours, go = [run[name] for run in runs["ours"]], [run[name] for run in runs["go"]]
    return figure(
        f"{what}: {title}",
        unit,
        ours,
        go,
        other_name="Go",
        budget=budget,
        aim=aim,
        by_best=unit != "MB",
        series=f"{series}: {title}" if series else "",
        size=size,
    )
