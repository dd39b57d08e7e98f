"""API servers of a test on one etcd, in kube-apiserver's layout."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from tests.apiserver.api import Api
from tests.etcd import Etcd, shared_etcd

from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec, ttl_seconds
from pilothouse.env import Env, TaskGroup
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore


def open_store(env: Env, etcd: Etcd, root: str, *, event_ttl: float = 3600) -> EtcdStore:
    options = EtcdOptions(servers=(etcd.url,), compaction_interval=0)
    return EtcdStore.open(
        env,
        options,
        KeyLayout(root),
        ObjectCodec(),
        lasting=lambda key: ttl_seconds(key, event_ttl),
    )


@contextlib.asynccontextmanager
async def running(*found: Api) -> AsyncIterator[None]:
    """Run servers that share a store, and close them."""
    try:
        async with TaskGroup() as group:
            for item in found:
                group.start(item.server.run())
            for item in found:
                # The first one creates the namespaces.
                assert (await item.get("/api/v1/namespaces/default")).status == 200
            yield
            group.cancel()
    finally:
        for item in found:
            await item.server.close()


@contextlib.asynccontextmanager
async def servers(env: Env, count: int = 2, *, event_ttl: float = 3600) -> AsyncIterator[list[Api]]:
    """``count`` servers with one etcd prefix."""
    etcd = shared_etcd()
    root = etcd.root()
    result = [Api(env, store=open_store(env, etcd, root, event_ttl=event_ttl)) for _ in range(count)]
    async with running(*result):
        yield result


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}
