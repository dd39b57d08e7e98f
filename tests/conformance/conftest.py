"""A new, empty store of each kind for each test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.conformance.stores import ETCD, INLINE, MEMORY, THREAD, opened

from pilothouse.env import Env
from pilothouse.storage import Retention, Store
from pilothouse.storage.history import KEPT


@pytest.fixture(params=[MEMORY, INLINE, THREAD, ETCD])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of store; tests that need virtual time select kinds that support it."""
    return str(request.param)


@pytest.fixture
def retention() -> Retention:
    """The retention of the store's history; tests may override it."""
    return KEPT


@pytest.fixture
async def store(env: Env, kind: str, tmp_path: Path, retention: Retention) -> AsyncIterator[Store]:
    """A new, empty store."""
    async with opened(env, kind, tmp_path / "data", retention) as store:
        yield store
