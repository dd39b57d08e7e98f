"""Migrations of widgets beside the garbage collector, in virtual time."""

import asyncio
import json
from collections.abc import AsyncIterator

import msgspec
import pytest
from tests.controllers import node_world
from tests.controllers.node_world import World
from tests.controllers.storage_version_migrator.widgets import (
    DEFINITION,
    MIGRATIONS,
    definition,
    migration,
    stored_version,
    versions,
    widget,
    widgets,
)
from tests.custom_resources import DEFINITIONS
from tests.tables import cases

from pilothouse.api.wire import Response
from pilothouse.apiserver import ServerOptions
from pilothouse.apiserver.admission.dynamic.webhook_calls import Target
from pilothouse.client.interceptor import Action, Answer, Rule, delay_answer, fail, lose_answer, refuse
from pilothouse.controllers.cleanup.garbage_collector import DESCRIPTOR as GARBAGE_COLLECTOR
from pilothouse.controllers.cleanup.storage_version_migrator import DESCRIPTOR
from pilothouse.env import Env

SERVER = ServerOptions(gates=("StorageVersionMigrator",))
A_LOOK, UNTIL_DONE = 35.0, 100.0
"""Until the garbage collector discovers a new resource; and until a cache gets a bookmark."""


async def stale(world: World) -> None:
    """Two widgets that are stored in v1, where v2 is the version of today."""
    await world.request("POST", DEFINITIONS, definition())
    for name in ("a", "b"):
        await world.request("POST", widgets("v1"), widget(name))
    await world.merge(DEFINITION, {"spec": {"versions": versions("v2")}})


async def prepare(world: World) -> None:
    """Create the definition and widgets, and start both controllers."""
    await stale(world)
    await world.start(DESCRIPTOR, beside=(GARBAGE_COLLECTOR,))
    await asyncio.sleep(A_LOOK)
    world.seen.clear()


@pytest.fixture
async def world(env: Env) -> AsyncIterator[World]:
    async with node_world.world(env, SERVER) as world:
        await prepare(world)
        yield world


def stored(world: World) -> dict[str, str]:
    """The version that each widget is stored in."""
    prefix = "example.com/widgets/default/"
    return {
        record.key.removeprefix(prefix): stored_version(record.value) for record in world.store.list(prefix).records
    }


async def conditions_of(world: World, name: str = "m") -> dict[str, tuple[str, str, str]]:
    """The conditions of a migration."""
    result = await world.conditions(f"{MIGRATIONS}/{name}")
    return {type_: (one["status"], one["reason"], one["message"]) for type_, one in result.items()}


async def outcome_of(world: World, name: str = "m") -> tuple[str, str]:
    """``Succeeded`` or ``Failed``, and why."""
    over = {type_: one for type_, one in (await conditions_of(world, name)).items() if type_ != "Running"}
    assert len(over) == 1, over
    [(type_, (status, _reason, message))] = over.items()
    assert status == "True"
    return type_, message


def patched(world: World) -> list[str]:
    """Which widgets were written."""
    return [text.rpartition(" ")[2] for text in world.requests() if text.startswith("patch widgets ")]


async def test_objects_are_rewritten_in_the_storage_version(world: World) -> None:
    await world.request("POST", widgets("v1"), widget("c"))
    assert stored(world) == {"a": "v1", "b": "v1", "c": "v2"}
    before = await world.must_get(f"{widgets('v2')}/a")
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(UNTIL_DONE)
    assert stored(world) == {"a": "v2", "b": "v2", "c": "v2"}
    assert await conditions_of(world) == {
        "Running": ("False", "MigrationCompleted", "Migration completed"),
        "Succeeded": ("True", "StorageVersionMigrationSucceeded", ""),
    }
    after = await world.must_get(f"{widgets('v2')}/a")
    assert after["metadata"].pop("resourceVersion") != before["metadata"].pop("resourceVersion")
    assert after == before, "nothing else is another one, nor has anybody become its manager"
    crd = await world.must_get(DEFINITION)
    assert crd["status"]["storedVersions"] == ["v2"]
    condition = (await world.conditions(DEFINITION))["StorageMigrating"]
    assert (condition["status"], condition["reason"]) == ("False", "MigrationSucceeded")
    assert condition["message"] == "The migration has succeeded and the stored versions have been updated"
    requests = [text for text in world.requests() if text.split()[1:]]  # the collector looks at what is served
    assert requests == [
        "get customresourcedefinitions widgets.example.com",
        "patch customresourcedefinitions/status widgets.example.com",
        "update storageversionmigrations/status m",
        "update storageversionmigrations/status m",
        *(f"patch widgets {name}" for name in ("a", "b", "c")),
        "update storageversionmigrations/status m",
        "get customresourcedefinitions widgets.example.com",
        "patch customresourcedefinitions/status widgets.example.com",
        "update storageversionmigrations/status m",
    ]


async def test_recreated_migration_is_independent_of_its_predecessor(world: World) -> None:
    world.faults.add(Rule(delay_answer(5.0), verb="patch", resource="widgets", times=1))
    await world.request("POST", MIGRATIONS, migration())
    for _ in range(1000):
        if patched(world):
            break
        await asyncio.sleep(0.1)
    await world.delete(f"{MIGRATIONS}/m")
    await world.request("POST", MIGRATIONS, migration(resource="nothings"))
    await asyncio.sleep(UNTIL_DONE)
    assert patched(world) == ["a", "b"]
    assert await outcome_of(world) == ("Failed", "resource does not exist in discovery")


async def test_unused_stored_version_can_be_removed(world: World) -> None:
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(UNTIL_DONE)
    await world.merge(DEFINITION, {"spec": {"versions": versions("v2", served=("v2",))}})
    items = (await world.must_get(widgets("v2")))["items"]
    assert [item["spec"] for item in items] == [{"size": 1}, {"size": 1}]


async def test_second_migration_keeps_stored_versions(world: World) -> None:
    """Upstream removes ``storedVersions`` at the start, having applied them before."""
    await world.request("POST", MIGRATIONS, migration("first"))
    await asyncio.sleep(UNTIL_DONE)
    revisions = [record.revision for record in world.store.list("example.com/widgets/").records]
    observed: list[list[str]] = []
    world.store.on_commit.append(
        lambda changes: observed.extend(
            msgspec.json.decode(change.value)["status"]["storedVersions"]
            for change in changes
            if change.key.endswith("/widgets.example.com")
        )
    )
    await world.request("POST", MIGRATIONS, migration("second"))
    await asyncio.sleep(UNTIL_DONE)
    assert await outcome_of(world, "second") == ("Succeeded", "")
    assert [record.revision for record in world.store.list("example.com/widgets/").records] == revisions
    assert len(observed) >= 2
    assert all(versions == ["v2"] for versions in observed)


async def test_built_in_resources_are_migrated(world: World) -> None:
    await world.request("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
    await world.request("POST", MIGRATIONS, migration(resource="secrets", group=""))
    await asyncio.sleep(UNTIL_DONE)
    assert await outcome_of(world) == ("Succeeded", "")
    assert "patch secrets s" in world.requests()
    assert not [text for text in world.requests() if "customresourcedefinitions" in text]


async def test_migrations_of_one_resource_are_sequential(world: World) -> None:
    for name in ("b", "a"):
        await world.request("POST", MIGRATIONS, migration(name))
        await asyncio.sleep(2)
    await world.request("POST", MIGRATIONS, migration("other", resource="secrets", group=""))
    await asyncio.sleep(2)
    assert [(await conditions_of(world, name)).keys() for name in ("b", "a", "other")] == [
        {"Running"},
        set(),
        {"Running"},
    ]
    await asyncio.sleep(2 * UNTIL_DONE)
    assert [await outcome_of(world, name) for name in ("b", "a", "other")] == [("Succeeded", "")] * 3
    versions = [int((await world.must_get(f"{MIGRATIONS}/{name}"))["status"]["resourceVersion"]) for name in ("b", "a")]
    assert versions[0] < versions[1]


async def test_deleted_migration_starts_the_next(world: World) -> None:
    with world.faults.hold(resource="widgets"):
        for name in ("a", "b"):
            await world.request("POST", MIGRATIONS, migration(name))
            await asyncio.sleep(2)
        await world.delete(f"{MIGRATIONS}/a")
        await asyncio.sleep(2)
        assert (await conditions_of(world, "b")).keys() == {"Running"}
    await asyncio.sleep(UNTIL_DONE)
    assert await outcome_of(world, "b") == ("Succeeded", "")


async def test_migration_waits_for_the_garbage_collectors_cache(world: World) -> None:
    with world.faults.hold(resource="widgets"):
        await world.request("POST", widgets("v1"), widget("c"))
        await world.request("POST", MIGRATIONS, migration())
        await asyncio.sleep(2 * UNTIL_DONE)
        assert patched(world) == []
        assert (await conditions_of(world)).keys() == {"Running"}
    await asyncio.sleep(UNTIL_DONE)
    assert patched(world) == ["a", "b", "c"]


async def test_concurrently_changed_or_deleted_objects_are_skipped(world: World) -> None:
    """``a`` is changed, ``b`` deleted, and ``c`` recreated before the migration reaches them."""
    await world.request("POST", widgets("v1"), widget("c"))
    await asyncio.sleep(1)

    busy = world.faults.add(Rule(fail(503), verb="patch", resource="widgets"))
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(UNTIL_DONE)
    assert set(patched(world)) == {"a"}, "it has begun, and tries again and again"
    with world.faults.hold(resource="widgets"):
        await world.merge(f"{widgets('v1')}/a", {"spec": {"size": 2}})
        for name in ("b", "c"):
            await world.delete(f"{widgets('v1')}/{name}")
        await world.request("POST", widgets("v1"), widget("c", 3))
        world.faults.remove(busy)
        await asyncio.sleep(2 * UNTIL_DONE)
    assert patched(world)[-3:] == ["a", "b", "c"]
    assert await outcome_of(world) == ("Succeeded", "")
    assert stored(world) == {"a": "v2", "c": "v2"}
    items = (await world.must_get(widgets("v2")))["items"]
    assert [item["spec"]["size"] for item in items] == [2, 3]


async def test_rejected_write_fails_the_migration(world: World) -> None:
    world.faults.add(Rule(fail(403, "Forbidden", "not this one"), verb="patch", resource="widgets", name="b"))
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(UNTIL_DONE)
    assert await outcome_of(world) == ("Failed", "migration encountered unhandled error: not this one")
    crd = await world.must_get(DEFINITION)
    assert crd["status"]["storedVersions"] == ["v1", "v2"], "upstream forgets v1, in which b is stored"
    condition = (await world.conditions(DEFINITION))["StorageMigrating"]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "False",
        "MigrationFailed",
        "The migration has failed",
    )
    assert patched(world) == ["a", "b"]


@cases(
    "action",
    {
        "an error": fail(500),
        "service unavailable": fail(503),
        "out of time": fail(504, "Timeout"),
        "connection refused": refuse(),
        "the answer is lost": lose_answer(),
    },
)
@pytest.mark.parametrize("verb", ["patch", "update", "list", "get"])
async def test_temporary_server_errors_are_retried(world: World, action: Action, verb: str) -> None:
    world.faults.add(Rule(action, verb=verb, times=3))
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(UNTIL_DONE)
    assert await outcome_of(world) == ("Succeeded", "")
    assert stored(world) == {"a": "v2", "b": "v2"}
    assert (await world.must_get(DEFINITION))["status"]["storedVersions"] == ["v2"]


async def test_retry_after_is_respected(world: World) -> None:
    busy = world.faults.add(Rule(fail(429, "TooManyRequests", retry_after=20), verb="patch", resource="widgets"))
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(600)
    assert (await conditions_of(world)).keys() == {"Running"}
    assert 10 < len(patched(world)) < 35, "every 20 s"
    world.faults.remove(busy)
    await asyncio.sleep(60)
    assert await outcome_of(world) == ("Succeeded", "")


@cases(
    "resource, group, expected",
    {
        "an unserved resource": ("gadgets", "example.com", "resource does not exist in discovery"),
        "a group that it is not in": ("widgets", "", "resource does not exist in discovery"),
    },
)
async def test_unserved_resource_fails_after_a_minute(world: World, resource: str, group: str, expected: str) -> None:
    await world.request("POST", MIGRATIONS, migration(resource=resource, group=group))
    await asyncio.sleep(50)
    assert (await conditions_of(world)).keys() == {"Running"}, "it may be a new one"
    await asyncio.sleep(100)
    assert await outcome_of(world) == ("Failed", expected)


async def test_resource_served_later_is_migrated(world: World) -> None:
    other = definition()
    other["metadata"]["name"] = "gadgets.example.com"
    other["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    await world.request("POST", MIGRATIONS, migration(resource="gadgets"))
    await asyncio.sleep(10)
    await world.request("POST", DEFINITIONS, other)
    await asyncio.sleep(2 * UNTIL_DONE)
    assert await outcome_of(world) == ("Succeeded", "")


async def test_resource_without_patch_fails_immediately(world: World) -> None:
    await world.request("POST", MIGRATIONS, migration(resource="bindings", group=""))
    await asyncio.sleep(1)
    type_, message = await outcome_of(world)
    assert type_ == "Failed"
    assert message == ('resource "/v1, Resource=bindings" does not support discovery operations: [update patch list]')


async def test_unmonitored_resource_fails_after_a_minute(world: World) -> None:
    """The garbage collector does not monitor events. Upstream retries forever."""
    await world.request("POST", MIGRATIONS, migration(resource="events", group=""))
    await asyncio.sleep(50)
    assert (await conditions_of(world)).keys() == {"Running"}
    await asyncio.sleep(50)
    text = "migration encountered unhandled error: no monitor found for resource /v1, Resource=events"
    assert await outcome_of(world) == ("Failed", text)


async def test_incomparable_resource_versions_fail_the_migration(world: World) -> None:
    world.faults.add(Rule(_odd_versions(), verb="list", resource="widgets", times=1))
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(2)
    why = "is not valid: resource version is not well formed: 1a"
    text = f"latest resourceVersion for example.com/v2, Resource=widgets {why}"
    assert await outcome_of(world) == ("Failed", text)


def _odd_versions() -> Answer:
    body = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1a"}}
    return Answer(Response(200, {"content-type": "application/json"}, msgspec.json.encode(body)))


async def test_definition_changed_during_the_migration_keeps_stored_versions(world: World) -> None:
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(1)
    await world.merge(DEFINITION, {"spec": {"names": {"shortNames": ["wd"]}}})
    await asyncio.sleep(UNTIL_DONE)
    assert await outcome_of(world) == ("Succeeded", "")
    crd = await world.must_get(DEFINITION)
    assert crd["status"]["storedVersions"] == ["v1", "v2"]
    condition = (await world.conditions(DEFINITION))["StorageMigrating"]
    text = "The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
    assert condition["message"] == text


async def test_another_manager_finishes_the_migration(env: Env) -> None:
    async with node_world.world(env, server=SERVER) as world:
        await stale(world)
        first = await world.start(DESCRIPTOR, beside=(GARBAGE_COLLECTOR,))
        rule = world.faults.add(Rule(fail(500), verb="patch", resource="widgets"))
        await world.request("POST", MIGRATIONS, migration())
        await asyncio.sleep(3 * UNTIL_DONE)
        first.cancel()
        world.faults.remove(rule)
        await world.start(DESCRIPTOR, beside=(GARBAGE_COLLECTOR,))
        await asyncio.sleep(UNTIL_DONE)
        assert await outcome_of(world) == ("Succeeded", ""), "its cache was not there at once"
        assert stored(world) == {"a": "v2", "b": "v2"}
        assert (await world.must_get(DEFINITION))["status"]["storedVersions"] == ["v2"]


async def test_objects_are_converted_by_the_webhook(world: World) -> None:
    """By the webhook of the definition, which the garbage collector needs for its cache as well."""
    requests: list[str] = []

    async def send(_target: Target, body: bytes) -> tuple[int, bytes]:
        review = json.loads(body)
        request = review["request"]
        requests.append(request["desiredAPIVersion"])
        converted = [
            {**obj, "apiVersion": requests[-1], "spec": {**obj["spec"], requests[-1].rpartition("/")[2]: True}}
            for obj in request["objects"]
        ]
        response = {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
        return 200, json.dumps({**review, "response": response}).encode()

    world.server.custom_resources.converter_factory.send = send
    webhook = {"clientConfig": {"url": "https://hooks.test/convert"}, "conversionReviewVersions": ["v1"]}
    await world.merge(DEFINITION, {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}})
    await asyncio.sleep(A_LOOK)
    await world.request("POST", MIGRATIONS, migration())
    await asyncio.sleep(UNTIL_DONE)
    assert (await outcome_of(world))[0] == "Succeeded"
    assert stored(world) == {"a": "v2", "b": "v2"}
    assert (await world.must_get(DEFINITION))["status"]["storedVersions"] == ["v2"]
    requests.clear()
    current = await world.must_get(f"{widgets('v2')}/a")
    assert (current["spec"], requests) == ({"size": 1, "v2": True}, [])
