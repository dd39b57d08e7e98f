"""Responses to requests that arrive while a concurrent write of the same object is pending and fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.apiserver.api import CONFIG_MAPS, Api
from tests.apiserver.shared_store.servers import config_map, servers

from pilothouse.apiserver.resources import storage_prefix
from pilothouse.env import Env
from pilothouse.storage import Change, Mismatch, Staged
from pilothouse.storage.etcd.client import EtcdError
from pilothouse.storage.etcd.store import EtcdStore

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=30)]

_KEY = f"{storage_prefix('', 'configmaps')}default/a"


@asynccontextmanager
async def _first_fails(api: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[[], None]]:
    """The next transaction waits until the returned function is called, and fails; later ones are executed."""
    store = api.store
    assert isinstance(store, EtcdStore)
    released = asyncio.Event()
    carry_out = store.client.txn
    fails = iter([True])

    async def txn(request: Any, **words: Any) -> Any:
        is_about = any(b"/configmaps/default/a" in item.SerializeToString() for item in request.success)
        if is_about and next(fails, False):
            await released.wait()
            raise EtcdError("ResourceExhausted", "etcdserver: mvcc: database space exceeded")
        return await carry_out(request, **words)

    monkeypatch.setattr(store.client, "txn", txn)
    yield released.set


async def _beside(
    api: Api, first: Callable[[], Awaitable[Any]], second: Callable[[], Awaitable[Any]], release: Callable[[], None]
) -> tuple[Any, Any]:
    """The responses to two requests, the second of which arrives while the first is written."""
    before = api.store.staged(_KEY)
    writing = asyncio.ensure_future(first())
    while api.store.staged(_KEY) is before:  # noqa: ASYNC110  # nothing tells
        await asyncio.sleep(0.01)
    waiting = asyncio.ensure_future(second())
    await asyncio.sleep(0.1)
    release()
    return await writing, await waiting


async def test_create_does_not_conflict_with_a_failing_create(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    async with servers(env, 1) as (api,), _first_fails(api, monkeypatch) as release:

        async def create() -> Any:
            return await api.post(CONFIG_MAPS, config_map("a"))

        first, second = await _beside(api, create, create, release)
        assert (first.status, second.status) == (500, 201), second.text
        assert (await create()).status == 409


async def test_update_does_not_conflict_with_a_failing_update(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    async with servers(env, 1) as (api,):
        created = (await api.post(CONFIG_MAPS, config_map("a"))).body

        async def update() -> Any:
            return await api.put(f"{CONFIG_MAPS}/a", {**created, "data": {"b": "c"}})

        async with _first_fails(api, monkeypatch) as release:
            first, second = await _beside(api, update, update, release)
        assert (first.status, second.status) == (500, 200), second.text
        assert second.body["data"] == {"b": "c"}
        assert (await update()).status == 409


async def test_object_is_readable_during_a_failing_delete(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    async with servers(env, 1) as (api,):
        await api.post(CONFIG_MAPS, config_map("a"))

        async def delete() -> Any:
            return await api.delete(f"{CONFIG_MAPS}/a")

        async def patch() -> Any:
            return await api.patch(f"{CONFIG_MAPS}/a", {"data": {"b": "c"}})

        async with _first_fails(api, monkeypatch) as release:
            first, second = await _beside(api, delete, patch, release)
        assert (first.status, second.status) == (500, 200), second.text


async def test_no_op_update_does_not_return_a_failing_write(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    async with servers(env, 1) as (api,):
        await api.post(CONFIG_MAPS, config_map("a"))

        async def patch() -> Any:
            return await api.patch(f"{CONFIG_MAPS}/a", {"data": {"b": "c"}})

        async with _first_fails(api, monkeypatch) as release:
            first, second = await _beside(api, patch, patch, release)
        assert first.status == 500
        stored = (await api.get(f"{CONFIG_MAPS}/a")).body
        assert (second.status, second.body) == (200, stored)
        assert stored["data"] == {"b": "c"}


async def test_no_op_update_returns_the_revision_of_a_concurrent_write(env: Env) -> None:
    async with servers(env, 1) as (api,):
        await api.post(CONFIG_MAPS, config_map("a"))
        patch = {"data": {"b": "c"}}
        answers = await asyncio.gather(*(api.patch(f"{CONFIG_MAPS}/a", patch) for _ in range(3)))
        stored = (await api.get(f"{CONFIG_MAPS}/a")).body
        assert [answer.body for answer in answers] == [stored] * 3


async def test_lost_staged_write_is_retried_until_stored(env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is quicker, again and again, and ends then, with some of it left to do."""
    async with servers(env, 1) as (api,):
        core = api.server.core
        losses, lacking = iter(range(25)), iter(range(26))

        async def lose(staged: Staged) -> bytes:
            if next(losses, None) is not None:
                raise Mismatch(staged.change.key, 0, None)
            return b""

        def stage() -> Staged | None:
            if next(lacking, None) is None:
                return None
            return Staged(Change(1, _KEY, "ADDED", b"", None), None, "")

        monkeypatch.setattr(core, "commit", lose)
        await core.retry_until_stored(lambda: core.commit_staged(stage), pause=0.001)
        assert next(losses, None) is None
        assert next(lacking, None) is None
