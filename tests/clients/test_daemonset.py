"""DaemonSets on ``pilothouse up --nodes 5``, by kubectl: the scenarios of ``tests/real/test_daemonset.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import daemon_scenarios as scenarios
from tests.clients.daemon_scenarios import Ground
from tests.clients.stages import on_up
from tests.clients.test_kubectl import KUBECTL

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with on_up(Ground, tmp_path_factory.mktemp("up"), nodes=5) as made:
        yield made


@pytest.fixture
def ground(up: Ground) -> Iterator[Ground]:
    """The cluster without daemons and without marks on its nodes."""
    yield up
    up.clear()


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.lands_exactly_where_it_should,
        scenarios.follows_nodes_that_come_and_go,
        scenarios.never_misses_more_than_two,
        scenarios.serves_all_nodes_during_a_surge,
        scenarios.goes_back,
        scenarios.heals,
    ],
)
def test_daemon_set_scenarios(scenario: Callable[[Ground], None], ground: Ground) -> None:
    scenario(ground)
