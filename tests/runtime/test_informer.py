"""Informer notifications and cache content, event by event."""

import asyncio

import msgspec
import pytest
from tests.runtime.scripted import (
    EXPIRED,
    ScriptedServer,
    added,
    bookmark,
    deleted,
    failing,
    listed,
    modified,
    pod,
    watched,
)
from tests.runtime.test_reflector import RecordingHandler, play

from pilothouse.api.core import PODS, Pod
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client, WatchEvent
from pilothouse.env import Env, TaskGroup, virtual
from pilothouse.runtime import InformerFactory, Registry, SharedInformer
from pilothouse.runtime.reflector import Item

CLOSED_410 = watched(failing(410, "Expired"), end="end")


async def test_event_type_depends_on_the_cache(env: Env) -> None:
    """An ADDED for a known object is an update, a MODIFIED for an unknown one an add; a DELETED is always delivered."""
    _server, handled, _informer = await play(
        env,
        [
            listed(3, pod("a", 1)),
            watched(
                added(pod("a", 4)),
                modified(pod("b", 5)),
                modified(pod("b", 5)),
                deleted(pod("b", 6)),
                deleted(pod("never", 7)),
            ),
        ],
    )
    assert handled.lines == ["add a@1 initial", "update a@1 -> a@4", "add b@5", "delete b@6", "delete never@7"]


async def test_versions_of_an_object_share_its_name_and_uid(env: Env) -> None:
    seen: list[Pod] = []
    server = ScriptedServer(env, [listed(3, pod("a", 1)), watched(modified(pod("a", 4)))])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    informer.add_handler(lambda new, _initial: seen.append(new), lambda _old, new: seen.append(new))
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(5)
    running.cancel()
    old, new = seen
    assert (old.metadata.resource_version, new.metadata.resource_version) == ("1", "4")
    assert new.metadata.uid is old.metadata.uid
    assert new.metadata.name is old.metadata.name


async def test_object_recreated_between_two_lists_is_an_update_with_two_uids(env: Env) -> None:
    uids: list[tuple[str, str]] = []
    server = ScriptedServer(env, [listed(3, pod("a", 1, uid="u1")), CLOSED_410, listed(9, pod("a", 8, uid="u2"))])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    informer.add_handler(on_update=lambda old, new: uids.append((old.metadata.uid, new.metadata.uid)))
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(20)
    running.cancel()
    assert uids == [("u1", "u2")]


async def test_relist_replaces_the_cache_then_delivers_deletions_then_the_rest(
    env: Env,
) -> None:
    """Every handler that reads the cache sees the complete new state; handlers are not called for unchanged objects."""

    after = " | b@1 c@7 z@8"
    server = ScriptedServer(
        env,
        [
            listed(3, pod("d", 1), pod("c", 1), pod("b", 1), pod("a", 1)),
            watched(modified(pod("d", 4)), failing(410, "Expired"), end="end"),
            listed(9, pod("z", 8), pod("c", 7), pod("b", 1)),
        ],
    )
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    handled = RecordingHandler(informer)
    informer.add_handler(handled.add, handled.update, handled.delete)
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(20)
    running.cancel()
    assert handled.lines[5:] == [
        f"delete a@1 unknown{after}",
        f"delete d@4 unknown{after}",
        f"add z@8{after}",
        f"update c@1 -> c@7{after}",
    ]


async def test_unchanged_objects_of_a_relist_keep_their_identity(env: Env) -> None:
    handled: dict[str, Pod] = {}
    server = ScriptedServer(env, [listed(3, pod("a", 1), pod("b", 2)), CLOSED_410, listed(9, pod("a", 1), pod("b", 8))])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)

    def on_add(obj: Pod, _initial: bool) -> None:
        handled[obj.metadata.name] = obj

    informer.add_handler(on_add)
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(20)
    running.cancel()
    a, b = informer.cache.get("default/a"), informer.cache.get("default/b")
    assert a is handled["a"]
    assert b is not handled["b"]
    assert b is not None
    assert b.metadata.resource_version == "8"


async def test_bookmark_advances_the_resource_version_without_events(env: Env) -> None:
    _server, handled, informer = await play(env, [listed(3, pod("a", 1)), watched(bookmark(50))])
    assert handled.lines == ["add a@1 initial"]
    assert informer.cache.resource_version == "50"


async def test_late_handler_receives_initial_adds(env: Env) -> None:
    server = ScriptedServer(env, [listed(3, pod("b", 1), pod("a", 2)), watched(5.0, added(pod("c", 4)))])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    early, late = RecordingHandler(), RecordingHandler()
    informer.add_handler(early.add, early.update, early.delete)
    assert not informer.has_synced
    running = asyncio.create_task(informer.run())
    await informer.wait_synced()
    registration = informer.add_handler(late.add, late.update, late.delete)
    assert registration.has_synced
    await asyncio.sleep(6)
    registration.remove()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    with pytest.raises(RuntimeError, match="stopped"):
        informer.add_handler(late.add)
    with pytest.raises(RuntimeError, match="only once"):
        await informer.run()
    assert early.lines == ["add b@1 initial", "add a@2 initial", "add c@4"]
    assert late.lines == ["add a@2 initial", "add b@1 initial", "add c@4"]


async def test_handler_added_during_a_relist_sees_each_object_once(env: Env) -> None:
    many = [pod(f"p{n:04}", n + 1) for n in range(1000)]
    server = ScriptedServer(env, [listed(2000, *many), watched()])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    early, late = RecordingHandler(), RecordingHandler()
    informer.add_handler(early.add, early.update, early.delete)
    running = asyncio.create_task(informer.run())
    while not 0 < len(early.lines) < 1000:  # noqa: ASYNC110  # one turn of the loop at a time
        await asyncio.sleep(0)
    informer.add_handler(late.add, late.update, late.delete)
    await informer.wait_synced()
    assert len(early.lines) == len(late.lines) == len(set(late.lines)) == 1000
    running.cancel()


async def test_raising_handler_does_not_affect_others(env: Env) -> None:
    server = ScriptedServer(env, [listed(3, pod("a", 1)), watched(added(pod("b", 4)))])
    metrics = Registry()
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False, metrics=metrics)

    def bad(_obj: Pod, _initial: bool) -> None:
        raise KeyError("bad")

    handled = RecordingHandler()
    informer.add_handler(bad)
    informer.add_handler(handled.add)
    informer.cache.add_index("bad", lambda obj: [obj.metadata.labels["missing"]])
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(5)
    assert handled.lines == ["add a@1 initial", "add b@4"]
    assert metrics.value("pilothouse_handler_errors_total", "pods") == 4
    assert metrics.value("informer_store_resource_version", "", "", "v1", "pods") == 4
    running.cancel()


def test_assertion_error_in_a_handler_stops_a_virtual_run() -> None:
    async def main(env: Env) -> None:
        server = ScriptedServer(env, [listed(3, pod("a", 1)), watched()])
        informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)

        def insist(obj: Pod, _initial: bool) -> None:
            assert obj.metadata.name != "a", "never an a"

        informer.add_handler(insist)
        await informer.run()

    with pytest.raises(AssertionError, match="never an a"):
        virtual.run(main)


async def test_resync_notifies_each_handler_at_its_own_period(env: Env) -> None:
    server = ScriptedServer(env, [listed(3, pod("a", 1)), watched(25.0, modified(pod("a", 4)))])
    informer: SharedInformer[Pod] = SharedInformer(
        Client(server, env), env, PODS, stream_first=False, resync_seconds=30.0
    )
    resynced: dict[str, list[float]] = {"default": [], "often": [], "never": [], "less than never": []}

    def on_update(name: str) -> None:
        resynced[name].append(round(env.monotonic(), 1))

    informer.add_handler(on_update=lambda _old, _new: on_update("default"))
    informer.add_handler(on_update=lambda _old, _new: on_update("often"), resync_seconds=10.0)
    informer.add_handler(on_update=lambda _old, _new: on_update("never"), resync_seconds=0)
    informer.add_handler(on_update=lambda _old, _new: on_update("less than never"), resync_seconds=-1.0)
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(65)
    running.cancel()
    assert resynced == {
        "default": [25.0, 30.0, 60.0],
        "often": [10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0],
        "never": [25.0],
        "less than never": [25.0, 30.0, 60.0],
    }
    assert len(server.requests) == 2, "a resync never talks to the server"


async def test_resync_does_not_deliver_deleted_objects(env: Env) -> None:
    many = [pod(f"p{number:04}", 1) for number in range(1000)]
    server = ScriptedServer(env, [listed(3, *many), watched()])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    handled: list[str] = []
    informer.add_handler(on_update=lambda _old, new: handled.append(new.metadata.name), resync_seconds=60.0)
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(59)
    while not handled:  # noqa: ASYNC110  # until the resync has begun
        await asyncio.sleep(0 if env.monotonic() >= 60 else 1)
    missing = informer.cache.get("default/p0999")
    assert missing is not None
    informer.apply([WatchEvent("DELETED", missing)], record_version=True)
    await asyncio.sleep(1)
    assert handled == [f"p{number:04}" for number in range(999)]
    running.cancel()


async def test_resync_waits_for_a_relist_in_progress(env: Env) -> None:
    server = ScriptedServer(env, [listed(3, pod("old", 1)), watched()])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    known: set[str] = set()
    early: list[str] = []
    resynced: list[str] = []

    def on_update(old: Pod, new: Pod) -> None:
        assert old is new
        resynced.append(new.metadata.name)
        if new.metadata.name not in known:
            early.append(new.metadata.name)

    def on_add(obj: Pod, _initial: bool) -> None:
        known.add(obj.metadata.name)
        if obj.metadata.name == "p0000":
            registration.next_resync = env.monotonic()
            informer.add_handler()  # wakes the resync

    registration = informer.add_handler(on_add, on_update, resync_seconds=60.0)
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(1)
    names = [f"p{number:04}" for number in range(1000)]
    pods = {f"default/{name}": Pod(metadata=ObjectMeta(name=name, namespace="default")) for name in names}
    await informer.replace({key: Item(one, b"{}") for key, one in pods.items()}, frozenset(), "9")
    await asyncio.sleep(1)
    assert early == []
    assert len(resynced) == 1000, "and it is made up for"
    running.cancel()


async def test_filtering_handler_sees_only_matching_objects(env: Env) -> None:
    labels, other = {"app": "mine"}, {"app": "other"}
    server = ScriptedServer(
        env,
        [
            listed(3, pod("a", 1, labels=labels), pod("b", 1, labels=other)),
            watched(
                modified(pod("a", 4, labels=labels)),
                modified(pod("a", 5, labels=other)),
                modified(pod("b", 6, labels=labels)),
                deleted(pod("a", 7, labels=other)),
                deleted(pod("b", 8, labels=labels)),
            ),
        ],
    )
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)
    handled = RecordingHandler()
    informer.add_handler(
        handled.add, handled.update, handled.delete, predicate=lambda obj: obj.metadata.labels.get("app") == "mine"
    )
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(5)
    running.cancel()
    assert handled.lines == ["add a@1 initial", "update a@1 -> a@4", "delete a@4", "add b@6", "delete b@8"]


async def test_raw_objects_are_kept_without_managed_fields_and_only_on_request(env: Env) -> None:
    owned = pod("a", 1, managedFields=[{"manager": "kubectl"}], unknownToUs={"kept": True})
    server = ScriptedServer(env, [listed(3, owned), watched(modified(pod("a", 4, managedFields=[])))])
    factory = InformerFactory(Client(server, env), env, stream_first=False)
    informer = factory.informer(PODS)
    assert factory.informer(PODS, keep_raw=True) is informer
    async with TaskGroup() as group:
        factory.start(group)
        await factory.wait_synced()
        raw = informer.cache.raw("default/a")
        assert raw is not None
        assert b"managedFields" not in raw
        assert b'"unknownToUs":{"kept":true}' in raw
        await asyncio.sleep(1)
        raw = informer.cache.raw("default/a")
        assert raw is not None
        assert b"managedFields" not in raw
        group.cancel()


async def test_narrower_informer_is_not_shared(env: Env) -> None:
    factory = InformerFactory(Client(ScriptedServer(env, []), env), env)
    narrow = factory.informer(PODS.read_as(Object), offer=False)
    assert factory.existing("", "v1", "pods") is None
    whole = factory.informer(PODS)
    assert factory.existing("", "v1", "pods") is whole
    assert factory.informer(PODS.read_as(Object), offer=False) is narrow


async def test_factory_stops_an_informer_in_its_own_version_only(env: Env) -> None:
    factory = InformerFactory(Client(ScriptedServer(env, []), env), env)
    old, new = msgspec.structs.replace(PODS, version="v1beta1"), PODS
    informer = factory.informer(new)
    factory.stop(old)
    assert not informer.stopped
    assert factory.informer(new) is informer
    factory.stop(new)
    assert informer.stopped


async def test_factory_shares_starts_and_stops_informers(env: Env) -> None:
    server = ScriptedServer(env, [listed(3, pod("a", 1)), listed(5, pod("b", 1)), watched()])
    factory = InformerFactory(Client(server, env), env, stream_first=False)
    assert 12 * 3600 <= factory.resync_seconds < 24 * 3600
    first = factory.informer(PODS)
    assert factory.informer(PODS) is first
    assert factory.informer(PODS, namespace="other") is not first
    assert factory.informer(PODS.metadata).kind.metadata_only
    factory.stop(PODS.metadata)
    factory.stop(PODS)
    async with TaskGroup() as group:
        factory.start(group)
        again = factory.informer(PODS)
        assert id(again) != id(first)
        await again.wait_synced()
        assert [p.metadata.name for p in again.cache.list()] == ["a"]
        factory.stop(PODS)
        await asyncio.sleep(1)
        assert again.stopped
        assert len(again.cache) == 1
        metadata = factory.informer(PODS.metadata)
        names: list[str] = []
        metadata.add_handler(lambda obj, _initial: names.append(obj.metadata.name))
        await factory.wait_synced()
        assert names == ["b"]
        assert isinstance(metadata.cache.list()[0], Object)
        assert "PartialObjectMetadata" in server.requests[-1].headers["accept"]
        with pytest.raises(RuntimeError, match="keep_raw"):
            factory.informer(PODS.metadata, keep_raw=True)
        group.cancel()


async def test_stop_ends_wait_for_sync(env: Env) -> None:
    informer: SharedInformer[Pod] = SharedInformer(Client(ScriptedServer(env, [EXPIRED]), env), env, PODS)
    running = asyncio.create_task(informer.run())
    waiting = asyncio.create_task(informer.wait_synced())
    await asyncio.sleep(1)
    running.cancel()
    with pytest.raises(RuntimeError, match="stopped before it had synced"):
        await waiting


async def test_stop_before_start_ends_wait_for_sync(env: Env) -> None:
    registry = Registry()
    factory = InformerFactory(Client(ScriptedServer(env, [EXPIRED]), env), env, metrics=registry)
    async with TaskGroup() as group:
        informer = factory.informer(PODS)
        waiting = asyncio.create_task(informer.wait_synced())
        await asyncio.sleep(0)
        factory.start(group)
        factory.stop(PODS)  # in the same breath: its task never gets to run
        with pytest.raises(RuntimeError, match="stopped before it had synced"):
            await waiting
        assert informer.stopped
    assert not registry._collectors, "the metrics no longer hold it"


async def test_handler_added_by_a_handler_misses_no_events(env: Env) -> None:
    """It receives the cached objects, and all later events."""
    observed: list[str] = []
    server = ScriptedServer(env, [listed(3), watched(added(pod("a", 4)) + added(pod("b", 5)))])
    informer: SharedInformer[Pod] = SharedInformer(Client(server, env), env, PODS, stream_first=False)

    def on_add(obj: Pod, _initial: bool) -> None:
        if obj.metadata.name == "a":
            informer.add_handler(lambda late, initial: observed.append(f"{late.metadata.name} {initial}"))

    informer.add_handler(on_add)
    running = asyncio.create_task(informer.run())
    await asyncio.sleep(20)
    running.cancel()
    assert observed == ["a True", "b False"]


async def test_empty_list_syncs_the_informer(env: Env) -> None:
    _server, handled, informer = await play(env, [listed(3), watched()])
    assert informer.has_synced
    assert handled.lines == []
