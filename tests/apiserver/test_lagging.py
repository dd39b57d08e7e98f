"""A server that is behind on purpose: which reads are stale, which are the truth."""

import asyncio
import math

import pytest
from tests.apiserver.api import CONFIG_MAPS, Answer, Api, Object, config_map, on


async def _behind(api: Api, lag: float = math.inf) -> None:
    """``a`` is known to the copy, ``b`` is not."""
    await api.made(CONFIG_MAPS, config_map("a"))
    api.server.set_lag(lag)
    await api.made(CONFIG_MAPS, config_map("b"))


def _names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.body["items"]]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        pytest.param("", ["a", "b"], id="a list without a version is the truth"),
        pytest.param("?resourceVersion=0", ["a"], id="any version will do: from the cache"),
        pytest.param("?resourceVersion=0&limit=1", ["a"], id="the same in pages"),
        pytest.param("?resourceVersion=2&resourceVersionMatch=NotOlderThan", ["a"], id="not older than long ago"),
        pytest.param("?limit=5", ["a", "b"], id="pages of now are the truth"),
        pytest.param("?resourceVersion=0&fieldSelector=metadata.name%3Db", [], id="selectors look at the copy too"),
    ],
)
def test_lists(query: str, names: list[str]) -> None:
    async def main(api: Api) -> Answer:
        await _behind(api)
        return await api.get(CONFIG_MAPS + query)

    assert _names(on(main)) == names


def test_reads_of_one_object() -> None:
    async def main(api: Api) -> list[int]:
        await _behind(api)
        return [(await api.get(f"{CONFIG_MAPS}/b{query}")).status for query in ("", "?resourceVersion=0")]

    assert on(main) == [200, 404]


def test_not_older_than_something_new_waits_and_gives_up() -> None:
    async def main(api: Api) -> tuple[float, Answer]:
        await _behind(api)
        revision = api.store.revision
        began = api.env.monotonic()
        answer = await api.get(f"{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=NotOlderThan")
        return api.env.monotonic() - began, answer

    seconds, answer = on(main)
    assert (seconds, answer.status) == (3.0, 504)
    assert answer.body["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_watches_are_late() -> None:
    async def main(api: Api) -> tuple[float, str]:
        await _behind(api, 5.0)
        began = api.env.monotonic()
        events = await api.watch(CONFIG_MAPS)
        assert (await events.next())[1]["metadata"]["name"] == "a"
        _type, obj = await events.next()
        return api.env.monotonic() - began, obj["metadata"]["name"]

    assert on(main) == (5.0, "b")


def test_a_watch_that_wants_the_state_of_now_waits_for_it() -> None:
    query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

    async def main(api: Api) -> tuple[list[str], Object]:
        await _behind(api, 2.0)
        events = await api.watch(CONFIG_MAPS + query)
        seen = [(await events.next())[1]["metadata"].get("name", "end") for _ in range(3)]
        api.server.set_lag(math.inf)
        await api.made(CONFIG_MAPS, config_map("c"))
        late = await api.watch(CONFIG_MAPS + query)
        return seen, (await late.next())[1]

    seen, failed = on(main)
    assert seen == ["a", "b", "end"]
    assert (failed["code"], failed["reason"]) == (504, "Timeout")


def test_writes_and_their_conflicts_are_the_truth() -> None:
    async def main(api: Api) -> tuple[int, int, int]:
        await _behind(api)
        stale = (await api.get(CONFIG_MAPS + "/a?resourceVersion=0")).body
        changed = (await api.patch(CONFIG_MAPS + "/a", {"data": {"x": "y"}})).status
        conflict = (await api.put(CONFIG_MAPS + "/a", stale)).status
        return changed, conflict, (await api.post(CONFIG_MAPS, config_map("b"))).status

    assert on(main) == (200, 409, 409)


def test_a_stuck_cache_catches_up_in_order_when_it_is_let_go() -> None:
    async def main(api: Api) -> list[tuple[str, str, str]]:
        await _behind(api)
        events = await api.watch(CONFIG_MAPS + f"?resourceVersion={api.store.revision - 1}")
        await api.patch(CONFIG_MAPS + "/b", {"data": {"x": "y"}})
        await api.delete(CONFIG_MAPS + "/b")
        api.server.set_lag(0)
        return await events.take(3)

    assert [(type_, name) for type_, name, _revision in on(main)] == [
        ("ADDED", "b"),
        ("MODIFIED", "b"),
        ("DELETED", "b"),
    ]


def test_watches_from_before_end_and_their_clients_go_on_from_the_copy() -> None:
    async def main(api: Api) -> tuple[int, list[tuple[str, str, str]]]:
        await api.made(CONFIG_MAPS, config_map("a"))
        revision = api.store.revision
        events = await api.watch(CONFIG_MAPS + f"?resourceVersion={revision}")
        api.server.set_lag(1.0)
        left = len(await events.rest())
        again = await api.watch(CONFIG_MAPS + f"?resourceVersion={revision}")
        await api.made(CONFIG_MAPS, config_map("b"))
        return left, await again.take(1)

    left, seen = on(main)
    assert left == 0
    assert [name for _type, name, _revision in seen] == ["b"]


def test_closing_the_server_ends_its_copy() -> None:
    async def main(api: Api) -> int:
        await _behind(api)
        events = await api.watch(CONFIG_MAPS + "?resourceVersion=0")
        await events.next()
        async with asyncio.timeout(1):
            await api.server.close()
            return len(await events.rest())

    assert on(main) == 0
