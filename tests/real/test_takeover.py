"""A rolling update that one manager starts and another finishes: pilothouse and kube-controller-manager, in either
order.

The leader is killed (SIGKILL) in the middle. Checked with every watch event of a pod: never two daemon pods on a node,
never more than one node without a ready one.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.daemon_scenarios import KubectlCluster, Record, is_ready, is_terminated_and_terminating, target
from tests.programs import Program, kube_controller_manager, pilothouse, until
from tests.real.running_programs import Programs, running_programs
from tests.real.test_handover import ACQUIRED, SHORT, forget_leader
from tests.real_cluster import RealCluster
from tests.tables import cases

CONTROLLERS = "--controllers=daemonset"

Start = Callable[[RealCluster, Path], Program]


def pilothouse_manager(cluster: RealCluster, directory: Path) -> Program:
    """pilothouse."""
    return pilothouse(
        directory, "manager", f"--kubeconfig={cluster.kubeconfig}", CONTROLLERS, "--secure-port=0", "--v=2", *SHORT
    )


def upstream_manager(cluster: RealCluster, directory: Path) -> Program:
    """kube-controller-manager. The last of repeated flags has an effect."""
    return kube_controller_manager(cluster, directory, CONTROLLERS, "--v=2", *SHORT)


@pytest.fixture(scope="module")
def programs(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Nodes of this module's own, and a scheduler."""
    with running_programs(real_cluster, tmp_path_factory.mktemp("relay"), "relay", 6, delay="200ms") as running:
        yield running


@pytest.fixture
def kubectl(programs: Programs) -> Iterator[KubectlCluster]:
    """A namespace of the test's own."""
    with programs.in_namespace(KubectlCluster) as cluster:
        yield cluster


@pytest.fixture
def rounds(soak: bool) -> int:
    """The number of hand-overs."""
    return 10 if soak else 2


@pytest.mark.timeout(600)
@cases(
    "first, second",
    {
        "kube-controller-manager to pilothouse": (upstream_manager, pilothouse_manager),
        "pilothouse to kube-controller-manager": (pilothouse_manager, upstream_manager),
    },
)
def test_rolling_update_continues_when_the_leader_changes(
    real_cluster: RealCluster, kubectl: KubectlCluster, directory: Path, first: Start, second: Start, rounds: int
) -> None:
    for number in range(rounds):
        if number:
            kubectl.clear()
        hand_over(real_cluster, kubectl, directory, first, second)


def hand_over(cluster: RealCluster, kubectl: KubectlCluster, directory: Path, first: Start, second: Start) -> None:
    """The leader is killed in the middle of a rolling update."""

    def check(pods: list[dict[str, Any]]) -> None:
        on = Counter(target(pod) for pod in pods if not is_terminated_and_terminating(pod))
        assert max(on.values()) == 1, f"two pods on a node: {on}"
        missing = sorted({*kubectl.nodes} - {target(pod) for pod in pods if is_ready(pod)})
        assert len(missing) <= 1, f"nobody serves {missing}"

    def renewed() -> int:
        return sum(1 for pod in kubectl.pods() if pod["spec"]["containers"][0]["image"] == "pause:2")

    forget_leader(cluster)
    with first(cluster, directory) as leader:
        leader.until(ACQUIRED)
        with second(cluster, directory) as standby:
            kubectl.create_everywhere(maxUnavailable=1)
            with Record(kubectl, check):
                kubectl("set", "image", "ds/agent", "main=pause:2")
                until(lambda: renewed() >= 2, "the leader is in the middle of it")
                leader.kill()
                assert renewed() < len(kubectl.nodes)
                assert ACQUIRED not in standby.log
                standby.until(ACQUIRED, 20)
                assert "successfully rolled out" in kubectl("rollout", "status", "ds/agent", "--timeout=60s")
                kubectl.until_on(kubectl.nodes, "every node has a new daemon")
                assert kubectl.images() == {"pause:2"}
            assert "Traceback" not in leader.log + standby.log
