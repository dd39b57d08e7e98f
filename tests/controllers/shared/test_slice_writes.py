"""Order and accounting of slice writes."""

import msgspec
import pytest
from tests.controllers.node_world import World
from tests.tables import cases

from pilothouse.api.discovery import EndpointSlice
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.shared.slice_tracker import SliceTracker, StaleSlices
from pilothouse.controllers.shared.slice_writes import NotWritten, SliceWrites, changed_body, new_body

KEY = "default/web"


def one(name: str, namespace: str = "default") -> EndpointSlice:
    return EndpointSlice(metadata=ObjectMeta(name=name, namespace=namespace), address_type="IPv4")


def again(name: str) -> tuple[EndpointSlice, bytes]:
    return one(name), new_body(one(name))


def writes_of(world: World, tracker: SliceTracker | None = None) -> SliceWrites:
    changes = world.metrics.counter("changes", "Changes", ("operation",))
    return SliceWrites(Client(world.faults, world.env), tracker or SliceTracker(lambda: ""), changes)


def test_empty_lists_are_null() -> None:
    """As v1.36.2 stores a slice without endpoints, with ``endpoints`` and ``ports`` in nobody's managedFields."""
    body = msgspec.json.decode(new_body(one("a")))
    assert (body["endpoints"], body["ports"]) == (None, None)
    assert msgspec.json.decode(changed_body(new_body(one("a")), one("a")))["endpoints"] is None


def verbs(world: World) -> list[str]:
    return [text.split()[0] for text in world.requests()]


def counted(world: World) -> list[float]:
    return [world.metrics.value("changes", operation) for operation in ("create", "update", "delete")]


async def test_creates_come_before_updates_and_updates_before_deletes(world: World) -> None:
    writes = writes_of(world)
    assert await writes.apply(KEY, [one("a"), one("b")], [], [], reason="a test")
    assert await writes.apply(KEY, [one("c")], [again("a")], [one("b"), one("gone")], reason="a test")
    assert verbs(world) == ["create", "create", "create", "update", "delete", "delete"]
    assert counted(world) == [3, 1, 1], "what was gone already is no change"


@cases(
    "verb, before, changes",
    {
        "a create": ("create", ["create"], [0, 0, 0]),
        "an update": ("update", ["create", "update"], [1, 0, 0]),
        "a delete": ("delete", ["create", "update", "delete"], [1, 1, 0]),
    },
)
async def test_first_failed_write_stops(world: World, verb: str, before: list[str], changes: list[float]) -> None:
    admin = SliceWrites(
        world.admin, SliceTracker(lambda: ""), world.metrics.counter("others", "Others", ("operation",))
    )
    await admin.apply(KEY, [one("a"), one("b"), one("c")], [], [], reason="a test")
    world.faults.add(Rule(fail(500), verb=verb))
    with pytest.raises(NotWritten, match=f"^failed to {verb} .*EndpointSlice: injected fault$"):
        await writes_of(world).apply(KEY, [one("d")], [again("a")], [one("b"), one("c")], reason="a test")
    assert verbs(world) == before
    assert counted(world) == changes


async def test_terminating_namespace_is_skipped(world: World) -> None:
    await world.request("POST", "/api/v1/namespaces", {"metadata": {"name": "ending"}})
    await world.delete("/api/v1/namespaces/ending")
    slices_to_write = [one(name, "ending") for name in ("a", "b", "c")]
    assert not await writes_of(world).apply("ending/web", slices_to_write, [again("d")], [one("e")], reason="a test")
    assert verbs(world) == ["create"]
    assert counted(world) == [0, 0, 0]


async def test_writes_must_be_observed_before_the_next_sync(world: World) -> None:
    tracker = SliceTracker(lambda: "")
    writes = writes_of(world, tracker)
    await writes.apply(KEY, [one("a")], [], [], reason="a test")
    with pytest.raises(StaleSlices):
        tracker.check(KEY, [])
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/a"
    uid = (await world.must_get(path))["metadata"]["uid"]
    observed_slice = EndpointSlice(metadata=ObjectMeta(name="a", namespace="default", uid=uid, generation=1))
    tracker.check(KEY, [observed_slice])
    await writes.delete(KEY, observed_slice, counted=False)
    with pytest.raises(StaleSlices):
        tracker.check(KEY, [observed_slice])
    assert await world.get(path) is None
    assert counted(world) == [1, 0, 0]
