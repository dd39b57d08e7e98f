"""DaemonSets on ``pilothouse up --nodes 5``, by kubectl: the scenarios of ``tests/real/test_daemonset.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import daemon_scenarios as scenarios
from tests.clients.daemon_scenarios import KubectlCluster
from tests.clients.running_up import running_up
from tests.clients.test_kubectl import KUBECTL

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubectlCluster]:
    with running_up(KubectlCluster, tmp_path_factory.mktemp("up"), nodes=5) as kubectl_cluster:
        yield kubectl_cluster


@pytest.fixture
def cluster(up: KubectlCluster) -> Iterator[KubectlCluster]:
    """The cluster without daemons and without marks on its nodes."""
    yield up
    up.clear()


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.node_selectors_taints_and_node_changes,
        scenarios.deleted_and_recreated_node,
        scenarios.rolling_update_respects_max_unavailable,
        scenarios.rolling_update_respects_max_surge,
        scenarios.rollback,
        scenarios.recovers_from_changed_pods_and_revisions,
    ],
)
def test_daemon_set_scenarios(scenario: Callable[[KubectlCluster], None], cluster: KubectlCluster) -> None:
    scenario(cluster)
