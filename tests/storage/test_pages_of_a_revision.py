"""Pages of an earlier revision, while objects are created, changed and deleted between them."""

import random
import time

import pytest

from pilothouse.env import Env
from pilothouse.storage import MemoryStore, Record


@pytest.mark.parametrize("seed", range(20))
async def test_pages_are_the_list_at_their_revision(env: Env, seed: int) -> None:
    choice = random.Random(seed)
    store = MemoryStore(env)

    async def write() -> None:
        key = f"/pods/default/{choice.randrange(60):02}"
        staged = store.staged(key)
        if staged is not None and choice.random() < 0.4:
            await store.commit(store.stage(key, None, expected=staged.revision))
        else:
            await store.commit(store.stage(key, lambda revision: b"%d" % revision))

    for _ in range(80):
        await write()
    revision = store.revision
    expected = list(store.list("/pods/").records)
    after, found = "", []
    while True:
        for _ in range(choice.randrange(12)):
            await write()
        page = store.list("/pods/", after=after, limit=choice.randrange(1, 9), revision=revision)
        found += page.records
        assert page.remaining == len(expected) - len(found)
        if not page.more:
            break
        after = page.records[-1].key
    assert found == expected


async def test_a_page_does_not_cost_as_much_as_the_list(env: Env) -> None:
    records = [Record(f"/pods/default/{number:06}", b"", number + 1, number + 1) for number in range(100_000)]
    store = MemoryStore(env, records=records, revision=len(records))
    revision = store.revision
    await store.commit(store.stage("/pods/default/new", lambda _revision: b""))
    began = time.process_time()
    for _ in range(50):
        assert len(store.list("/pods/", limit=500, revision=revision).records) == 500
    assert time.process_time() - began < 0.25, "it took ten milliseconds for each"
