"""Large custom resources do not block other clients: lists and watches are encoded in slices of time, writes by the
worker."""

import asyncio
from typing import Any

from tests.apiserver.api import Api
from tests.apiserver.test_long_work import Worker
from tests.custom_resources import DEFINITIONS, definition

from pilothouse.apiserver import core
from pilothouse.apiserver.apiextensions import serving
from pilothouse.apiserver.long_work import LONG_BYTES

THINGS = "/apis/example.com/v1/namespaces/default/things"


def thing(name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"text": "x" * size}}


async def serving_things(api: Api) -> None:
    await api.create(DEFINITIONS, definition("Thing"))
    await asyncio.sleep(5)  # as long as definitions take to be served


async def test_list_and_watch_are_made_in_turns(api: Api) -> None:
    running = asyncio.ensure_future(api.server.run())
    await serving_things(api)
    size = core._BYTES_PER_TURN // 2 + 1
    for number in range(8):
        await api.create(THINGS, thing(f"t{number}", size))

    listing = asyncio.ensure_future(api.get(THINGS))
    turns = 0
    while not listing.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await listing).body["items"]) == 8
    assert turns > 4

    viewed: list[bytes] = []
    from_storage_nowait = api.server.core.from_storage_nowait

    def counted(info: Any, value: bytes) -> bytes:
        viewed.append(value)
        return from_storage_nowait(info, value)

    api.server.core.from_storage_nowait = counted  # type: ignore[method-assign]
    events = await api.watch(THINGS)
    assert viewed == []
    assert (await events.next())[0] == "ADDED"
    assert len(viewed) == 2
    assert [name for _type, name, _version in await events.take(7)] == [f"t{number}" for number in range(1, 8)]
    await events.stream.close()
    running.cancel()


async def test_values_of_a_large_object_are_copied_by_the_worker(api: Api) -> None:
    running = asyncio.ensure_future(api.server.run())
    await serving_things(api)
    worker = Worker()
    api.server.core.long_work.get_worker = lambda: worker
    await api.create(THINGS, thing("t", LONG_BYTES))
    assert worker.names.count("to_storage") == 1
    await api.patch(f"{THINGS}/t", {"spec": {"more": 1}})
    assert worker.names.count("to_storage") == 2
    running.cancel()


def test_recently_shown_objects_are_limited_in_bytes() -> None:
    conversions = serving.RecentConversions()
    values = [bytes([number]) * (serving._RECENT_BYTES // 8) for number in range(4)]
    for value in values:
        conversions.add(value, value)
    assert [conversions.get(value) is not None for value in values] == [False, False, False, True]
    for number in range(serving._RECENT_BYTES // serving._ENTRY_OVERHEAD + 10):
        conversions.add(b"%d" % number, b"")
    assert conversions.get(values[3]) is None
