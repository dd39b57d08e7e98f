"""What comparisons with the Go manager share: a cluster with nodes, waiting for a state, and the cost of each
phase."""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from tests.real_cluster import RealCluster, running

from bench.light_kubelet import READY
from bench.processes import ROOT, cpu_seconds, resident_bytes, started, wait_for_line

_FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",)
"""Nodes are ready when they are made; nobody would take the taint off that admission puts on new ones."""
_METRIC = "apiserver_request_total{"


def image_change(image: str) -> dict[str, Any]:
    """A merge patch that gives whatever has a template of pods another one."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


@contextlib.contextmanager
def light_nodes(cluster: RealCluster, nodes: int) -> Iterator[Callable[[], None]]:
    """So many nodes, served by a ``bench.light_kubelet``. What it gives fails when called once they are gone."""
    log = cluster.directory / "light-kubelet.log"
    command = [
        sys.executable, "-m", "bench.light_kubelet", f"--kubeconfig={cluster.kubeconfig}", f"--nodes={nodes}"
    ]  # fmt: skip
    with started(command, log, cwd=ROOT) as process:
        wait_for_line(process, READY, log)

        def check() -> None:
            assert process.poll() is None, f"the nodes are gone: {log.read_text()[-2000:]}"

        yield check


@contextlib.contextmanager
def cluster_of(nodes: int) -> Iterator[tuple[RealCluster, Callable[[], None]]]:
    """A real API server of one's own with such nodes."""
    with running(_FLAGS) as cluster, light_nodes(cluster, nodes) as check:
        yield cluster, check


def wait_until(missing: Callable[[], object], *, patience: float, look: float) -> None:
    """Ask every ``look`` seconds until ``missing`` says that nothing is (None, 0). Fails with what it said last."""
    until = time.perf_counter() + patience
    while found := missing():
        assert time.perf_counter() < until, f"after {patience:.0f} s still missing: {found}"
        time.sleep(look)


class Phases:
    """The figures of one manager: wall seconds, CPU microseconds for each of so many pods, or of another ``thing``,
    megabytes."""

    def __init__(self, pid: int, count: int, thing: str = "pod") -> None:
        self._pid = pid
        self._count = count
        self.thing = thing
        self._wall: dict[str, float] = {}
        self._cpu: dict[str, float] = {}
        self._memory: dict[str, float] = {}

    @contextlib.contextmanager
    def phase(self, name: str, done: str) -> Iterator[None]:
        """Measure the block: ``phase("creation", "created")``."""
        cpu, began = cpu_seconds(self._pid), time.perf_counter()
        yield
        self._wall[f"{name}, wall s"] = time.perf_counter() - began
        self._cpu[f"CPU per {self.thing} {done} µs"] = (cpu_seconds(self._pid) - cpu) / self._count * 1e6

    def rest(self, when: str = "") -> None:
        """Let it come to rest, and note its resident memory."""
        time.sleep(1)
        self._memory[f"{' '.join(('resident memory', when)).strip()} MB"] = resident_bytes(self._pid) / 1e6

    @property
    def figures(self) -> dict[str, float]:
        """By name, the unit last."""
        return {**self._wall, **self._cpu, **self._memory}


def requests_answered(cluster: RealCluster) -> Counter[str]:
    """How many requests of each sort the API server has answered so far: ``PUT deployments/status 409``.

    Of whoever sent them; a difference of two is what a phase came to.
    """
    return requests_in(cluster.request("GET", "/metrics"))


def requests_in(exposition: str) -> Counter[str]:
    """The same, from the text of an API server's metrics."""
    counts: Counter[str] = Counter()
    for line in exposition.splitlines():
        if line.startswith(_METRIC):
            labels, _brace, count = line[len(_METRIC) :].partition("} ")
            found = dict(pair.split("=", 1) for pair in labels.replace('"', "").split(","))
            resource = "/".join(filter(None, (found["resource"], found["subresource"])))
            counts[f"{found['verb']} {resource} {found['code']}"] += int(float(count))
    return counts
