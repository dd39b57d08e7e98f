"""Scenarios on the shared kube-apiserver, with a module's own nodes, a scheduler, and our manager.

The other place for them, ``pilothouse up``, is ``tests/clients/running_up.py``.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.clients.daemon_scenarios import KubectlCluster, environment
from tests.programs import Program, pilothouse, until
from tests.real_cluster import RealCluster

G = TypeVar("G", bound=KubectlCluster)


@dataclass(frozen=True)
class Programs:
    """Running programs and their nodes. ``name`` is the prefix of nodes and namespaces."""

    cluster: RealCluster
    name: str
    nodes: Sequence[str]
    programs: Sequence[Program]

    @contextlib.contextmanager
    def in_namespace(self, kind: type[G]) -> Iterator[G]:
        """A new namespace for a test, accessed with kubectl. Checks that it is empty afterwards and programs logged no
        errors."""
        namespace = self.cluster.namespace(self.name)
        command = [str(self.cluster.assets / "kubectl"), f"--kubeconfig={self.cluster.kubeconfig}", f"-n={namespace}"]
        started_program = kind(command, environment(str(self.cluster.directory)), self.nodes)
        yield started_program
        started_program.clear()
        for program in self.programs:
            assert program.code is None, f"{program.name} has exited:\n{program.log[-6000:]}"
            assert "Traceback" not in program.log, program.name


@contextlib.contextmanager
def running_programs(
    cluster: RealCluster,
    directory: Path,
    name: str,
    nodes: int,
    *,
    controllers: Sequence[str] = (),
    storage: bool = False,
    delay: str = "50ms",
) -> Iterator[Programs]:
    """Start the programs and wait until the nodes are ready. Without ``controllers`` there is no manager.

    ``delay`` is how long a pod takes for each step of its life; ``storage`` brings the default storage class.
    """
    login = f"--kubeconfig={cluster.kubeconfig}"
    delays = [f"--pod-{event}-delay={delay}" for event in ("start", "ready", "stop")]
    flags = [f"--nodes={nodes}", f"--node-prefix={name}-", *delays, *(["--storage"] if storage else [])]
    names = [f"{name}-{number}" for number in range(nodes)]
    with contextlib.ExitStack() as stack:
        running = [
            stack.enter_context(pilothouse(directory, "nodes", login, *flags)),
            stack.enter_context(pilothouse(directory, "scheduler", login)),
        ]
        if controllers:
            words = [f"--controllers={','.join(controllers)}", "--secure-port=0", "--leader-elect=false", "--v=2"]
            running.append(stack.enter_context(pilothouse(directory, "manager", login, *words)))

        def ready() -> bool:
            listed = cluster.kubectl("get", "nodes", *names, "--no-headers", "--ignore-not-found")
            return listed.count(" Ready") == nodes

        until(ready, "the nodes are ready")
        if controllers:
            running[-1].until('"Caches are synced"')
        yield Programs(cluster, name, names, running)
    # No other test's pods must be scheduled to removed nodes.
    cluster.kubectl("delete", "node", *names)
    if storage:
        cluster.kubectl("delete", "storageclass", "standard")
