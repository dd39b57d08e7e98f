"""Client behavior on every transport: in process, over HTTP to the embedded server, and to kube-apiserver.

The programs are the same, and so must be what they see. Only what both this release and Kubernetes v1.20 have is here.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from tests.real_cluster import RealCluster
from tests.stores import new_store

from pilothouse.api.core import NODES, PODS, Pod
from pilothouse.api.kinds import Kind
from pilothouse.apiserver.asgi import Application
from pilothouse.apiserver.authentication.authenticator import StaticTokenAuthenticator
from pilothouse.apiserver.handler_chain import HandlerChain
from pilothouse.apiserver.server import ApiServer
from pilothouse.client import (
    Client,
    WatchEvent,
    apply_patch,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from pilothouse.client.connect import connect
from pilothouse.client.credentials import bearer
from pilothouse.client.endpoint import parse_endpoint
from pilothouse.client.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
    has_cause,
)
from pilothouse.client.remote import RemoteTransport
from pilothouse.env import Env, TaskGroup
from pilothouse.serving import Server

CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, msgspec.Raw)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", False, msgspec.Raw)


@contextlib.asynccontextmanager
async def local(env: Env) -> AsyncIterator[Client]:
    """A client of an embedded server."""
    server = ApiServer(env, new_store(env))
    try:
        async with TaskGroup() as group:
            group.start(server.run())
            yield Client(server.transport("admin", ["system:masters"]), env)
            group.cancel()
    finally:
        await server.close()


@contextlib.asynccontextmanager
async def over_http(env: Env) -> AsyncIterator[Client]:
    """A client of an embedded server, on a socket of the loopback interface."""
    server = ApiServer(env, new_store(env))
    token_authenticators = [StaticTokenAuthenticator.read('secret,admin,admin,"system:masters"')]
    handler_chain = HandlerChain(
        server, address="127.0.0.1", token_authenticators=token_authenticators, authorization="RBAC"
    )
    edge = Server(Application(env, handler_chain), clock=env.clock)
    await handler_chain.start()
    port = await edge.start()
    endpoint = parse_endpoint(f"http://127.0.0.1:{port}", "test")
    transport = RemoteTransport(endpoint, env, credentials=bearer("secret", "test"))
    try:
        async with TaskGroup() as group:
            group.start(server.run())
            yield Client(transport, env)
            group.cancel()
    finally:
        await transport.close()
        await edge.stop()
        await server.close()


@contextlib.asynccontextmanager
async def real(env: Env, cluster: RealCluster) -> AsyncIterator[Client]:
    """A client of the real server."""
    transport = connect(env, kubeconfig=str(cluster.kubeconfig))
    try:
        yield Client(transport, env)
    finally:
        await transport.close()


REAL = pytest.param("real", marks=[pytest.mark.real, pytest.mark.real_loop(timeout=60)])


@pytest.fixture(params=["local", pytest.param("remote", marks=pytest.mark.real_loop(timeout=60)), REAL])
def connected(request: pytest.FixtureRequest) -> Callable[[Env], AbstractAsyncContextManager[Client]]:
    """One of the servers and ways to it."""
    if request.param == "real":
        return functools.partial(real, cluster=request.getfixturevalue("real_cluster"))
    return local if request.param == "local" else over_http


@pytest.fixture
async def client(env: Env, connected: Callable[[Env], AbstractAsyncContextManager[Client]]) -> AsyncIterator[Client]:
    """A client as administrator."""
    async with connected(env) as client:
        yield client


@pytest.fixture
async def ns(client: Client) -> str:
    """A namespace of the test's own."""
    name = f"conformance-{client.env.name_suffix()}"
    await client.create(NAMESPACES, {"metadata": {"name": name}})
    return name


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": data or {"a": "1"}}


def pod(name: str = "", **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    named = {"name": name} if name else {"generateName": "p-"}
    return {"metadata": {**named, **metadata}, "spec": {"containers": [container]}}


def fields(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(raw)


async def test_create_get_update_and_delete(client: Client, ns: str) -> None:
    created = fields(await client.create(CONFIG_MAPS, config_map("a"), ns))
    assert created["data"] == {"a": "1"}
    assert created["metadata"]["namespace"] == ns
    read = await client.get(CONFIG_MAPS, "a", ns)
    assert fields(read) == created
    changed = bytes(read).replace(b'{"a":"1"}', b'{"a":"2"}')
    updated = fields(await client.update(CONFIG_MAPS, "a", changed, ns))
    assert updated["data"] == {"a": "2"}
    assert int(updated["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    answer = fields(await client.delete(CONFIG_MAPS, "a", ns))
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    with pytest.raises(NotFound, match=r'configmaps "a" not found'):
        await client.get(CONFIG_MAPS, "a", ns)


async def test_errors_have_class_code_and_message(client: Client, ns: str) -> None:
    first = await client.create(CONFIG_MAPS, config_map("a"), ns)
    await client.patch(CONFIG_MAPS, "a", merge_patch({"data": {"b": "2"}}), ns)
    cases: list[tuple[Awaitable[Any], type[ApiError], int, str]] = [
        (client.create(CONFIG_MAPS, config_map("a"), ns), AlreadyExists, 409, 'configmaps "a" already exists'),
        (client.create(CONFIG_MAPS, config_map("A"), ns), Invalid, 422, 'ConfigMap "A" is invalid'),
        (client.create(CONFIG_MAPS, b"{", ns), BadRequest, 400, ""),
        (client.create(CONFIG_MAPS, config_map("a"), "nowhere"), NotFound, 404, 'namespaces "nowhere" not found'),
        (client.update(CONFIG_MAPS, "a", first, ns), Conflict, 409, "Operation cannot be fulfilled on configmaps"),
        (client.delete(CONFIG_MAPS, "a", ns, uid="other"), Conflict, 409, "the UID in the precondition (other)"),
        (
            client.delete(CONFIG_MAPS, "a", ns, resource_version="1"),
            Conflict,
            409,
            "the ResourceVersion in",
        ),
        (client.get(Kind("nope.org", "v1", "things", "Thing", True, Pod), "a", ns), NotFound, 404, ""),
    ]
    for call, kind, code, words in cases:
        with pytest.raises(kind) as caught:
            await call
        assert type(caught.value) is kind
        assert caught.value.code == code
        assert words in str(caught.value)


async def test_patch_types(client: Client, ns: str) -> None:
    await client.create(PODS, pod("a", labels={"x": "1"}), ns)
    label = "/metadata/labels/x"
    patches = [
        json_patch([{"op": "test", "path": label, "value": "1"}, {"op": "remove", "path": label}]),
        merge_patch({"metadata": {"labels": {"m": "1"}}}),
        strategic_merge_patch({"spec": {"containers": [{"name": "c", "image": "j"}]}}),
    ]
    for patch in patches:
        await client.patch(PODS, "a", patch, ns)
    result = fields(await client.get(PODS.raw, "a", ns))
    assert result["metadata"]["labels"] == {"m": "1"}
    assert [container["image"] for container in result["spec"]["containers"]] == ["j"]
    with pytest.raises(Invalid):
        await client.patch(PODS, "a", json_patch([{"op": "test", "path": "/metadata/name", "value": "b"}]), ns)


@pytest.mark.parametrize("connected", [REAL], indirect=True)
async def test_server_side_apply(client: Client, ns: str) -> None:
    """Only the real server has it so far."""
    for manager, value, force in (("me", "1", None), ("you", "2", True)):
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": value}}
        patch = apply_patch(applied)
        await client.patch(CONFIG_MAPS, "a", patch, ns, field_manager=manager, force=force)
    assert fields(await client.get(CONFIG_MAPS, "a", ns))["data"] == {"x": "2"}
    with pytest.raises(Conflict) as caught:
        await client.patch(CONFIG_MAPS, "a", apply_patch({**applied, "data": {"x": "1"}}), ns, field_manager="me")
    assert has_cause(caught.value, "FieldManagerConflict")


async def test_status_subresource(client: Client, ns: str) -> None:
    await client.create(PODS, pod("a"), ns)
    await client.patch(PODS, "a", strategic_merge_patch({"status": {"phase": "Running"}}), ns, subresource="status")
    await client.patch(PODS, "a", merge_patch({"status": {"phase": "Failed"}}), ns)
    assert (await client.get(PODS, "a", ns)).status.phase == "Running"


async def test_generated_names_graceful_deletion_and_dry_run(client: Client, ns: str) -> None:
    assert (await client.create(PODS, pod(), ns, dry_run=True)).metadata.name.startswith("p-")
    one = await client.create(PODS, pod(finalizers=["example.org/stay"]), ns)
    assert one.metadata.name.startswith("p-")
    assert [item.metadata.name for item in (await client.list(PODS, ns)).items] == [one.metadata.name]
    await client.delete(PODS, one.metadata.name, ns, uid=one.metadata.uid, grace_period_seconds=0)
    remaining = await client.get(PODS, one.metadata.name, ns)
    assert remaining.metadata.deletion_timestamp is not None
    await client.patch(PODS, one.metadata.name, merge_patch({"metadata": {"finalizers": None}}), ns)
    with pytest.raises(NotFound):
        await client.get(PODS, one.metadata.name, ns)


async def test_lists_by_selector_by_page_and_as_metadata(client: Client, ns: str) -> None:
    for i in range(5):
        await client.create(CONFIG_MAPS, config_map(f"c{i}", labels={"even": str(i % 2 == 0).lower()}), ns)
    metadata = CONFIG_MAPS.metadata

    async def names(**options: Any) -> list[str]:
        return [item.metadata.name for item in (await client.list(metadata, ns, **options)).items if named(item)]

    def named(obj: Any) -> bool:
        return bool(obj.metadata.name.startswith("c") and len(obj.metadata.name) == 2)

    assert await names(label_selector="even=true") == ["c0", "c2", "c4"]
    assert await names(label_selector="even in (false),even") == ["c1", "c3"]
    assert await names(field_selector="metadata.name=c3") == ["c3"]
    result = await client.list(metadata, ns)
    assert {item.kind for item in result.items} == {"PartialObjectMetadata"}
    page = await client.list(metadata, ns, limit=2)
    assert len(page.items) == 2
    assert page.metadata.continue_
    whole = await client.list_all(CONFIG_MAPS, ns, page_size=2, keep_raw=True)
    assert len({fields(entry.object)["metadata"]["name"] for entry in whole.items}) == len(whole.items) >= 5
    assert all(entry.raw == bytes(entry.object) for entry in whole.items)
    await client.delete_collection(CONFIG_MAPS, ns, label_selector="even=true")
    assert await names() == ["c1", "c3"]
    with pytest.raises(BadRequest):
        await client.list(metadata, ns, label_selector="a==b=c")
    with pytest.raises(BadRequest, match="continue key is not valid"):
        await client.list(metadata, ns, limit=1, continue_="%%%")


async def take(batches: Any, count: int) -> list[WatchEvent[Any]]:
    events: list[WatchEvent[Any]] = []
    while len(events) < count:
        events += [event for event in await anext(batches) if event.type != "BOOKMARK"]
    return events


async def test_watch_delivers_changes_in_order(client: Client, ns: str) -> None:
    start = (await client.list(PODS, ns)).metadata.resource_version
    async with client.watch(PODS, ns, resource_version=start, keep_raw=True, timeout_seconds=30) as batches:
        await client.create(PODS, pod("a", labels={"on": "1"}), ns)
        await client.patch(PODS, "a", merge_patch({"metadata": {"labels": {"on": "2"}}}), ns)
        await client.delete(PODS, "a", ns, grace_period_seconds=0)
        # Others may touch the pod as well, a scheduler for one.
        events = await take(batches, 3)
        while events[-1].type != "DELETED":
            events += await take(batches, 1)
    assert [event.type for event in events if event.type != "MODIFIED"] == ["ADDED", "DELETED"]
    assert events[-1].object.metadata.labels == {"on": "2"}
    versions = [int(event.object.metadata.resource_version) for event in events]
    assert versions == sorted(versions)
    assert all(fields(msgspec.Raw(event.raw))["metadata"]["name"] == "a" for event in events)


async def test_watch_without_resource_version_starts_with_existing_objects(client: Client, ns: str) -> None:
    for name in ("a", "b"):
        await client.create(PODS, pod(name), ns)
    async with client.watch(PODS.metadata, ns, timeout_seconds=30) as batches:
        events = await take(batches, 2)
        # Existing objects have no particular order.
        events_sorted = sorted((event.type, event.object.metadata.name) for event in events)
        assert events_sorted == [("ADDED", "a"), ("ADDED", "b")]
        assert {event.object.kind for event in events} == {"PartialObjectMetadata"}
        await client.create(PODS, pod("c"), ns)
        assert [event.object.metadata.name for event in await take(batches, 1)] == ["c"]


async def test_watch_with_a_selector_adds_and_deletes(client: Client, ns: str) -> None:
    start = (await client.list(PODS, ns)).metadata.resource_version
    options: dict[str, Any] = {"resource_version": start, "label_selector": "on=1", "timeout_seconds": 30}
    async with client.watch(PODS, ns, **options) as batches:
        await client.create(PODS, pod("a"), ns)
        for value in ("1", "2"):
            await client.patch(PODS, "a", merge_patch({"metadata": {"labels": {"on": value}}}), ns)
        assert [event.type for event in await take(batches, 2)] == ["ADDED", "DELETED"]


async def test_watch_timeout(client: Client, ns: str) -> None:
    started = client.env.monotonic()
    async with client.watch(PODS, ns, timeout_seconds=1) as batches:
        async for batch in batches:
            assert {event.type for event in batch} == {"BOOKMARK"}
    assert 0.5 < client.env.monotonic() - started < 10


async def test_cluster_scoped_resources(client: Client, ns: str) -> None:
    name = f"node-{ns}"
    created = await client.create(NODES, {"metadata": {"name": name}})
    assert created.metadata.namespace == ""
    assert name in [node.metadata.name for node in (await client.list(NODES)).items]
    await client.delete(NODES, name)


async def test_discovery_and_version(client: Client) -> None:
    result = await client.discover()
    assert result.failures == {}
    pods = result.find("v1", "Pod")
    assert pods is not None
    assert pods.namespaced
    assert pods.supports("list", "watch", "deletecollection")
    assert "status" in pods.subresources
    replica_sets = result.find("apps/v1", "ReplicaSet")
    assert replica_sets is not None
    assert replica_sets.group_resource == "replicasets.apps"
    assert len(result.preferred_resources()) == len(
        {resource.group_resource for resource in result.preferred_resources()}
    )
    assert (await client.server_version())["gitVersion"].startswith("v1.")


async def test_concurrent_requests(client: Client, ns: str) -> None:
    await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(f"m{i:03}"), ns) for i in range(100)))
    result = await client.list(CONFIG_MAPS.metadata, ns)
    assert len([item for item in result.items if item.metadata.name.startswith("m")]) == 100


async def test_client_is_usable_after_a_cancelled_write(client: Client, ns: str) -> None:
    writes = [asyncio.ensure_future(client.create(CONFIG_MAPS, config_map(f"x{i}"), ns)) for i in range(20)]
    await asyncio.sleep(0)
    for write in writes[::2]:
        write.cancel()
    done = await asyncio.gather(*writes, return_exceptions=True)
    assert all(isinstance(item, msgspec.Raw | asyncio.CancelledError) for item in done)
    result = {item.metadata.name for item in (await client.list(CONFIG_MAPS.metadata, ns)).items}
    assert {f"x{i}" for i in range(1, 20, 2)} <= result


async def test_too_large_body_is_rejected(client: Client, ns: str) -> None:
    huge = config_map("huge", {"a": "x" * (4 << 20)})
    with pytest.raises(ApiError) as caught:
        await client.create(CONFIG_MAPS, huge, ns)
    assert caught.value.code == 413
    # The connection, if there is one, is still good or has been replaced.
    await client.create(CONFIG_MAPS, config_map("small"), ns)


@pytest.mark.real_loop
async def test_authorization(env: Env) -> None:
    """The transport has the identity; over HTTP it is a token, and an invalid one is rejected."""
    server = ApiServer(env, new_store(env))
    token_authenticators = [StaticTokenAuthenticator.read("secret,jane,jane")]
    handler_chain = HandlerChain(
        server, address="127.0.0.1", token_authenticators=token_authenticators, authorization="RBAC"
    )
    edge = Server(Application(env, handler_chain), clock=env.clock)
    await handler_chain.start()
    endpoint = parse_endpoint(f"http://127.0.0.1:{await edge.start()}", "test")
    try:
        for token, error in (("secret", Forbidden), ("wrong", Unauthorized)):
            transport = RemoteTransport(endpoint, env, credentials=bearer(token, "test"))
            with pytest.raises(error):
                await Client(transport, env).list(PODS)
            await transport.close()
        with pytest.raises(Forbidden, match='User "jane" cannot list resource "pods"'):
            await Client(server.transport("jane"), env).list(PODS)
    finally:
        await edge.stop()
        await server.close()
