"""A rolling update that one manager begins and another one ends, ours and the real Go one in either order.

The leader is killed in the middle, with no chance to say goodbye. What is judged, on every change of a pod that the
server tells: never two daemons on a node, never more than one node without a ready one.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients import daemon_stories as stories
from tests.clients.daemon_stories import Ground, Record, is_over, is_ready, target
from tests.programs import Program, go_manager, pilothouse, until
from tests.real.test_handover import ACQUIRED, SHORT
from tests.real_cluster import RealCluster

NODES = [f"relay-{number}" for number in range(6)]
DELAYS = ["--pod-start-delay=200ms", "--pod-ready-delay=200ms", "--pod-stop-delay=200ms"]
CONTROLLERS = "--controllers=daemonset"

Start = Callable[[RealCluster, Path], Program]


def ours(cluster: RealCluster, directory: Path) -> Program:
    """Our manager."""
    return pilothouse(
        directory, "manager", f"--kubeconfig={cluster.kubeconfig}", CONTROLLERS, "--secure-port=0", "--v=2", *SHORT
    )


def gos(cluster: RealCluster, directory: Path) -> Program:
    """The real one. Of a flag that comes twice the last one counts."""
    return go_manager(cluster, directory, CONTROLLERS, "--v=2", *SHORT)


@pytest.fixture(scope="module")
def relay_nodes(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nodes of this module's own, and a scheduler."""
    directory = tmp_path_factory.mktemp("relay")
    login = f"--kubeconfig={real_cluster.kubeconfig}"
    with (
        pilothouse(directory, "nodes", login, f"--nodes={len(NODES)}", "--node-prefix=relay-", *DELAYS),
        pilothouse(directory, "scheduler", login),
    ):
        until(
            lambda: (
                real_cluster.kubectl("get", "nodes", *NODES, "--no-headers", "--ignore-not-found").count(" Ready")
                == len(NODES)
            ),
            "the nodes are ready",
        )
        yield
    real_cluster.kubectl("delete", "node", *NODES)


@pytest.fixture
def ground(real_cluster: RealCluster, relay_nodes: None) -> Iterator[Ground]:
    """A namespace of the test's own."""
    namespace = real_cluster.namespace("relay")
    command = [str(real_cluster.assets / "kubectl"), f"--kubeconfig={real_cluster.kubeconfig}", f"-n={namespace}"]
    made = Ground(command, stories.environment(str(real_cluster.directory)), NODES)
    yield made
    made.clear()


@pytest.fixture
def rounds(soak: bool) -> int:
    """How often each hand-over is made."""
    return 10 if soak else 2


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(gos, ours, id="Go's begins, ours ends"),
        pytest.param(ours, gos, id="ours begins, Go's ends"),
    ],
)
def test_a_rolling_update_changes_hands(
    real_cluster: RealCluster, ground: Ground, directory: Path, first: Start, second: Start, rounds: int
) -> None:
    for _ in range(rounds):
        change_hands(real_cluster, ground, directory, first, second)
        ground.clear()


def change_hands(cluster: RealCluster, ground: Ground, directory: Path, first: Start, second: Start) -> None:
    """The leader dies in the middle of a rolling update."""

    def judge(pods: list[dict[str, Any]]) -> None:
        on = Counter(target(pod) for pod in pods if not is_over(pod))
        assert max(on.values()) == 1, f"two pods on a node: {on}"
        missing = sorted({*ground.nodes} - {target(pod) for pod in pods if is_ready(pod)})
        assert len(missing) <= 1, f"nobody serves {missing}"

    def renewed() -> int:
        return sum(1 for pod in ground.pods() if pod["spec"]["containers"][0]["image"] == "pause:2")

    with first(cluster, directory) as leader:
        leader.until(ACQUIRED)
        with second(cluster, directory) as standby:
            ground.create_everywhere(maxUnavailable=1)
            with Record(ground, judge):
                ground("set", "image", "ds/agent", "main=pause:2")
                until(lambda: renewed() >= 2, "the leader is in the middle of it")
                leader.kill()
                assert renewed() < len(NODES)
                assert ACQUIRED not in standby.log
                standby.until(ACQUIRED, 20)
                assert "successfully rolled out" in ground("rollout", "status", "ds/agent", "--timeout=60s")
                ground.until_on(ground.nodes, "every node has a new daemon")
                assert ground.images() == {"pause:2"}
            assert "Traceback" not in leader.log + standby.log
