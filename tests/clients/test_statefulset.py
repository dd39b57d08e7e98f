"""StatefulSets on ``pilothouse up``, by kubectl. The stories are those of ``tests/real/test_statefulset.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import stateful_stories as stories
from tests.clients.stages import on_up
from tests.clients.stateful_stories import Theatre
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
    "story",
    [
        stories.comes_up_in_order_and_keeps_its_claims,
        stories.rolls_down_to_the_partition_and_back,
        stories.is_orphaned_and_adopted,
        stories.replaces_what_has_ended,
        stories.hands_claims_to_the_garbage_collector,
    ],
)
def test_a_stateful_set(story: Callable[[Theatre], None], stage: Theatre) -> None:
    story(stage)
