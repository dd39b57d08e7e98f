"""The store of servers in a test run: ``pytest --store memory`` (the default), ``sqlite`` or ``etcd``.

``new_store`` creates one for a test on the virtual loop, ``store_factory`` for a server on a real loop; ``flags`` are
for ``pilothouse up`` and ``apiserver``. Every store is new and empty. With ``etcd`` there is one etcd for each test
process, and each store has its own prefix there, with revisions that start at 1.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.real_cluster import missing_programs

from pilothouse.env import Env
from pilothouse.storage import MemoryStore, Retention, Store

if TYPE_CHECKING:
    from tests.etcd import Etcd

    from pilothouse.storage.etcd.options import EtcdOptions

KINDS = ("memory", "sqlite", "etcd")
_EVENT_TTL = 3600.0
selected = "memory"
"""The kind of this run, set by ``select``."""
_opened: list[tuple[Store, asyncio.AbstractEventLoop, Path | None]] = []


def select(config: pytest.Config) -> None:
    """Set the kind from the command line."""
    global selected  # noqa: PLW0603  # one value for the run, also used by helpers without fixtures
    selected = config.getoption("--store")
    if selected == "etcd" and (problem := missing_programs()):
        raise pytest.UsageError(f"--store etcd: {problem}")


def new_store(env: Env, retention: Retention | None = None, kind: str = "") -> Store:
    """A store for a test on the virtual loop; ``close_all`` closes it."""
    kind, retention = kind or selected, retention or Retention()
    if kind == "memory":
        return MemoryStore(env, retention=retention)
    if kind == "sqlite":
        from pilothouse.storage.sqlite import SqliteStore  # most runs do without

        directory = Path(tempfile.mkdtemp(prefix="pilothouse-store-"))
        store = SqliteStore.open(env, directory, retention=retention, inline=True, fsync=False)
        return _register(store, directory)
    from tests.etcd import shared_etcd
    from tests.virtual_etcd import VirtualEtcdStore  # needs an extra

    from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec

    etcd = shared_etcd()
    return _register(
        VirtualEtcdStore.open(
            env, _options(etcd), KeyLayout(etcd.root()), ObjectCodec(), retention=retention, lasting=_ttl_seconds
        ),
        None,
    )


def store_factory() -> Callable[[Env], Store]:
    """A factory of stores for a server on a real loop, which closes its store. Call it in the main thread: etcd exits
    with the thread that started it."""
    if selected == "memory":
        return MemoryStore
    if selected == "sqlite":
        from pilothouse.storage.sqlite import SqliteStore  # most runs do without

        return lambda env: SqliteStore.open(env, tempfile.mkdtemp(prefix="pilothouse-store-"), fsync=False)
    from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec
    from pilothouse.storage.etcd.store import EtcdStore  # needs an extra

    etcd = _servers_etcd()
    options, layout = _options(etcd), KeyLayout(etcd.root())
    return lambda env: EtcdStore.open(env, options, layout, ObjectCodec(), lasting=_ttl_seconds)


def flags() -> tuple[str, ...]:
    """Flags for a server program, which is started in a new directory."""
    if selected == "etcd":
        etcd = _servers_etcd()
        return (f"--etcd-servers={etcd.url}", f"--etcd-prefix={etcd.root()}")
    return ("--data-dir=data",) if selected == "sqlite" else ()


async def close_all() -> None:
    """Close the stores that ``new_store`` created in this test."""
    loop = asyncio.get_running_loop()
    while _opened:
        store, owner, directory = _opened.pop()
        with contextlib.ExitStack() as stack:
            if directory is not None:
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
            if owner is loop:
                await store.close()
            # Otherwise the test ran a loop of its own, which is closed, and its store with it.


def _register(store: Store, directory: Path | None) -> Store:
    _opened.append((store, asyncio.get_running_loop(), directory))
    return store


@cache
def _servers_etcd() -> "Etcd":
    """The etcd of servers on a real loop. Tests on the virtual loop compact theirs."""
    from tests.etcd import Etcd

    return Etcd().start()


def _options(etcd: "Etcd") -> "EtcdOptions":
    from pilothouse.storage.etcd.options import EtcdOptions

    # No periodic work: in virtual time it would run all the time.
    return EtcdOptions(servers=(etcd.url,), compaction_interval=0, db_metric_poll_interval=0)


def _ttl_seconds(key: str) -> float:
    from pilothouse.apiserver.storage_codec import ttl_seconds

    return ttl_seconds(key, _EVENT_TTL)
