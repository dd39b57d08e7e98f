"""StatefulSets of ``pilothouse manager`` in front of a real kube-apiserver, with simulated nodes and our scheduler.

The stories are those of ``tests/clients/test_statefulset.py``, all but the retention of claims: a v1.20 server drops
the policy, as it drops minReadySeconds, ordinals and maxUnavailable.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import stateful_stories as stories
from tests.clients.daemon_stories import environment
from tests.clients.stateful_stories import Theatre
from tests.programs import Program, pilothouse, until
from tests.real_cluster import RealCluster

NODES = ["numbered-0", "numbered-1"]
DELAYS = ["--pod-start-delay=50ms", "--pod-ready-delay=50ms", "--pod-stop-delay=50ms"]


@pytest.fixture(scope="module")
def programs(
    real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Program, ...]]:
    """Nodes of this module's own, a scheduler, and the manager."""
    directory = tmp_path_factory.mktemp("numbered")
    login = f"--kubeconfig={real_cluster.kubeconfig}"
    controllers = "--controllers=statefulset,garbagecollector,persistentvolume-binder,pvc-protection,pv-protection"
    flags = [controllers, "--secure-port=0", "--leader-elect=false", "--v=2"]
    with (
        pilothouse(directory, "nodes", login, "--storage", "--nodes=2", "--node-prefix=numbered-", *DELAYS) as nodes,
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
    real_cluster.kubectl("delete", "storageclass", "standard")


@pytest.fixture
def stage(real_cluster: RealCluster, programs: tuple[Program, ...]) -> Iterator[Theatre]:
    """A namespace of the test's own."""
    namespace = real_cluster.namespace("numbered")
    command = [str(real_cluster.assets / "kubectl"), f"--kubeconfig={real_cluster.kubeconfig}", f"-n={namespace}"]
    made = Theatre(command, environment(str(real_cluster.directory)), NODES)
    yield made
    made.clear()
    for program in programs:
        assert "Traceback" not in program.log, program.name


@pytest.mark.parametrize(
    "story",
    [
        stories.comes_up_in_order_and_keeps_its_claims,
        stories.rolls_down_to_the_partition_and_back,
        stories.is_orphaned_and_adopted,
        stories.replaces_what_has_ended,
    ],
)
def test_a_stateful_set(story: Callable[[Theatre], None], stage: Theatre) -> None:
    story(stage)
