"""The scenarios of the catalogue share one ``up`` and run concurrently, each in a thread: they mostly wait.

A scenario is a test whose only argument is ``scenario``. The first one that is run starts all that were collected.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.why.catalogue.cluster import ScenarioCluster, started
from tests.why.catalogue.scenario import Scenario

SPARE_NODES = 24
"""Nodes that scenarios can reserve."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Scenarios are slow, need kubectl, and run in one worker."""
    for item in items:
        if _is_scenario(item):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("catalogue"))
            if KUBECTL is None:
                item.add_marker(pytest.mark.skip(reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH"))


def _is_scenario(item: pytest.Item) -> bool:
    # Other directories have fixtures of that name, too.
    if not isinstance(item, pytest.Function) or "scenario" not in item.fixturenames:
        return False
    return Path(__file__).parent in item.path.parents


class Scenarios:
    """The running scenarios by the names of their tests."""

    def __init__(self, cluster: ScenarioCluster, items: list[pytest.Item]) -> None:
        self.threads = ThreadPoolExecutor(max(1, len(items)))
        self._running: dict[str, Future[None]] = {
            item.nodeid: self.threads.submit(self._run, cluster, item.obj, item.name)
            for item in items
            if isinstance(item, pytest.Function)
        }

    @staticmethod
    def _run(cluster: ScenarioCluster, test: Callable[[Scenario], None], name: str) -> None:
        test(Scenario(cluster, namespace_of(name)))

    def wait(self, item: pytest.Item) -> None:
        """Wait for a test, and raise its exception."""
        self._running[item.nodeid].result()


def namespace_of(test: str) -> str:
    """A namespace for a test."""
    return re.sub("[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:60].strip("-")


@pytest.fixture(scope="session")
def scenarios(request: pytest.FixtureRequest) -> Iterator[Scenarios]:
    """Runs all collected scenarios."""
    with started(SPARE_NODES) as cluster:
        running = Scenarios(cluster, [item for item in request.session.items if _is_scenario(item)])
        with running.threads:
            yield running


@pytest.fixture
def scenario(scenarios: Scenarios) -> Scenarios:
    """A placeholder: the test gets a ``Scenario`` in its thread."""
    return scenarios


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Wait for a scenario instead of running it."""
    if not _is_scenario(pyfuncitem) or inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    scenarios = pyfuncitem.funcargs["scenario"]
    assert isinstance(scenarios, Scenarios)
    scenarios.wait(pyfuncitem)
    return True
