"""Deployments, ReplicationControllers and Endpoints on ``pilothouse up``, by kubectl. The stories are those of
``tests/real/test_deployment_stories.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import deployment_stories as stories
from tests.clients.deployment_stories import Shop
from tests.clients.stages import on_up
from tests.clients.test_kubectl import KUBECTL

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with on_up(Shop, tmp_path_factory.mktemp("up"), nodes=2) as made:
        yield made


@pytest.fixture
def shop(up: Shop) -> Iterator[Shop]:
    """The cluster without workloads."""
    yield up
    up.clear()


@pytest.mark.parametrize("story", stories.ALL)
def test_a_deployment(story: Callable[[Shop], None], shop: Shop) -> None:
    story(shop)
