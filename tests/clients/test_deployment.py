"""Deployments, ReplicationControllers and Endpoints on ``pilothouse up``, by kubectl. The scenarios are those of
``tests/real/test_deployment_scenarios.py``."""

from collections.abc import Callable, Iterator

import pytest
from tests.clients import deployment_scenarios as scenarios
from tests.clients.deployment_scenarios import DeploymentCluster
from tests.clients.running_up import running_up
from tests.clients.test_kubectl import KUBECTL

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeploymentCluster]:
    with running_up(DeploymentCluster, tmp_path_factory.mktemp("up"), nodes=2) as cluster:
        yield cluster


@pytest.fixture
def shop(up: DeploymentCluster) -> Iterator[DeploymentCluster]:
    """The cluster without workloads."""
    yield up
    up.clear()


@pytest.mark.parametrize("scenario", scenarios.ALL)
def test_deployment_scenarios(scenario: Callable[[DeploymentCluster], None], shop: DeploymentCluster) -> None:
    scenario(shop)
