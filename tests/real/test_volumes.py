"""Claims and volumes with ``pilothouse manager``, scheduler and nodes in front of a real kube-apiserver.

The stories are those of ``tests/clients/test_volumes.py``.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients.daemon_stories import environment
from tests.clients.volume_stories import STORIES, Storehouse
from tests.programs import Program, pilothouse, until
from tests.real_cluster import RealCluster

NODES = ["stored-0", "stored-1"]
DELAYS = ["--pod-start-delay=50ms", "--pod-ready-delay=50ms", "--pod-stop-delay=50ms"]


@pytest.fixture(scope="module")
def programs(
    real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Program, ...]]:
    """Nodes and volumes of this module's own, a scheduler, and the manager."""
    directory = tmp_path_factory.mktemp("stored")
    login = f"--kubeconfig={real_cluster.kubeconfig}"
    controllers = (
        "--controllers=persistentvolume-binder,pvc-protection,pv-protection,statefulset,garbagecollector,namespace"
    )
    flags = [controllers, "--secure-port=0", "--leader-elect=false", "--v=2"]
    with (
        pilothouse(directory, "nodes", login, "--storage", "--nodes=2", "--node-prefix=stored-", *DELAYS) as nodes,
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
    real_cluster.kubectl("delete", "node", *NODES)
    real_cluster.kubectl("delete", "storageclass", "standard")


@pytest.fixture
def stage(real_cluster: RealCluster, programs: tuple[Program, ...]) -> Iterator[Storehouse]:
    """A namespace of the test's own."""
    namespace = real_cluster.namespace("stored")
    command = [str(real_cluster.assets / "kubectl"), f"--kubeconfig={real_cluster.kubeconfig}", f"-n={namespace}"]
    made = Storehouse(command, environment(str(real_cluster.directory)), NODES)
    yield made
    made.clear()
    for program in programs:
        assert "Traceback" not in program.log, program.name


@pytest.mark.parametrize("story", STORIES)
def test_claims_and_volumes(story: Callable[[Storehouse], None], stage: Storehouse) -> None:
    story(stage)
