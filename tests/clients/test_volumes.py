"""Claims and volumes on ``pilothouse up``, by kubectl. The stories are those of ``tests/real/test_volumes.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients.daemon_stories import environment
from tests.clients.test_kubectl import KUBECTL
from tests.clients.volume_stories import STORIES, Storehouse
from tests.programs import pilothouse

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Storehouse]:
    directory = tmp_path_factory.mktemp("up")
    flags = ["--port=0", "--nodes=2", "--pod-start-delay=50ms", "--pod-ready-delay=50ms", "--pod-stop-delay=50ms"]
    with pilothouse(directory, "up", *flags) as program:
        program.until("pilothouse is ready")
        assert KUBECTL is not None
        command = [KUBECTL, f"--kubeconfig={directory}/.pilothouse/kubeconfig"]
        yield Storehouse(command, environment(str(directory)), ["node-0", "node-1"])
        assert program.stop() == 0
        assert "Traceback" not in program.log


@pytest.fixture
def stage(up: Storehouse) -> Iterator[Storehouse]:
    """The cluster without pods, claims and volumes."""
    yield up
    up.clear()


def test_there_is_a_default_class(up: Storehouse) -> None:
    assert "standard (default)" in up("get", "storageclass")


@pytest.mark.parametrize("story", STORIES)
def test_claims_and_volumes(story: Callable[[Storehouse], None], stage: Storehouse) -> None:
    story(stage)
