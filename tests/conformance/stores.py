"""The stores that the suite holds to their promises, and short words for what is done with them."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import pytest

from pilothouse.env import Env, loops, virtual
from pilothouse.storage import Change, MemoryStore, Record, Retention, Store
from pilothouse.storage.history import KEPT
from pilothouse.storage.sqlite import SqliteStore

Program = Callable[[Store], Coroutine[Any, Any, None]]


class Run(Protocol):
    def __call__(self, program: Program, *, retention: Retention = ...) -> None:
        """Run the program on a new, empty store."""


MEMORY = pytest.param("memory", id="memory")
INLINE = pytest.param("inline", id="sqlite inline")
THREAD = pytest.param("thread", id="sqlite with its thread")


def runner(kind: str, directory: Path) -> Run:
    def run(program: Program, *, retention: Retention = KEPT) -> None:
        async def main(env: Env) -> None:
            store: Store
            if kind == "memory":
                store = MemoryStore(env, retention=retention)
            else:
                store = SqliteStore.open(env, directory, retention=retention, inline=kind == "inline")
            try:
                await program(store)
            finally:
                await store.close()

        if kind == "thread":
            loops.run(main(Env()))
        else:
            virtual.run(main)

    return run


async def put(store: Store, key: str, value: str = "v", *, expected: int | None = None) -> int:
    staged = store.stage(key, lambda revision: f"{value}@{revision}".encode(), expected=expected)
    await store.commit(staged)
    return staged.revision


async def remove(store: Store, key: str, *, expected: int | None = None) -> int:
    staged = store.stage(key, None, expected=expected, last=lambda revision: f"gone@{revision}".encode())
    await store.commit(staged)
    return staged.revision


def names(records: list[Record]) -> list[str]:
    return [record.key.rpartition("/")[2] for record in records]


def told(changes: list[Change]) -> list[tuple[str, str, bytes, bytes | None]]:
    return [(change.type, change.key, change.value, change.previous) for change in changes]
