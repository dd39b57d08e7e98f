"""DaemonSets of ``pilothouse manager`` in front of a real kube-apiserver, with simulated nodes and our scheduler.

The stories are those of ``tests/clients/test_daemonset.py``, all but the surge: a v1.20 server drops the field.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import daemon_stories as stories
from tests.clients.daemon_stories import Ground
from tests.programs import Program, pilothouse, until
from tests.real_cluster import RealCluster

NODES = [f"daemons-{number}" for number in range(5)]
DELAYS = ["--pod-start-delay=50ms", "--pod-ready-delay=50ms", "--pod-stop-delay=50ms"]


@pytest.fixture(scope="module")
def programs(
    real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Program, ...]]:
    """Five nodes of this module's own, a scheduler, and the manager."""
    directory = tmp_path_factory.mktemp("daemons")
    login = f"--kubeconfig={real_cluster.kubeconfig}"
    flags = ["--controllers=daemonset,garbagecollector", "--secure-port=0", "--leader-elect=false", "--v=2"]
    with (
        pilothouse(directory, "nodes", login, "--nodes=5", "--node-prefix=daemons-", *DELAYS) as nodes,
        pilothouse(directory, "scheduler", login) as scheduler,
        pilothouse(directory, "manager", login, *flags) as manager,
    ):
        until(
            lambda: (
                real_cluster.kubectl("get", "nodes", *NODES, "--no-headers", "--ignore-not-found").count(" Ready")
                == len(NODES)
            ),
            "the nodes are ready",
        )
        yield nodes, scheduler, manager
    # Nobody else's pods are to be scheduled to nodes that are no longer there.
    real_cluster.kubectl("delete", "node", *NODES)


@pytest.fixture
def ground(real_cluster: RealCluster, programs: tuple[Program, ...]) -> Iterator[Ground]:
    """A namespace of the test's own, and the five nodes without marks."""
    namespace = real_cluster.namespace("daemons")
    command = [str(real_cluster.assets / "kubectl"), f"--kubeconfig={real_cluster.kubeconfig}", f"-n={namespace}"]
    made = Ground(command, stories.environment(str(real_cluster.directory)), NODES)
    yield made
    made.clear()
    for program in programs:
        assert "Traceback" not in program.log, program.name


@pytest.mark.parametrize(
    "story",
    [
        stories.lands_exactly_where_it_should,
        stories.follows_nodes_that_come_and_go,
        stories.never_misses_more_than_two,
        stories.goes_back,
        stories.heals,
    ],
)
def test_a_daemon(story: Callable[[Ground], None], ground: Ground) -> None:
    story(ground)
