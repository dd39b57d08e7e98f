"""StatefulSets on ``pilothouse up``, by kubectl. The scenarios are those of ``tests/real/test_statefulset.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import stateful_scenarios as scenarios
from tests.clients.running_up import running_up
from tests.clients.stateful_scenarios import StatefulSetCluster
from tests.clients.test_kubectl import KUBECTL

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StatefulSetCluster]:
    with running_up(StatefulSetCluster, tmp_path_factory.mktemp("up"), nodes=2) as cluster:
        yield cluster


@pytest.fixture
def stage(up: StatefulSetCluster) -> Iterator[StatefulSetCluster]:
    """The cluster without pods and claims."""
    yield up
    up.clear()


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.ordered_scaling_keeps_claims,
        scenarios.partitioned_rollout_and_rollback,
        scenarios.orphaned_pods_are_adopted,
        scenarios.parallel_management_replaces_failed_pods,
        scenarios.claim_retention_policy,
    ],
)
def test_stateful_set_scenarios(scenario: Callable[[StatefulSetCluster], None], stage: StatefulSetCluster) -> None:
    scenario(stage)
