"""DaemonSets of ``pilothouse manager`` on a real kube-apiserver, with simulated nodes and our scheduler.

The scenarios are those of ``tests/clients/test_daemonset.py`` except surge: a v1.20 server drops the field.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import daemon_scenarios as scenarios
from tests.clients.daemon_scenarios import KubectlCluster
from tests.real.running_programs import Programs, running_programs
from tests.real_cluster import RealCluster


@pytest.fixture(scope="module")
def programs(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Five nodes of this module's own, a scheduler, and the manager."""
    controllers = ["daemonset", "garbagecollector"]
    with running_programs(
        real_cluster, tmp_path_factory.mktemp("daemons"), "daemons", 5, controllers=controllers
    ) as running:
        yield running


@pytest.fixture
def cluster(programs: Programs) -> Iterator[KubectlCluster]:
    """A namespace of the test's own, and the five nodes without marks."""
    with programs.in_namespace(KubectlCluster) as kubectl_cluster:
        yield kubectl_cluster


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.node_selectors_taints_and_node_changes,
        scenarios.deleted_and_recreated_node,
        scenarios.rolling_update_respects_max_unavailable,
        scenarios.rollback,
        scenarios.recovers_from_changed_pods_and_revisions,
    ],
)
def test_daemon_set_scenarios(scenario: Callable[[KubectlCluster], None], cluster: KubectlCluster) -> None:
    scenario(cluster)
