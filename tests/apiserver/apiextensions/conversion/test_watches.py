"""Watches of custom resources with a conversion webhook."""

import asyncio

from tests.apiserver.api import Api
from tests.apiserver.apiextensions.conversion.things import (
    FAILED,
    V1,
    V2,
    served,
    v1_thing,
    v2_thing,
)


async def test_watch_events_are_converted(api: Api) -> None:
    hook = await served(api)
    await api.create(V1, v1_thing())
    events = await api.watch(V2)
    others = await api.watch(V2)
    assert hook.calls == [(["a"], "v2")]
    await api.patch(V1 + "/a", {"spec": {"hostPort": "x:2"}})
    await api.create(V2, v2_thing("b"))
    await api.delete(V1 + "/a")
    for stream in (events, others):
        observed = [await stream.next() for _ in range(4)]
        assert [
            (type_, obj["metadata"]["name"], obj["apiVersion"], obj["spec"]["host"]) for type_, obj in observed
        ] == [
            ("ADDED", "a", "example.com/v2", "h"),
            ("MODIFIED", "a", "example.com/v2", "x"),
            ("ADDED", "b", "example.com/v2", "h"),
            ("DELETED", "a", "example.com/v2", "x"),
        ]
        versions = [int(obj["metadata"]["resourceVersion"]) for _type, obj in observed]
        assert versions == sorted(set(versions))
    await events.stream.close()
    await others.stream.close()
    # The watchers share what is converted, a create its answer, and a deletion what was there before.
    assert [names for names, version in hook.calls if version == "v2"] == [["b"], ["a"]]


async def test_watch_selects_by_fields_of_the_requested_version(api: Api) -> None:
    await served(api)
    await api.create(V1, v1_thing("a", "x:1"))
    await api.create(V1, v1_thing("b", "y:1"))
    events = await api.watch(V2 + "?fieldSelector=spec.host%3Dx")
    await api.patch(V1 + "/b", {"spec": {"hostPort": "x:2"}})
    await api.patch(V1 + "/a", {"spec": {"hostPort": "y:2"}})
    await api.delete(V1 + "/b")
    observed = [await events.next() for _ in range(4)]
    assert [(type_, obj["metadata"]["name"], obj["spec"]["port"]) for type_, obj in observed] == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("DELETED", "a", "1"),
        ("DELETED", "b", "2"),
    ]
    await events.stream.close()


async def test_watch_ends_at_an_unconvertible_event(api: Api) -> None:
    """The client resumes at the last event, and is rejected until the event can be converted."""
    hook = await served(api)
    created = await api.create(V1, v1_thing())
    version = created["metadata"]["resourceVersion"]
    events = await api.watch(f"{V2}?resourceVersion={version}")
    await api.patch(V1 + "/a", {"spec": {"hostPort": "x:2"}})
    assert (await events.next())[1]["spec"]["host"] == "x"
    hook.failure = "Post: no"
    changed = await api.patch(V1 + "/a", {"spec": {"hostPort": "z:3"}})
    assert await events.rest() == []
    last = int(changed.meta["resourceVersion"]) - 1
    again = await api.get(f"{V2}?watch=true&resourceVersion={last}")
    assert (again.status, again.headers["retry-after"]) == (429, "1")
    assert again.message == f"storage is (re)initializing: {FAILED}failed: Post: no"
    hook.failure = ""
    events = await api.watch(f"{V2}?resourceVersion={last}")
    type_, obj = await events.next()
    assert (type_, obj["spec"]["host"]) == ("MODIFIED", "z")
    await events.stream.close()


async def test_watch_waiting_for_a_webhook_can_be_closed(api: Api) -> None:
    hook = await served(api)
    events = await api.watch(V2)
    hook.seconds = 25
    await api.create(V1, v1_thing())
    waiting = asyncio.ensure_future(events.rest())
    await asyncio.sleep(1)
    began = api.env.monotonic()
    await events.stream.close()
    assert await waiting == []
    assert api.env.monotonic() == began


async def test_bookmarks_of_a_watch_list(api: Api) -> None:
    await served(api)
    await api.create(V1, v1_thing())
    query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    events = await api.watch(V2 + query)
    first, second = await events.next(), await events.next()
    assert (first[0], first[1]["spec"]["host"]) == ("ADDED", "h")
    assert (second[0], second[1]["apiVersion"]) == ("BOOKMARK", "example.com/v2")
    assert second[1]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await events.stream.close()
