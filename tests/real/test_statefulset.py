"""StatefulSets of ``pilothouse manager`` against a real kube-apiserver, with simulated nodes and our scheduler.

The scenarios are those of ``tests/clients/test_statefulset.py``, all but the retention of claims: a v1.20 server drops
the policy, as it drops minReadySeconds, ordinals and maxUnavailable.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import stateful_scenarios as scenarios
from tests.clients.stateful_scenarios import StatefulSetCluster
from tests.real.running_programs import Programs, running_programs
from tests.real_cluster import RealCluster


@pytest.fixture(scope="module")
def programs(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Nodes of this module's own, a scheduler, and the manager."""
    controllers = ["statefulset", "garbagecollector", "persistentvolume-binder", "pvc-protection", "pv-protection"]
    directory = tmp_path_factory.mktemp("numbered")
    with running_programs(real_cluster, directory, "numbered", 2, controllers=controllers, storage=True) as running:
        yield running


@pytest.fixture
def stage(programs: Programs) -> Iterator[StatefulSetCluster]:
    """A namespace of the test's own."""
    with programs.in_namespace(StatefulSetCluster) as cluster:
        yield cluster


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.ordered_scaling_keeps_claims,
        scenarios.partitioned_rollout_and_rollback,
        scenarios.orphaned_pods_are_adopted,
        scenarios.parallel_management_replaces_failed_pods,
    ],
)
def test_stateful_set_scenarios(scenario: Callable[[StatefulSetCluster], None], stage: StatefulSetCluster) -> None:
    scenario(stage)
