"""watch: initial resource versions, transitions, bookmarks, ends; expectations are those of kube-apiserver v1.36.2."""

import asyncio

import msgspec
import pytest
from tests.apiserver.api import CONFIG_MAPS, PODS, Api, Object, config_map, pod
from tests.tables import cases

from pilothouse.api.wire import Request
from pilothouse.apiserver import ServerOptions
from pilothouse.env import Env


async def _create_b_and_a(api: Api) -> None:
    for name in ("b", "a"):
        await api.create(CONFIG_MAPS, config_map(name))


@cases(
    "query, expected",
    {
        "unset: existing objects, then events": ("", ["ADDED a 8", "ADDED b 7", "ADDED c 9"]),
        "zero: the same": ("resourceVersion=0", ["ADDED a 8", "ADDED b 7", "ADDED c 9"]),
        "a revision: events after it": ("resourceVersion=7", ["ADDED a 8", "ADDED c 9"]),
        "the newest: only new events": ("resourceVersion=8", ["ADDED c 9"]),
        "resourceVersion 1: the whole history": ("resourceVersion=1", ["ADDED b 7", "ADDED a 8", "ADDED c 9"]),
        "sendInitialEvents: existing objects, bookmark, events": (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
            ["ADDED a 8", "ADDED b 7", "BOOKMARK  8 end", "ADDED c 9", "BOOKMARK  9"],
        ),
        "sendInitialEvents without bookmarks: no end marker": (
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            ["ADDED a 8", "ADDED b 7", "ADDED c 9"],
        ),
        "sendInitialEvents false: only new events": (
            "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
            ["ADDED c 9"],
        ),
        "initial-events-end bookmark of resourceVersion 0": (
            "resourceVersion=0&allowWatchBookmarks=true",
            ["ADDED a 8", "ADDED b 7", "BOOKMARK  8 end", "ADDED c 9", "BOOKMARK  9"],
        ),
    },
)
async def test_start_resource_version(api: Api, query: str, expected: list[str]) -> None:
    await _create_b_and_a(api)
    events = await api.watch(f"{CONFIG_MAPS}?timeoutSeconds=5&{query}")
    await api.create(CONFIG_MAPS, config_map("c"))
    observed = []
    for type_, obj in await events.rest():
        meta = obj["metadata"]
        end = " end" if meta.get("annotations") == {"k8s.io/initial-events-end": "true"} else ""
        observed.append(f"{type_} {meta.get('name', '')} {meta['resourceVersion']}{end}")
    assert observed == expected


async def test_watched_objects_have_kind_and_api_version(api: Api) -> None:
    await _create_b_and_a(api)
    obj = (await (await api.watch(CONFIG_MAPS)).next())[1]
    assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")


async def test_label_changes_are_added_and_deleted_events(api: Api) -> None:
    created = await api.create(CONFIG_MAPS, config_map("x", data={"step": "0"}))
    since = created["metadata"]["resourceVersion"]
    events = await api.watch(f"{CONFIG_MAPS}?labelSelector=on%3D1&resourceVersion={since}&timeoutSeconds=5")
    revisions = []
    for step, on_ in (("1", "1"), ("2", "1"), ("3", None), ("4", None), ("5", "1")):
        body = {"metadata": {"labels": {"on": on_}}, "data": {"step": step}}
        revisions.append((await api.patch(CONFIG_MAPS + "/x", body)).body["metadata"]["resourceVersion"])
    await api.delete(CONFIG_MAPS + "/x")
    seen = [(type_, obj["data"]["step"], obj["metadata"]["resourceVersion"]) for type_, obj in await events.rest()]
    # A DELETED event has the last content that matched, and the revision of the write that no longer matches.
    *before, last = seen
    assert before == [
        ("ADDED", "1", revisions[0]),
        ("MODIFIED", "2", revisions[1]),
        ("DELETED", "2", revisions[2]),
        ("ADDED", "5", revisions[4]),
    ]
    assert last[:2] == ("DELETED", "5")
    assert int(last[2]) > int(revisions[4])


async def test_field_changes_are_added_and_deleted_events(api: Api) -> None:
    await api.create(PODS, pod("a"))
    await api.create(PODS, pod("b"))
    events = await api.watch(PODS + "?fieldSelector=spec.nodeName%3Dn1")
    await api.post(PODS + "/b/binding", {"metadata": {"name": "b"}, "target": {"name": "n2"}})
    await api.post(PODS + "/a/binding", {"metadata": {"name": "a"}, "target": {"name": "n1"}})
    await api.patch(PODS + "/a/status", {"status": {"phase": "Running"}})
    assert await events.take(2) == [("ADDED", "a", "10"), ("MODIFIED", "a", "11")]


async def test_watch_of_a_single_object(api: Api) -> None:
    await _create_b_and_a(api)
    query = "timeoutSeconds=3&resourceVersion=8"
    watches = [
        await api.watch(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Da&{query}"),
        await api.watch(f"/api/v1/watch/namespaces/default/configmaps/a?{query}"),
    ]
    for name in ("a", "b"):
        await api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"x": "1"}})
    for events in [await watch.rest() for watch in watches]:
        assert [(type_, obj["metadata"]["name"]) for type_, obj in events] == [("MODIFIED", "a")]


async def test_all_watchers_get_the_same_bytes(api: Api) -> None:
    watches = [await api.watch(CONFIG_MAPS), await api.watch("/api/v1/configmaps")]
    await api.create(CONFIG_MAPS, config_map("x"))
    first, second = [await watch.line() for watch in watches]
    assert first is second
    assert first.endswith(b"}\n")


# Bookmarks and ends


@cases(
    "accept, query",
    {
        "protobuf": ("application/vnd.kubernetes.protobuf", ""),
        "metadata only": ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", ""),
        "label selector": ("application/json", "&labelSelector=app%3Dx"),
        "field selector": ("application/json", "&fieldSelector=spec.nodeName%3Dn1"),
    },
)
async def test_event_is_encoded_once_per_encoding(api: Api, accept: str, query: str) -> None:
    streams = []
    for _ in range(3):
        target = f"{PODS}?watch=true&resourceVersion={api.store.revision}{query}"
        streams.append(await api.transport.open(Request("GET", target, {"accept": accept})))
    await api.create(PODS, pod(labels={"app": "x"}, nodeName="n1"))
    first, *other_pieces = [await stream.__aiter__().__anext__() for stream in streams]
    assert all(piece is first for piece in other_pieces)


async def test_bookmarks_are_sent_every_minute_and_before_the_end(api: Api) -> None:
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=6&allowWatchBookmarks=true&timeoutSeconds=150")
    observed = []
    async for _line in events.stream:
        observed.append((api.env.monotonic(), api.env.now().isoformat()[14:19]))
        await api.create(PODS, pod(f"pod-{len(observed)}"))
    assert [at for at, _text in observed] == [60.0, 120.0, 148.0]


async def test_bookmark_is_not_repeated_without_writes(api: Api) -> None:

    async def write_after(api: Api, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await api.create(PODS, pod("later"))

    events = await api.watch(CONFIG_MAPS + "?resourceVersion=6&allowWatchBookmarks=true&timeoutSeconds=600")
    observed = []
    writing = asyncio.get_running_loop().create_task(write_after(api, 250))
    async for line in events.stream:
        revision = msgspec.json.decode(line)["object"]["metadata"]["resourceVersion"]
        observed.append((api.env.monotonic(), revision))
    await writing
    assert observed == [(60.0, "6"), (300.0, "7"), (598.0, "7")]


async def test_bookmark_has_only_a_resource_version(api: Api) -> None:
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=6&allowWatchBookmarks=true")
    # A write of another resource increases the revision.
    await api.create(PODS, pod())
    assert await events.next() == (
        "BOOKMARK",
        {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}},
    )


async def test_default_timeout_is_between_30_and_60_minutes(api: Api) -> None:
    await (await api.watch(CONFIG_MAPS + "?resourceVersion=6")).rest()
    assert 1800 <= api.env.monotonic() < 3600


async def test_compacted_resource_version_is_an_error_event(api: Api) -> None:
    await _create_b_and_a(api)
    api.store.compact(7)
    [(type_, status)] = await (await api.watch(CONFIG_MAPS + "?resourceVersion=6")).rest()
    assert type_ == "ERROR"
    assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
    assert status["message"] == "too old resource version: 6 (7)"


async def test_watch_waits_for_a_future_resource_version(api: Api) -> None:
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=8")
    for name in ("b", "a", "c"):
        await asyncio.sleep(10)
        await api.create(CONFIG_MAPS, config_map(name))
    assert (await events.take(1))[0] == ("ADDED", "c", "9")


async def test_watch_of_an_unreached_future_resource_version_ends_without_events(api: Api) -> None:
    """There is no final bookmark to wait for; the wait was a busy loop."""
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=1000&timeoutSeconds=300&allowWatchBookmarks=true")
    assert (await events.rest(), api.env.monotonic()) == ([], 300)


async def test_watch_list_times_out_waiting_for_a_future_resource_version(api: Api) -> None:
    query = "resourceVersion=99&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    [(type_, status)] = await (await api.watch(f"{CONFIG_MAPS}?{query}")).rest()
    assert (type_, status["code"]) == ("ERROR", 504)
    assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


@cases(
    "query, code, message",
    {
        "initial events need a match": (
            "sendInitialEvents=true",
            422,
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        "a match needs initial events": (
            "resourceVersionMatch=NotOlderThan",
            422,
            "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
            "provided",
        ),
        "invalid resourceVersion": (
            "resourceVersion=abc",
            500,
            'resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax',
        ),
    },
)
async def test_rejected_options(api: Api, query: str, code: int, message: str) -> None:
    answer = await api.get(f"{CONFIG_MAPS}?watch=true&{query}")
    status = answer.status
    body = answer.body
    assert status == code
    assert body["message"].endswith(message)


async def test_slow_watcher_is_terminated(api: Api) -> None:
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=6")
    await api.create(CONFIG_MAPS, config_map("x"))
    for step in range(5000):
        await api.patch(CONFIG_MAPS + "/x", {"data": {"step": str(step)}})
    assert 0 < len(await events.rest()) < 5001


async def test_closing_a_watch_ends_its_reader(api: Api) -> None:
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=6")
    reading = asyncio.ensure_future(events.rest())
    await asyncio.sleep(1)
    await events.stream.close()
    await events.stream.close()
    assert not api.server.core.watches
    assert await reading == []


@pytest.mark.not_on("etcd", reason="etcd ends leases by its own clock")
async def test_event_ttl_is_one_hour_after_the_last_write(api: Api) -> None:
    target = "/api/v1/namespaces/default/events"

    def event(name: str) -> Object:
        return {"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}}

    running = asyncio.ensure_future(api.server.run())
    observed = []
    await api.create(target, event("old"))
    await api.create(target, event("kept"))
    await asyncio.sleep(1800)
    await api.patch(target + "/kept", {"count": 2})
    for seconds in (1700, 200, 1800):
        await asyncio.sleep(seconds)
        listed = await api.get(target)
        observed.append([item["metadata"]["name"] for item in listed.body["items"]])
    running.cancel()
    assert observed == [["kept", "old"], ["kept"], []]


async def test_bookmark_cadence_is_an_option(env: Env) -> None:
    api = Api(env, ServerOptions(bookmark_seconds=7))
    events = await api.watch(CONFIG_MAPS + "?resourceVersion=6&allowWatchBookmarks=true")
    await events.next()
    assert api.env.monotonic() == 7
