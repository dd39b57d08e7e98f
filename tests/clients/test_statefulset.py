"""StatefulSets on ``pilothouse up``, by kubectl. The scenarios are those of ``tests/real/test_statefulset.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import stateful_scenarios as scenarios
from tests.clients.stages import on_up
from tests.clients.stateful_scenarios import Theatre
from tests.clients.test_kubectl import KUBECTL

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    with on_up(Theatre, tmp_path_factory.mktemp("up"), nodes=2) as made:
        yield made


@pytest.fixture
def stage(up: Theatre) -> Iterator[Theatre]:
    """The cluster without pods and claims."""
    yield up
    up.clear()


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.comes_up_in_order_and_keeps_its_claims,
        scenarios.rolls_down_to_the_partition_and_back,
        scenarios.is_orphaned_and_adopted,
        scenarios.replaces_what_has_ended,
        scenarios.hands_claims_to_the_garbage_collector,
    ],
)
def test_stateful_set_scenarios(scenario: Callable[[Theatre], None], stage: Theatre) -> None:
    scenario(stage)
