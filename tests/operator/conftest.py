"""The example operator, and small ones for single rules."""

import importlib.util
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.operator.things import THINGS

from pilothouse.env import Env
from pilothouse.operator import App
from pilothouse.testing import AsyncCluster, async_plane


@pytest.fixture(autouse=True)
def _import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the import path, which ``pilothouse run`` extends."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def example() -> ModuleType:
    """A new copy of ``examples/website_operator.py``: its app and metrics are its own."""
    path = Path(__file__).parents[2] / "examples" / "website_operator.py"
    spec = importlib.util.spec_from_file_location("website_operator", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["website_operator"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[AsyncCluster]:
    """An API server with the definition of Thing, and no controllers."""
    async with async_plane(env=env, nodes=0, controllers=()) as plane:
        app = App("definitions")
        app.controller(THINGS)
        await app.install(plane.client)
        yield plane
