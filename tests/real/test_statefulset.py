"""StatefulSets of ``pilothouse manager`` against a real kube-apiserver, with simulated nodes and our scheduler.

The scenarios are those of ``tests/clients/test_statefulset.py``, all but the retention of claims: a v1.20 server drops
the policy, as it drops minReadySeconds, ordinals and maxUnavailable.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import stateful_scenarios as scenarios
from tests.clients.stateful_scenarios import Theatre
from tests.real.stages import Troupe, troupe
from tests.real_cluster import RealCluster


@pytest.fixture(scope="module")
def programs(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troupe]:
    """Nodes of this module's own, a scheduler, and the manager."""
    controllers = ["statefulset", "garbagecollector", "persistentvolume-binder", "pvc-protection", "pv-protection"]
    directory = tmp_path_factory.mktemp("numbered")
    with troupe(real_cluster, directory, "numbered", 2, controllers=controllers, storage=True) as made:
        yield made


@pytest.fixture
def stage(programs: Troupe) -> Iterator[Theatre]:
    """A namespace of the test's own."""
    with programs.stage(Theatre) as made:
        yield made


@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.comes_up_in_order_and_keeps_its_claims,
        scenarios.rolls_down_to_the_partition_and_back,
        scenarios.is_orphaned_and_adopted,
        scenarios.replaces_what_has_ended,
    ],
)
def test_stateful_set_scenarios(scenario: Callable[[Theatre], None], stage: Theatre) -> None:
    scenario(stage)
