"""Why each controller writes what it writes, as the API server remembers it: whole planes in virtual time."""

import asyncio
from typing import Any

from tests.controllers.decisions import causes, decisions

from pilothouse.env import Env
from pilothouse.testing import async_plane

Doc = dict[str, Any]


def _template(app: str, image: str = "nginx:1", **spec: Any) -> Doc:
    containers = [{"name": "main", "image": image}]
    return {"metadata": {"labels": {"app": app}}, "spec": {"containers": containers, **spec}}


def _owner(api_version: str, kind: str, name: str, *, pod: Doc | None = None, **spec: Any) -> Doc:
    template = _template(name, **(pod or {}))
    selector = {"matchLabels": {"app": name}}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
    }


async def test_a_rollout_a_scale_down_and_a_deletion(env: Env) -> None:
    async with async_plane(env=env) as cluster:
        store = cluster.plane.server.store
        await cluster.create(_owner("apps/v1", "Deployment", "web", replicas=2))
        await asyncio.sleep(10)
        changed = {"spec": {"template": _template("web", "nginx:2")}}
        await cluster.patch("apps/v1", "Deployment", "web", changed)
        await asyncio.sleep(10)
        scaled = await cluster.patch("apps/v1", "Deployment", "web", {"spec": {"replicas": 1}})
        await asyncio.sleep(10)
        await cluster.delete("apps/v1", "Deployment", "web")
        await asyncio.sleep(10)
    sets = [
        text for text in decisions(store, "replicasets.apps", component="deployment-controller") if "gets" not in text
    ]
    bound = "at least 2 of 2 must be (maxUnavailable 0)"
    surge = "2 replicas are wanted, maxSurge 1 allows 3 pods in all, and the ReplicaSets have 2"
    assert sets == [
        "no ReplicaSet has the current template: creating web-HASH (revision 1) with 2 of 2 replicas, maxSurge 1, "
        "others have 0",
        "no ReplicaSet has the current template: creating web-HASH (revision 2) with 1 of 2 replicas, maxSurge 1, "
        "others have 2",
        f"ReplicaSet web-HASH (revision 1) is scaled down from 2 to 1: 3 pods are available, {bound}",
        f"ReplicaSet web-HASH (revision 2) is scaled up from 1 to 2: {surge}",
        f"ReplicaSet web-HASH (revision 1) is scaled down from 1 to 0: 3 pods are available, {bound}",
        "ReplicaSet web-HASH (revision 2) is scaled down from 2 to 1: the Deployment was scaled to 1",
    ]
    (down,) = [cause for cause in causes(store, "replicasets.apps") if "was scaled to 1" in cause.decision]
    (trigger,) = down.triggers
    assert (trigger.type, trigger.resource, trigger.name) == ("MODIFIED", "deployments.apps", "web")
    assert trigger.resource_version == scaled["metadata"]["resourceVersion"]

    pods = decisions(store, "pods", component="replicaset-controller")
    assert pods[:2] == ["wants 2 pods and has 0: creating 2"] * 2
    assert pods[-1].startswith("wants 1 of 2: web-HASH-POD chosen, rank 1 of 2 by upstream's order: ")
    deleted = causes(store, "pods", component="replicaset-controller")[-1]
    assert [(each.type, each.resource) for each in deleted.triggers] == [("MODIFIED", "replicasets.apps")]

    assert set(decisions(store, "replicasets.apps", component="garbage-collector-controller")) == {
        "deleting ReplicaSet default/web-HASH, Background: its owner Deployment web (uid UID) does not exist"
    }
    garbage = causes(store, "replicasets.apps", component="garbage-collector-controller")
    (owner_gone,) = garbage[0].triggers
    assert (owner_gone.type, owner_gone.resource, owner_gone.name) == ("DELETED", "deployments.apps", "web")
    assert set(decisions(store, "pods", component="garbage-collector-controller")) == {
        "deleting Pod default/web-HASH-POD, Background: its owner ReplicaSet web-HASH (uid UID) does not exist"
    }


async def test_deletions_that_keep_or_wait_for_dependents(env: Env) -> None:
    async with async_plane(env=env, nodes=0, scheduler=False) as cluster:
        store = cluster.plane.server.store
        for name in ("kept", "gone"):
            await cluster.create(_owner("apps/v1", "ReplicaSet", name, replicas=1))
        await asyncio.sleep(5)
        await cluster.delete("apps/v1", "ReplicaSet", "kept", propagation_policy="Orphan")
        await cluster.delete("apps/v1", "ReplicaSet", "gone", propagation_policy="Foreground")
        await asyncio.sleep(5)
    assert decisions(store, "pods", "kept", "garbage-collector-controller") == [
        "ReplicaSet default/kept is being deleted and orphans its dependents: Pod default/kept-POD loses its reference "
        "to it"
    ]
    assert decisions(store, "replicasets.apps", "kept", "garbage-collector-controller") == [
        "ReplicaSet default/kept has no dependents any more, 1 were orphaned"
    ]
    assert set(decisions(store, "pods", "gone", "garbage-collector-controller")) == {
        "deleting Pod default/gone-POD, Background: its owner ReplicaSet gone (uid UID) is being deleted in the "
        "foreground and waits for its dependents"
    }
    assert decisions(store, "replicasets.apps", "gone", "garbage-collector-controller") == [
        "ReplicaSet default/gone is being deleted in the foreground, and no dependent blocks it any more: its "
        "finalizer foregroundDeletion goes"
    ]
