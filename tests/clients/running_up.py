"""Scenarios on ``pilothouse up``. Those on a real API server are in ``tests/real/running_programs.py``."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from tests.clients.daemon_scenarios import KubectlCluster, environment
from tests.clients.test_kubectl import KUBECTL
from tests.programs import pilothouse

G = TypeVar("G", bound=KubectlCluster)


@contextlib.contextmanager
def running_up(kind: type[G], directory: Path, nodes: int, *flags: str) -> Iterator[G]:
    """A cluster with fast nodes, accessed with kubectl. Checks that it exits cleanly at the end of the block."""
    delays = ["--pod-start-delay=50ms", "--pod-ready-delay=50ms", "--pod-stop-delay=50ms"]
    with pilothouse(directory, "up", "--port=0", f"--nodes={nodes}", *delays, *flags) as program:
        program.until("pilothouse is ready")
        assert KUBECTL is not None
        command = [KUBECTL, f"--kubeconfig={directory}/.pilothouse/kubeconfig"]
        yield kind(command, environment(str(directory)), [f"node-{number}" for number in range(nodes)])
        assert program.stop() == 0
        assert "Traceback" not in program.log
