"""Claims and volumes on ``pilothouse up``, by kubectl. Most stories are those of ``tests/real/test_volumes.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients.stages import on_up
from tests.clients.test_kubectl import KUBECTL
from tests.clients.volume_stories import ATTACHING, STORIES, Storehouse

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storehouse]:
    with on_up(Storehouse, tmp_path_factory.mktemp("up"), nodes=2) as made:
        yield made


@pytest.fixture
def stage(up: Storehouse) -> Iterator[Storehouse]:
    """The cluster without pods, claims and volumes."""
    yield up
    up.clear()


def test_there_is_a_default_class(up: Storehouse) -> None:
    assert "standard (default)" in up("get", "storageclass")


@pytest.mark.parametrize("story", [*STORIES, *ATTACHING])
def test_claims_and_volumes(story: Callable[[Storehouse], None], stage: Storehouse) -> None:
    story(stage)
