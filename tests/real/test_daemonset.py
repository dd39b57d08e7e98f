"""DaemonSets of ``pilothouse manager`` against a real kube-apiserver, with simulated nodes and our scheduler.

The scenarios are those of ``tests/clients/test_daemonset.py``, all but the surge: a v1.20 server drops the field.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import daemon_scenarios as scenarios
from tests.clients.daemon_scenarios import Ground
from tests.real.stages import Troupe, troupe
from tests.real_cluster import RealCluster


@pytest.fixture(scope="module")
def programs(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troupe]:
    """Five nodes of this module's own, a scheduler, and the manager."""
    controllers = ["daemonset", "garbagecollector"]
    with troupe(real_cluster, tmp_path_factory.mktemp("daemons"), "daemons", 5, controllers=controllers) as made:
        yield made


@pytest.fixture
def ground(programs: Troupe) -> Iterator[Ground]:
    """A namespace of the test's own, and the five nodes without marks."""
    with programs.stage(Ground) as made:
        yield made


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.lands_exactly_where_it_should,
        scenarios.follows_nodes_that_come_and_go,
        scenarios.never_misses_more_than_two,
        scenarios.goes_back,
        scenarios.heals,
    ],
)
def test_daemon_set_scenarios(scenario: Callable[[Ground], None], ground: Ground) -> None:
    scenario(ground)
