"""Deployments, ReplicationControllers and Endpoints of ``pilothouse manager`` against a real kube-apiserver, with
simulated nodes and our scheduler. The scenarios are those of ``tests/clients/test_deployment.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import deployment_scenarios as scenarios
from tests.clients.deployment_scenarios import DeploymentCluster
from tests.real.running_programs import Programs, running_programs
from tests.real_cluster import RealCluster


@pytest.fixture(scope="module")
def programs(real_cluster: RealCluster, swept: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    """Nodes of this module's own, a scheduler, and the manager."""
    controllers = ["deployment", "replicaset", "replicationcontroller", "endpoint", "garbagecollector"]
    with running_programs(
        real_cluster, tmp_path_factory.mktemp("shops"), "shops", 2, controllers=controllers
    ) as running:
        yield running


@pytest.fixture
def shop(programs: Programs) -> Iterator[DeploymentCluster]:
    """A namespace of the test's own."""
    with programs.in_namespace(DeploymentCluster) as cluster:
        yield cluster


@pytest.mark.parametrize("scenario", scenarios.ALL)
def test_deployment_scenarios(scenario: Callable[[DeploymentCluster], None], shop: DeploymentCluster) -> None:
    scenario(shop)
