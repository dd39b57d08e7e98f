"""A server with a lagging watch cache: which reads are stale."""

import asyncio
import math

from tests.apiserver.api import CONFIG_MAPS, Answer, Api, config_map
from tests.tables import cases


async def _behind(api: Api, lag: float = math.inf) -> None:
    """The replica has ``a``, and lacks ``b``."""
    await api.create(CONFIG_MAPS, config_map("a"))
    api.server.set_lag(lag)
    await api.create(CONFIG_MAPS, config_map("b"))


def _names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.body["items"]]


@cases(
    "query, names",
    {
        "a list without a version is the truth": ("", ["a", "b"]),
        "resourceVersion 0: from the cache": ("?resourceVersion=0", ["a"]),
        "resourceVersion 0 with limit: from the cache": ("?resourceVersion=0&limit=1", ["a"]),
        "NotOlderThan an old version: from the cache": ("?resourceVersion=2&resourceVersionMatch=NotOlderThan", ["a"]),
        "pages of now are the truth": ("?limit=5", ["a", "b"]),
        "field selector with resourceVersion 0: from the cache": (
            "?resourceVersion=0&fieldSelector=metadata.name%3Db",
            [],
        ),
    },
)
async def test_lists(api: Api, query: str, names: list[str]) -> None:
    await _behind(api)
    assert _names(await api.get(CONFIG_MAPS + query)) == names


async def test_gets(api: Api) -> None:
    await _behind(api)
    assert [(await api.get(f"{CONFIG_MAPS}/b{query}")).status for query in ("", "?resourceVersion=0")] == [200, 404]


async def test_not_older_than_a_newer_revision_times_out(api: Api) -> None:
    await _behind(api)
    revision = api.store.revision
    began = api.env.monotonic()
    answer = await api.get(f"{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")
    seconds = api.env.monotonic() - began
    assert (seconds, answer.status) == (3.0, 504)
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


async def test_watches_lag(api: Api) -> None:
    await _behind(api, 5.0)
    began = api.env.monotonic()
    events = await api.watch(CONFIG_MAPS)
    assert (await events.next())[1]["metadata"]["name"] == "a"
    _type, obj = await events.next()
    assert (api.env.monotonic() - began, obj["metadata"]["name"]) == (5.0, "b")


async def test_watch_with_the_latest_state_waits(api: Api) -> None:
    query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    await _behind(api, 2.0)
    events = await api.watch(CONFIG_MAPS + query)
    observed = [(await events.next())[1]["metadata"].get("name", "end") for _ in range(3)]
    api.server.set_lag(math.inf)
    await api.create(CONFIG_MAPS, config_map("c"))
    late = await api.watch(CONFIG_MAPS + query)
    failed = (await late.next())[1]
    assert observed == ["a", "b", "end"]
    assert (failed["code"], failed["reason"]) == (504, "Timeout")


async def test_writes_and_conflicts_use_the_current_state(api: Api) -> None:
    await _behind(api)
    stale = (await api.get(CONFIG_MAPS + "/a?resourceVersion=0")).body
    changed = (await api.patch(CONFIG_MAPS + "/a", {"data": {"x": "y"}})).status
    conflict = (await api.put(CONFIG_MAPS + "/a", stale)).status
    assert (changed, conflict, (await api.post(CONFIG_MAPS, config_map("b"))).status) == (200, 409, 409)


async def test_frozen_cache_catches_up_in_order(api: Api) -> None:
    await _behind(api)
    events = await api.watch(CONFIG_MAPS + f"?resourceVersion={api.store.revision - 1}")
    await api.patch(CONFIG_MAPS + "/b", {"data": {"x": "y"}})
    await api.delete(CONFIG_MAPS + "/b")
    api.server.set_lag(0)
    assert [(type_, name) for type_, name, _revision in await events.take(3)] == [
        ("ADDED", "b"),
        ("MODIFIED", "b"),
        ("DELETED", "b"),
    ]


async def test_existing_watches_end_and_resume_from_the_lagging_cache(api: Api) -> None:
    await api.create(CONFIG_MAPS, config_map("a"))
    revision = api.store.revision
    events = await api.watch(CONFIG_MAPS + f"?resourceVersion={revision}")
    api.server.set_lag(1.0)
    remaining = len(await events.rest())
    again = await api.watch(CONFIG_MAPS + f"?resourceVersion={revision}")
    await api.create(CONFIG_MAPS, config_map("b"))
    first_events = await again.take(1)
    assert remaining == 0
    assert [name for _type, name, _revision in first_events] == ["b"]


async def test_closing_the_server_ends_its_cache(api: Api) -> None:
    await _behind(api)
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=0")
    await events.next()
    async with asyncio.timeout(1):
        await api.server.close()
        assert len(await events.rest()) == 0
