"""The scenarios of the catalogue share one ``up`` and run side by side, each in a thread: most of it is waiting.

A scenario is a test with the argument ``scene`` and nothing else. The first that is run starts all that were collected.
"""

import inspect
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.why.catalogue.place import Place, started
from tests.why.catalogue.scene import Scene

SPARE_NODES = 24
"""Nodes that scenarios can take for themselves."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them are slow, need kubectl, and run in one worker."""
    for item in items:
        if _is_scenario(item):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.xdist_group("catalogue"))
            if KUBECTL is None:
                item.add_marker(pytest.mark.skip(reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH"))


def _is_scenario(item: pytest.Item) -> bool:
    # Other directories have fixtures of that name, too.
    if not isinstance(item, pytest.Function) or "scene" not in item.fixturenames:
        return False
    return Path(__file__).parent in item.path.parents


class Scenarios:
    """Those that run, by the names of their tests."""

    def __init__(self, place: Place, items: list[pytest.Item]) -> None:
        self.threads = ThreadPoolExecutor(max(1, len(items)))
        self._running: dict[str, Future[None]] = {
            item.nodeid: self.threads.submit(self._run, place, item.obj, item.name)
            for item in items
            if isinstance(item, pytest.Function)
        }

    @staticmethod
    def _run(place: Place, test: Callable[[Scene], None], name: str) -> None:
        test(Scene(place, namespace_of(name)))

    def wait(self, item: pytest.Item) -> None:
        """Wait for the end of a test. Raises what it has raised."""
        self._running[item.nodeid].result()


def namespace_of(test: str) -> str:
    """A namespace for a test."""
    return re.sub("[^a-z0-9]+", "-", test.removeprefix("test_").lower())[:60].strip("-")


@pytest.fixture(scope="session")
def scenarios(request: pytest.FixtureRequest) -> Iterator[Scenarios]:
    """All that were collected, running."""
    with started(SPARE_NODES) as place:
        found = Scenarios(place, [item for item in request.session.items if _is_scenario(item)])
        with found.threads:
            yield found


@pytest.fixture
def scene(scenarios: Scenarios) -> Scenarios:
    """Stands for the ``Scene`` that the test has in its thread."""
    return scenarios


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Wait for a scenario instead of running it."""
    if not _is_scenario(pyfuncitem) or inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    scenarios = pyfuncitem.funcargs["scene"]
    assert isinstance(scenarios, Scenarios)
    scenarios.wait(pyfuncitem)
    return True
