"""Which store the servers of a test run have: ``pytest --store memory`` (the default), ``sqlite`` or ``etcd``.

``new_store`` makes one for a test on the virtual loop, and ``served_store`` for one on a real loop; ``flags`` are for a
``pilothouse up`` or ``apiserver``. Every store is new and empty. With ``etcd`` there is one etcd for each test process,
and each store has a prefix of its own there, with revisions that begin with 1.
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
chosen = "memory"
"""Of this run; ``choose`` sets it."""
_opened: list[tuple[Store, asyncio.AbstractEventLoop, Path | None]] = []


def choose(config: pytest.Config) -> None:
    """Take what the command line says."""
    global chosen  # noqa: PLW0603  # what a whole run has, and helpers without fixtures ask for
    chosen = config.getoption("--store")
    if chosen == "etcd" and (problem := missing_programs()):
        raise pytest.UsageError(f"--store etcd: {problem}")


def new_store(env: Env, retention: Retention | None = None, kind: str = "") -> Store:
    """A store for a test on the virtual loop; ``close_all`` closes it."""
    kind, kept = kind or chosen, retention or Retention()
    if kind == "memory":
        return MemoryStore(env, retention=kept)
    if kind == "sqlite":
        from pilothouse.storage.sqlite import SqliteStore  # most runs do without

        directory = Path(tempfile.mkdtemp(prefix="pilothouse-store-"))
        store = SqliteStore.open(env, directory, retention=kept, inline=True, fsync=False)
        return _opened_store(store, directory)
    from tests.etcd import shared_etcd
    from tests.virtual_etcd import VirtualEtcdStore  # needs an extra

    from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec

    etcd = shared_etcd()
    return _opened_store(
        VirtualEtcdStore.open(
            env, _options(etcd), KeyLayout(etcd.root()), ObjectCodec(), retention=kept, lasting=_seconds_kept
        ),
        None,
    )


def served_store() -> Callable[[Env], Store]:
    """What makes the store of a server on a real loop, which closes it. To be called in the main thread: etcd ends with
    the thread that has started it."""
    if chosen == "memory":
        return MemoryStore
    if chosen == "sqlite":
        from pilothouse.storage.sqlite import SqliteStore  # most runs do without

        return lambda env: SqliteStore.open(env, tempfile.mkdtemp(prefix="pilothouse-store-"), fsync=False)
    from pilothouse.apiserver.storage_codec import KeyLayout, ObjectCodec
    from pilothouse.storage.etcd.store import EtcdStore  # needs an extra

    etcd = _etcd_of_servers()
    options, layout = _options(etcd), KeyLayout(etcd.root())
    return lambda env: EtcdStore.open(env, options, layout, ObjectCodec(), lasting=_seconds_kept)


def flags() -> tuple[str, ...]:
    """For a program that serves; it is started in a new directory."""
    if chosen == "etcd":
        etcd = _etcd_of_servers()
        return (f"--etcd-servers={etcd.url}", f"--etcd-prefix={etcd.root()}")
    return ("--data-dir=data",) if chosen == "sqlite" else ()


async def close_all() -> None:
    """Close what ``new_store`` has made in this test."""
    loop = asyncio.get_running_loop()
    while _opened:
        store, owner, directory = _opened.pop()
        with contextlib.ExitStack() as stack:
            if directory is not None:
                stack.callback(shutil.rmtree, directory, ignore_errors=True)
            if owner is loop:
                await store.close()
            # Otherwise the test has had a loop of its own, which is gone, and so is what was to be closed on it.


def _opened_store(store: Store, directory: Path | None) -> Store:
    _opened.append((store, asyncio.get_running_loop(), directory))
    return store


@cache
def _etcd_of_servers() -> "Etcd":
    """Another one than that of the virtual loop, whose tests compact it."""
    from tests.etcd import Etcd

    return Etcd().start()


def _options(etcd: "Etcd") -> "EtcdOptions":
    from pilothouse.storage.etcd.options import EtcdOptions

    # Nothing is done from time to time: in virtual time it would be done all the time.
    return EtcdOptions(servers=(etcd.url,), compaction_interval=0, db_metric_poll_interval=0)


def _seconds_kept(key: str) -> float:
    from pilothouse.apiserver.storage_codec import ttl_seconds

    return ttl_seconds(key, _EVENT_TTL)
