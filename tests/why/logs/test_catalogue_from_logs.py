"""Scenarios of the catalogue in front of a real kube-apiserver: decision logs and its audit log lead to the same roots
as pilothouse's own history."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tests.real_cluster import missing_programs
from tests.why.catalogue import (
    test_batch,
    test_deleted,
    test_ends,
    test_nodes,
    test_not_ready,
    test_pending,
    test_rollouts,
    test_scaling,
    test_services,
)
from tests.why.catalogue.conftest import namespace_of
from tests.why.catalogue.scenario import Scenario
from tests.why.logs.cluster import logged_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real(cluster="own"),
    pytest.mark.skipif(bool(missing_programs()), reason="needs the real programs"),
]

ScenarioTest = Callable[[Scenario], None]

NOT_ON_V1_20 = frozenset(
    {
        # v1.20 does not have the kind, version, field or label of namespaces.
        test_batch.test_a_cron_job_that_is_suspended,
        test_batch.test_a_cron_job_that_waits_for_its_time,
        test_batch.test_a_job_that_is_suspended,
        test_batch.test_job_past_ttl,
        test_deleted.test_drain_blocked_by_budget,
        test_deleted.test_drained_within_a_budget,
        test_pending.test_a_policy_rejects,
        test_pending.test_a_resource_claim_does_not_exist,
        test_pending.test_a_webhook_rejects,
        test_pending.test_pod_security_rejects,
        test_pending.test_scheduling_gates,
        test_scaling.test_an_autoscaler_whose_target_was_scaled_to_zero,
        test_services.test_a_load_balancer_of_another_class,
        test_services.test_changed_selector,
    }
)
"""Scenarios that need a newer API server."""
SCENARIOS: list[ScenarioTest] = [
    test
    for module in (
        test_batch,
        test_deleted,
        test_ends,
        test_nodes,
        test_not_ready,
        test_pending,
        test_rollouts,
        test_scaling,
        test_services,
    )
    for name, test in vars(module).items()
    if name.startswith("test_") and test not in NOT_ON_V1_20
]


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Future[None]]]:
    """All scenarios, run concurrently: they mostly wait."""
    with logged_cluster(spare_nodes=24) as cluster, ThreadPoolExecutor(6) as threads:

        def run(test: ScenarioTest) -> None:
            test(Scenario(cluster, namespace_of(test.__name__)))

        yield {test.__name__: threads.submit(run, test) for test in SCENARIOS}


@pytest.mark.parametrize("scenario", [test.__name__ for test in SCENARIOS])
def test_scenario(outcomes: dict[str, Future[None]], scenario: str) -> None:
    outcomes[scenario].result(300)
