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
from tests.why.catalogue.scene import Scene
from tests.why.logs.place import logged_place

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real(cluster="own"),
    pytest.mark.skipif(bool(missing_programs()), reason="needs the real programs"),
]

Scenario = Callable[[Scene], None]

LATER = frozenset(
    {
        # v1.20 does not have the kind, version, field or label of namespaces.
        test_batch.test_a_cron_job_that_is_suspended,
        test_batch.test_a_cron_job_that_waits_for_its_time,
        test_batch.test_a_job_that_is_suspended,
        test_batch.test_a_job_whose_time_to_live_is_over,
        test_deleted.test_a_drain_that_a_budget_holds_up,
        test_deleted.test_drained_within_a_budget,
        test_pending.test_a_policy_rejects,
        test_pending.test_a_webhook_rejects,
        test_pending.test_pod_security_rejects,
        test_pending.test_scheduling_gates,
        test_scaling.test_an_autoscaler_whose_target_was_scaled_to_zero,
        test_services.test_a_load_balancer_of_another_class,
        test_services.test_a_selector_that_was_changed,
    }
)
"""Scenarios that a newer API server is needed for."""
SCENARIOS: list[Scenario] = [
    found
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
    for name, found in vars(module).items()
    if name.startswith("test_") and found not in LATER
]


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Future[None]]]:
    """All scenarios run side by side: most of them is waiting."""
    with logged_place(spare_nodes=24) as place, ThreadPoolExecutor(6) as threads:

        def play(scenario: Scenario) -> None:
            scenario(Scene(place, namespace_of(scenario.__name__)))

        yield {scenario.__name__: threads.submit(play, scenario) for scenario in SCENARIOS}


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in SCENARIOS])
def test_scenario(outcomes: dict[str, Future[None]], scenario: str) -> None:
    outcomes[scenario].result(300)
