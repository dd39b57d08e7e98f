"""The garbage collector on the embedded API server, in virtual time. Tests check the resulting state."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from tests.controllers.garbage_collector.cluster import Cluster, owner_reference, running
from tests.custom_resources import DEFINITIONS, definition, version

from pilothouse.api import wire
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.interceptor import Rule, fail
from pilothouse.controllers.cleanup.garbage_collector import DESCRIPTOR, GarbageCollectorOptions
from pilothouse.env import Env

CM = "/api/v1/namespaces/default/configmaps"
ACCEPT = {"accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
FOREIGN = "example.com/hold"


@pytest.fixture
async def cluster(env: Env) -> AsyncIterator[Cluster]:
    """A cluster with the garbage collector."""
    async with running(env, DESCRIPTOR) as cluster:
        yield cluster


async def test_dependents_of_a_deleted_owner_are_deleted(cluster: Cluster) -> None:
    owner = await cluster.configmap("owner")
    await cluster.configmap("child-1", owner)
    await cluster.configmap("child-2", owner, blocking=False)
    await cluster.configmap("stranger")
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/owner")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == ["stranger"]
    assert sorted(cluster.requests()) == [
        f"DELETE {CM}/child-1",
        f"DELETE {CM}/child-2",
        f"GET {CM}/child-1",
        f"GET {CM}/child-2",
    ], "the owner is known to be absent: it is not asked for"


async def test_delete_has_uid_and_resource_version_preconditions(cluster: Cluster) -> None:
    owner = await cluster.configmap("owner")
    child = await cluster.configmap("child", owner)
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/owner")
    await asyncio.sleep(1)
    meta = child["metadata"]
    [body] = cluster.bodies("DELETE")
    assert body["preconditions"] == {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    assert body["propagationPolicy"] == "Background"


async def test_dangling_reference_is_removed_if_another_owner_exists(cluster: Cluster) -> None:
    first, second = await cluster.configmap("first"), await cluster.configmap("second")
    child = await cluster.configmap("child", first, second)
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/first")
    await asyncio.sleep(1)
    obj = await cluster.get(f"{CM}/child")
    assert obj is not None
    assert [ref["name"] for ref in obj["metadata"]["ownerReferences"]] == ["second"]
    assert cluster.bodies("PATCH") == [
        {
            "metadata": {
                "uid": child["metadata"]["uid"],
                "ownerReferences": [{"$patch": "delete", "uid": first["metadata"]["uid"]}],
            }
        }
    ]
    await cluster.delete(f"{CM}/second")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == []


async def test_foreground_deletion_waits_for_blocking_dependents(cluster: Cluster) -> None:
    owner = await cluster.configmap("owner")
    await cluster.configmap("blocking", owner, finalizers=[FOREIGN])
    await cluster.configmap("other", owner, blocking=False, finalizers=[FOREIGN])
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/owner", "Foreground")
    await asyncio.sleep(60)
    assert await cluster.configmaps() == ["blocking", "other", "owner"]
    for name in ("blocking", "other"):
        obj = await cluster.get(f"{CM}/{name}")
        assert obj is not None
        assert "deletionTimestamp" in obj["metadata"], "all dependents are deleted, blocking or not"
    await cluster.release(f"{CM}/blocking")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == ["other"], "the one that does not block does not hold the owner"
    [patch] = cluster.bodies("PATCH", "/owner")
    assert patch["metadata"]["finalizers"] is None
    assert set(patch["metadata"]) == {"finalizers", "resourceVersion"}


async def test_foreground_deletion_deletes_leaves_first(cluster: Cluster) -> None:
    root = await cluster.configmap("root")
    middle = await cluster.configmap("middle", root)
    await cluster.configmap("leaf", middle, finalizers=[FOREIGN])
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/root", "Foreground")
    await asyncio.sleep(5)
    policies = {request.target: msgspec.json.decode(request.body) for request in deletions(cluster)}
    assert policies[f"{CM}/middle"]["propagationPolicy"] == "Foreground"
    assert policies[f"{CM}/leaf"]["propagationPolicy"] == "Background"
    assert await cluster.configmaps() == ["leaf", "middle", "root"]
    await cluster.release(f"{CM}/leaf")
    await asyncio.sleep(5)
    assert await cluster.configmaps() == []


def deletions(cluster: Cluster) -> list[wire.Request]:
    return [request for request in cluster.transport.sent if request.method == "DELETE"]


async def test_dependent_with_another_owner_is_unblocked_and_kept(cluster: Cluster) -> None:
    going, staying = await cluster.configmap("going"), await cluster.configmap("staying")
    await cluster.configmap("child", going, staying)
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/going", "Foreground")
    await asyncio.sleep(5)
    assert await cluster.configmaps() == ["child", "staying"]


async def test_orphan_deletion_removes_owner_references_first(cluster: Cluster) -> None:
    owner = await cluster.configmap("owner")
    for number in range(250):
        await cluster.configmap(f"child-{number:03}", owner)
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/owner", "Orphan")
    await asyncio.sleep(5)
    remaining = await cluster.get(CM)
    assert remaining is not None
    children = [item["metadata"] for item in remaining["items"] if item["metadata"]["name"].startswith("child-")]
    assert len(children) == 250
    assert not any(child.get("ownerReferences") for child in children)
    assert await cluster.get(f"{CM}/owner") is None
    assert not deletions(cluster)
    assert cluster.writes()[-1] == f"PATCH {CM}/owner"


async def test_owner_recreated_with_another_uid_is_absent(env: Env) -> None:
    async with running(env) as cluster:
        owner = await cluster.configmap("owner")
        await cluster.configmap("child", owner)
        await cluster.delete(f"{CM}/owner")
        await cluster.configmap("owner")
        await cluster.launch(DESCRIPTOR)
        await asyncio.sleep(5)
        assert await cluster.configmaps() == ["owner"]


@pytest.mark.parametrize("before", [True, False], ids=["before the controller", "after its start"])
async def test_owner_in_another_namespace_is_not_an_owner(env: Env, before: bool) -> None:
    async with running(env) as cluster:
        if not before:
            await cluster.launch(DESCRIPTOR)
        await cluster.create("/api/v1/namespaces", metadata={"name": "elsewhere"})
        owner = await cluster.configmap("owner")
        await cluster.configmap("good-child", owner)
        await cluster.configmap("child", owner, namespace="elsewhere")
        if before:
            await cluster.launch(DESCRIPTOR)
        await asyncio.sleep(5)
        assert await cluster.configmaps() == ["good-child", "owner"]
        assert await cluster.configmaps("elsewhere") == []
        obj = await cluster.get("/api/v1/namespaces/elsewhere/events")
        assert obj is not None
        [event] = obj["items"]
        assert event["type"] == "Warning"
        assert event["reason"] == "OwnerRefInvalidNamespace"
        assert event["message"] == (
            f"ownerRef [v1/ConfigMap, namespace: elsewhere, name: owner, uid: {owner['metadata']['uid']}] "
            'does not exist in namespace "elsewhere"'
        )
        assert event["source"]["component"] == "garbage-collector-controller"
        assert event["involvedObject"]["name"] == "child"


async def test_cluster_scoped_object_with_a_namespaced_owner_is_never_deleted(cluster: Cluster) -> None:
    owner = await cluster.configmap("owner")
    await cluster.create("/api/v1/nodes", metadata={"name": "node", "ownerReferences": [owner_reference(owner)]})
    await asyncio.sleep(60)
    await cluster.delete(f"{CM}/owner")
    await asyncio.sleep(3600)
    assert await cluster.names("/api/v1/nodes") == ["node"]
    assert len(cluster.requests()) < 10, "and nobody asks for it again and again"


async def test_cluster_scoped_object_is_deleted_for_its_other_owners(
    cluster: Cluster,
) -> None:
    """Upstream keeps it until a restart."""
    namespaced = await cluster.configmap("owner")
    other = await cluster.create("/api/v1/nodes", metadata={"name": "other"})
    both = [owner_reference(namespaced), owner_reference(other)]
    await cluster.create("/api/v1/nodes", metadata={"name": "node", "ownerReferences": both})
    await asyncio.sleep(1.0)
    await cluster.delete("/api/v1/nodes/other")
    await asyncio.sleep(60.0)
    assert await cluster.names("/api/v1/nodes") == ["node"]
    await cluster.merge("/api/v1/nodes/node", {"metadata": {"ownerReferences": both[1:]}})
    await asyncio.sleep(10.0)
    assert await cluster.names("/api/v1/nodes") == []


async def test_cluster_scoped_dependent_does_not_block_a_namespaced_owner(cluster: Cluster) -> None:
    """It is never deleted; upstream's owner waits forever."""
    owner = await cluster.configmap("owner")
    await cluster.create("/api/v1/nodes", metadata={"name": "node", "ownerReferences": [owner_reference(owner)]})
    await asyncio.sleep(1.0)
    await cluster.delete(f"{CM}/owner", "Foreground")
    await asyncio.sleep(60.0)
    assert await cluster.configmaps() == []
    assert await cluster.get("/api/v1/nodes/node") is not None


async def test_reference_changed_to_a_wrong_name_is_ignored(cluster: Cluster) -> None:
    """As if it had been wrong from the start, or after a restart; upstream keeps the object until a restart."""
    owner = await cluster.configmap("owner")
    await cluster.configmap("child", owner)
    await asyncio.sleep(10.0)
    await cluster.merge(f"{CM}/child", {"metadata": {"ownerReferences": [owner_reference(owner, name="other")]}})
    await asyncio.sleep(10.0)
    assert await cluster.configmaps() == ["owner"]


async def test_object_with_an_owner_of_an_unserved_kind_is_kept(cluster: Cluster) -> None:
    await cluster.create(
        CM,
        metadata={
            "name": "child",
            "ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "no-such"}],
        },
    )
    await asyncio.sleep(3600)
    assert await cluster.configmaps() == ["child"]
    assert cluster.requests() == []


async def test_foreground_deletion_of_objects_owning_each_other(cluster: Cluster) -> None:
    first = await cluster.configmap("first")
    second = await cluster.configmap("second", first)
    await cluster.merge(f"{CM}/first", {"metadata": {"ownerReferences": [owner_reference(second)]}})
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/first", "Foreground")
    await cluster.delete(f"{CM}/second", "Foreground")
    await asyncio.sleep(60)
    assert await cluster.configmaps() == []


async def test_foreground_deletion_cycle_found_at_startup_is_resolved(env: Env) -> None:
    """All of them are being deleted in the foreground before the first event. Upstream waits forever."""
    async with running(env) as cluster:
        first = await cluster.configmap("first")
        second = await cluster.configmap("second", first)
        third = await cluster.configmap("third", second)
        await cluster.merge(f"{CM}/first", {"metadata": {"ownerReferences": [owner_reference(third)]}})
        lonely = await cluster.configmap("owns-itself")
        await cluster.merge(f"{CM}/owns-itself", {"metadata": {"ownerReferences": [owner_reference(lonely)]}})
        for name in ("first", "second", "third", "owns-itself"):
            await cluster.delete(f"{CM}/{name}", "Foreground")
        await cluster.launch(DESCRIPTOR)
        await asyncio.sleep(60)
        assert await cluster.configmaps() == []


async def test_foreground_deletion_of_a_cycle_of_three(cluster: Cluster) -> None:
    first = await cluster.configmap("a")
    second = await cluster.configmap("b", first)
    third = await cluster.configmap("c", second)
    await cluster.merge(f"{CM}/a", {"metadata": {"ownerReferences": [owner_reference(third)]}})
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/a", "Foreground")
    await asyncio.sleep(60)
    assert await cluster.configmaps() == []


async def test_deletions_in_progress_at_startup_are_finished(env: Env) -> None:
    async with running(env) as cluster:
        going = await cluster.configmap("going")
        await cluster.configmap("child", going)
        freed = await cluster.configmap("freed")
        await cluster.configmap("orphan", freed)
        await cluster.delete(f"{CM}/going", "Foreground")
        await cluster.delete(f"{CM}/freed", "Orphan")
        await cluster.launch(DESCRIPTOR)
        await asyncio.sleep(5)
        assert await cluster.configmaps() == ["orphan"]


async def test_not_found_without_object_details_is_not_trusted(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Returned by a proxy without a backend, or for a resource that is no longer served."""
    owner = await cluster.configmap("owner")
    secret = owner_reference(owner, kind="Secret", uid="not-the-owners")
    await cluster.create(CM, metadata={"name": "child", "ownerReferences": [secret]})

    async def lost(request: wire.Request) -> wire.Response | None:
        is_secret_read = request.method == "GET" and "/secrets/" in request.target
        return wire.Response(404, {}, b"404 page not found") if is_secret_read else None

    cluster.transport.hook = lost
    await asyncio.sleep(600)
    assert await cluster.configmaps() == ["child", "owner"]
    (warning,) = warnings_in(caplog)  # not one for each retry
    assert warning.startswith("Cannot look up the kind of an object or of its owner")
    cluster.transport.hook = None
    await asyncio.sleep(1000)
    assert await cluster.configmaps() == ["owner"]
    assert warnings_in(caplog) == [warning]
    cluster.transport.hook = lost
    await cluster.create(CM, metadata={"name": "child", "ownerReferences": [secret | {"uid": "another"}]})
    await asyncio.sleep(600)
    assert len(warnings_in(caplog)) == 2


@pytest.mark.parametrize("survives", range(8))
async def test_restart_after_any_number_of_requests_finishes_the_work(env: Env, survives: int) -> None:
    """The controller is killed after every possible number of requests and restarted."""
    async with running(env) as cluster:
        going = await cluster.configmap("going")
        middle = await cluster.configmap("middle", going)
        await cluster.configmap("leaf", middle)
        freed = await cluster.configmap("freed")
        await cluster.configmap("orphan", freed)
        await cluster.delete(f"{CM}/going", "Foreground")
        await cluster.delete(f"{CM}/freed", "Orphan")
        task = await cluster.launch(DESCRIPTOR)
        stopped = asyncio.Event()

        async def dies(request: wire.Request) -> wire.Response | None:
            if request.target not in ("/api", "/apis") and len(cluster.requests()) > survives:
                stopped.set()
                await asyncio.sleep(1e6)
            return None

        cluster.transport.hook = dies
        await asyncio.wait_for(stopped.wait(), 30)
        task.cancel()
        cluster.transport.hook = None
        await asyncio.sleep(20)
        await cluster.launch(DESCRIPTOR)
        await asyncio.sleep(60)
        assert await cluster.configmaps() == ["orphan"], f"killed after {survives} requests"


async def test_startup_without_pending_work_gets_no_objects(env: Env) -> None:
    async with running(env) as cluster:
        # Whichever kind is listed first, half of the dependents are observed before their owners.
        secrets = "/api/v1/namespaces/default/secrets"
        for number in range(20):
            owner = await cluster.configmap(f"owner-{number}")
            references = [owner_reference(owner)]
            await cluster.create(secrets, metadata={"name": f"child-{number}", "ownerReferences": references})
            secret = await cluster.create(secrets, metadata={"name": f"owner-{number}"})
            await cluster.configmap(f"child-{number}", {"apiVersion": "v1", "kind": "Secret", **secret})
        await cluster.launch(DESCRIPTOR)
        await asyncio.sleep(60)
        assert cluster.requests() == []


async def test_unrelated_update_does_not_prevent_a_deletion(cluster: Cluster) -> None:
    owner = await cluster.configmap("owner")
    await cluster.configmap("child", owner)
    await asyncio.sleep(1)

    async def label_first(request: wire.Request) -> None:
        if request.method == "DELETE":
            cluster.transport.hook = None
            await cluster.merge(f"{CM}/child", {"metadata": {"labels": {"a": "b"}}})

    cluster.transport.hook = label_first
    await cluster.delete(f"{CM}/owner")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == []
    assert cluster.requests()[-3:] == [f"DELETE {CM}/child", f"GET {CM}/child", f"DELETE {CM}/child"]
    assert "resourceVersion" not in cluster.bodies("DELETE")[-1]["preconditions"]


async def test_object_adopted_before_its_deletion_is_kept(cluster: Cluster) -> None:
    owner, saviour = await cluster.configmap("owner"), await cluster.configmap("saviour")
    await cluster.configmap("child", owner)
    await asyncio.sleep(1)

    async def save(request: wire.Request) -> None:
        if request.method == "DELETE":
            cluster.transport.hook = None
            changes = {"metadata": {"ownerReferences": [owner_reference(saviour)]}}
            await cluster.merge(f"{CM}/child", changes)

    cluster.transport.hook = save
    await cluster.delete(f"{CM}/owner")
    await asyncio.sleep(10)
    assert await cluster.configmaps() == ["child", "saviour"]


CRD = definition("Thing")
CRDS = DEFINITIONS
THINGS = "/apis/example.com/v1/namespaces/default/things"


async def test_custom_resources_are_monitored_when_defined_and_removed(cluster: Cluster) -> None:
    """Their references are removed with a JSON merge patch: a strategic one is rejected with 415."""
    await cluster.create(CRDS, **CRD)
    await asyncio.sleep(65)
    first, second = await cluster.configmap("first"), await cluster.configmap("second")
    references = [owner_reference(first), owner_reference(second)]
    thing = await cluster.create(
        THINGS, apiVersion="example.com/v1", kind="Thing", metadata={"name": "t", "ownerReferences": references}
    )
    await cluster.configmap("child", thing)
    await asyncio.sleep(5)
    await cluster.delete(f"{CM}/first")
    await asyncio.sleep(5)
    assert await cluster.names(THINGS) == ["t"]
    strategic, merge = cluster.bodies("PATCH", "/t")
    assert strategic["metadata"]["ownerReferences"] == [{"$patch": "delete", "uid": first["metadata"]["uid"]}]
    assert merge["metadata"]["ownerReferences"] == [owner_reference(second)]
    assert merge["metadata"]["resourceVersion"] == thing["metadata"]["resourceVersion"]
    await cluster.delete(f"{CM}/second")
    await asyncio.sleep(5)
    assert await cluster.names(THINGS) == []
    assert await cluster.configmaps() == []
    watched = [key.resource for key in cluster.controller.monitors.watched]
    assert "things" in watched
    assert "events" not in watched
    await cluster.delete(f"{CRDS}/things.example.com")
    await asyncio.sleep(65)
    assert "things" not in [key.resource for key in cluster.controller.monitors.watched]


def thing(name: str, *owners: Any) -> dict[str, Any]:
    metadata = {"name": name, "ownerReferences": [owner_reference(owner) for owner in owners]}
    return {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata}


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(record.msg) for record in caplog.records if record.levelno >= logging.WARNING]


async def test_dependents_of_a_new_custom_resource_are_deleted_without_delay(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """As in tests of operators: the definition, an object and its dependents are created at the same time."""
    await cluster.create(CRDS, **CRD)
    owner = await cluster.create(THINGS, **thing("t"))
    await cluster.configmap("child", owner)
    await cluster.delete(f"{THINGS}/t")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == []
    assert "things" in [key.resource for key in cluster.controller.monitors.watched]
    assert warnings_in(caplog) == []


def in_versions(**versions: bool) -> dict[str, Any]:
    """The definition of Thing with these versions and whether they are served; the last one is stored."""
    *_, stored = versions
    return definition(
        "Thing",
        *({**version(name, storage=name == stored), "served": served} for name, served in versions.items()),
    )


async def change_versions(cluster: Cluster, **versions: bool) -> None:
    await cluster.merge(f"{CRDS}/things.example.com", {"spec": in_versions(**versions)["spec"]})


def watched_versions(cluster: Cluster) -> list[str]:
    return [key.version for key in cluster.controller.monitors.watched if key.resource == "things"]


async def test_a_resource_is_watched_in_a_new_preferred_version(env: Env) -> None:
    """Also with an API server in the same process, whose discovery is not requested when it has not changed."""
    async with running(env) as cluster:
        cluster.transport = cluster.server.transport("system:kube-controller-manager", ["system:masters"])  # type: ignore[assignment]
        await cluster.launch(DESCRIPTOR)
        await cluster.create(CRDS, **in_versions(v1alpha1=True))
        await asyncio.sleep(1)
        await change_versions(cluster, v1alpha1=True, v1=True)
        await asyncio.sleep(35)
        assert watched_versions(cluster) == ["v1"]


async def test_dependents_of_an_owner_whose_old_version_is_not_served_any_more_are_deleted(cluster: Cluster) -> None:
    await cluster.create(CRDS, **in_versions(v1alpha1=True))
    await asyncio.sleep(1)
    await change_versions(cluster, v1alpha1=True, v1=True)
    owner = await cluster.create(THINGS, **thing("t"))
    await cluster.configmap("child", owner)
    await change_versions(cluster, v1alpha1=False, v1=True)
    await asyncio.sleep(1)
    assert watched_versions(cluster) == ["v1"]
    await cluster.delete(f"{THINGS}/t")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == []


async def test_discovery_is_retried_for_a_changed_definition(cluster: Cluster) -> None:
    await cluster.create(CRDS, **in_versions(v1=True))
    await asyncio.sleep(1)
    before = {path: await cluster.transport.request(wire.Request("GET", path, ACCEPT)) for path in ("/api", "/apis")}
    begun = cluster.env.monotonic()

    async def late(request: wire.Request) -> wire.Response | None:
        return before.get(request.target) if cluster.env.monotonic() < begun + 0.5 else None

    cluster.transport.hook = late
    await change_versions(cluster, v1=False, v2=True)
    await asyncio.sleep(2)
    assert watched_versions(cluster) == ["v2"]


@pytest.mark.parametrize("metadata", [{}, {"finalizers": [FOREIGN]}], ids=["at once", "after its finalizer"])
async def test_dependents_of_an_owner_deleted_while_the_watched_version_changes_are_deleted(
    cluster: Cluster, metadata: dict[str, Any]
) -> None:
    """As when the webhook that converts objects does not respond: the new version cannot be listed."""
    await cluster.create(CRDS, **in_versions(v1alpha1=True))
    await asyncio.sleep(1)
    await change_versions(cluster, v1alpha1=True, v1=True)
    body, kept = thing("t"), thing("kept")
    body["metadata"].update(metadata)
    await cluster.configmap("child", await cluster.create(THINGS, **body))
    await cluster.configmap("kept-child", await cluster.create(THINGS, **kept))
    if metadata:
        await cluster.delete(f"{THINGS}/t")
    unavailable = cluster.faults.add(Rule(fail(500, "InternalError"), resource="things.example.com"))
    await asyncio.sleep(65)
    assert watched_versions(cluster) == ["v1"]
    if metadata:
        await cluster.release(f"{THINGS}/t")
    else:
        await cluster.delete(f"{THINGS}/t")
    await asyncio.sleep(1)
    cluster.faults.remove(unavailable)
    await asyncio.sleep(95)
    assert await cluster.configmaps() == ["kept-child"]
    await cluster.delete(f"{THINGS}/kept")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == []


async def test_objects_of_a_new_definition_are_deleted_without_delay(cluster: Cluster) -> None:
    owner = await cluster.configmap("owner")
    await cluster.create(CRDS, **CRD)
    await cluster.create(THINGS, **thing("t", owner))
    await cluster.delete(f"{CM}/owner")
    await asyncio.sleep(1)
    assert await cluster.names(THINGS) == []


async def test_discovery_is_retried_for_a_new_definition(cluster: Cluster) -> None:
    """As with several API servers, or an aggregator that polls the others."""
    before = {path: await cluster.transport.request(wire.Request("GET", path, ACCEPT)) for path in ("/api", "/apis")}
    begun = cluster.env.monotonic()

    async def late(request: wire.Request) -> wire.Response | None:
        return before.get(request.target) if cluster.env.monotonic() < begun + 0.5 else None

    cluster.transport.hook = late
    await cluster.create(CRDS, **CRD)
    owner = await cluster.create(THINGS, **thing("t"))
    await cluster.configmap("child", owner)
    await cluster.delete(f"{THINGS}/t")
    await asyncio.sleep(2)
    assert await cluster.configmaps() == []


async def test_new_definitions_cause_few_discovery_requests(cluster: Cluster) -> None:
    """Discovery is requested for new definitions only, a bounded number of times even if they are never served."""

    def discovery_requests() -> int:
        return sum(request.target == "/apis" for request in cluster.transport.sent)

    before = discovery_requests()
    for number in range(20):
        names = {"plural": f"things{number}", "kind": f"Thing{number}", "listKind": f"Thing{number}List"}
        spec = {**CRD["spec"], "names": names}
        await cluster.create(CRDS, metadata={"name": f"things{number}.example.com"}, spec=spec)
    await asyncio.sleep(10)
    assert discovery_requests() - before <= 3
    before = discovery_requests()
    await cluster.merge(f"{CRDS}/things0.example.com", {"metadata": {"labels": {"a": "b"}}})
    await asyncio.sleep(5)
    assert discovery_requests() == before, "nothing that discovery would show"
    # The kind of another definition: its names are never accepted.
    crd_names = {**CRD["spec"]["names"], "kind": "Thing0"}
    await cluster.create(CRDS, metadata=CRD["metadata"], spec={**CRD["spec"], "names": crd_names})
    before = discovery_requests()
    await asyncio.sleep(300)
    assert discovery_requests() - before <= 10 + 3


async def test_object_with_an_owner_of_an_unserved_kind_is_retried(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    owner = {**thing("t"), "metadata": {"name": "t", "uid": "11111111-1111-1111-1111-111111111111"}}
    await cluster.configmap("a", owner)
    await cluster.configmap("b", owner)
    await asyncio.sleep(600)
    assert await cluster.configmaps() == ["a", "b"]
    requests = len(cluster.requests())
    await asyncio.sleep(600)
    assert len(cluster.requests()) == requests, "they are not looked at in vain"
    await cluster.create(CRDS, **CRD)
    await asyncio.sleep(1)
    assert await cluster.configmaps() == [], "there is no such thing"
    (warnings,) = warnings_in(caplog)
    assert 'kind="Thing"' in warnings
    assert "waiting=1" in warnings, "the owner that nobody has seen: the others are looked at when it is known"


async def test_failed_discovery_is_counted_and_keeps_monitors(cluster: Cluster) -> None:
    watched = cluster.controller.monitors.watched

    async def no_discovery(request: wire.Request) -> wire.Response | None:
        return wire.Response(503) if request.target in ("/api", "/apis") else None

    cluster.transport.hook = no_discovery
    await asyncio.sleep(65)
    assert cluster.controller.monitors.watched == watched
    counted = [line for line in cluster.metrics.exposition().splitlines() if "sync_error_total" in line]
    assert counted[-1].split()[0] == "garbagecollector_controller_resources_sync_error_total"
    assert float(counted[-1].split()[1]) == 2
    owner = await cluster.configmap("owner")
    await cluster.configmap("child", owner)
    await asyncio.sleep(1)
    await cluster.delete(f"{CM}/owner")
    await asyncio.sleep(1)
    assert await cluster.configmaps() == []


async def test_job_deleted_without_a_policy_orphans_its_pods(cluster: Cluster) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    jobs, pods = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
    job = await cluster.create(
        jobs, apiVersion="batch/v1", kind="Job", metadata={"name": "j"}, spec={"template": template}
    )
    await cluster.create(pods, metadata={"name": "p", "ownerReferences": [owner_reference(job)]}, **template)
    await asyncio.sleep(1)
    await cluster.delete(f"{jobs}/j", "")
    await asyncio.sleep(5)
    assert await cluster.names(jobs) == []
    assert await cluster.names(pods) == ["p"]


async def test_dependents_of_an_owner_replaced_between_watches_are_deleted(cluster: Cluster) -> None:
    """Upstream misses this: an update with another uid leaves the old node in the graph forever."""
    monitors = cluster.controller.monitors
    owner = await cluster.configmap("owner")
    await cluster.configmap("child", owner)
    await asyncio.sleep(1)
    [informer] = [m.informer for k, m in monitors._monitors.items() if k.resource == "configmaps"]
    task: asyncio.Task[None] = informer._task
    cache = dict.fromkeys(informer.cache.keys())
    assert "default/owner" in cache
    assert task is not None
    # What a relist after a lost watch shows: the same name, another uid.
    old = informer.cache.get("default/owner")
    await cluster.delete(f"{CM}/owner", "Orphan")
    new = msgspec.structs.replace(old, metadata=msgspec.structs.replace(old.metadata, uid="another"))
    for handler in informer._handlers:
        handler.on_update(old, new)
    assert cluster.controller.graph.get(owner["metadata"]["uid"]) is None
    assert cluster.controller.graph.get("another") is not None


async def test_owner_observed_during_a_failed_lookup_is_requeued(env: Env) -> None:
    """It is observed as being deleted in the foreground; no event of its dependents would enqueue it, and the only
    worker is busy with them when the retry is due."""
    async with running(env, DESCRIPTOR, GarbageCollectorOptions(concurrent_syncs=1)) as cluster:
        gc = cluster.controller
        owner, other = await cluster.configmap("owner"), await cluster.configmap("other")
        await asyncio.sleep(1)
        meta = msgspec.convert(owner["metadata"], ObjectMeta, strict=False)
        gc._apply(gc.graph.process_delete("v1", "ConfigMap", meta))  # as if its informer were behind
        lookups = 0

        async def fails_once(request: wire.Request) -> wire.Response | None:
            nonlocal lookups
            if request.method != "GET":
                return None
            await asyncio.sleep(1)
            if request.target.endswith("/owner"):
                lookups += 1
                if lookups == 1:
                    await cluster.delete(f"{CM}/owner", "Foreground")
                    await asyncio.sleep(1)
                    return wire.Response(500, {}, b"{}")
            return None

        cluster.transport.hook = fails_once
        await cluster.configmap("child", owner, other, blocking=False)
        await asyncio.sleep(60)
        assert await cluster.configmaps() == ["child", "other"]
