"""Claims and volumes with ``pilothouse manager``, scheduler and nodes against a real kube-apiserver.

The scenarios are those of ``tests/clients/test_volumes.py``.
"""

from collections.abc import Callable, Iterator

import pytest
from tests.clients.volume_scenarios import SCENARIOS, VolumeCluster
from tests.real.running_programs import Programs, running_programs
from tests.real_cluster import RealCluster

CONTROLLERS = [
    "persistentvolume-binder",
    "pvc-protection",
    "pv-protection",
    "statefulset",
    "garbagecollector",
    "namespace",
]


@pytest.fixture(scope="module")
def programs(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Nodes and volumes of this module's own, a scheduler, and the manager."""
    directory = tmp_path_factory.mktemp("stored")
    with running_programs(real_cluster, directory, "stored", 2, controllers=CONTROLLERS, storage=True) as running:
        yield running


@pytest.fixture
def stage(programs: Programs) -> Iterator[VolumeCluster]:
    """A namespace of the test's own."""
    with programs.in_namespace(VolumeCluster) as cluster:
        yield cluster


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_claim_and_volume_scenarios(scenario: Callable[[VolumeCluster], None], stage: VolumeCluster) -> None:
    scenario(stage)
