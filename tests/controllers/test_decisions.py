"""Recorded reasons of each controller's writes: whole clusters in virtual time."""

import asyncio
import re
from typing import Any

from tests.controllers.decisions import causes, changes, decisions

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
    assert pods[:2] == ["2 pods desired, 0 active: creating 2"] * 2
    assert pods[-1].startswith("1 of 2 desired: web-HASH-POD chosen, rank 1 of 2 by upstream's order: ")
    deleted = causes(store, "pods", component="replicaset-controller")[-1]
    assert [(item.type, item.resource) for item in deleted.triggers] == [("MODIFIED", "replicasets.apps")]

    assert set(decisions(store, "replicasets.apps", component="garbage-collector-controller")) == {
        "deleting ReplicaSet default/web-HASH, Background: its owner Deployment web (uid UID) does not exist"
    }
    garbage = causes(store, "replicasets.apps", component="garbage-collector-controller")
    (owner_deleted,) = garbage[0].triggers
    assert (owner_deleted.type, owner_deleted.resource, owner_deleted.name) == ("DELETED", "deployments.apps", "web")
    assert set(decisions(store, "pods", component="garbage-collector-controller")) == {
        "deleting Pod default/web-HASH-POD, Background: its owner ReplicaSet web-HASH (uid UID) does not exist"
    }


async def test_orphan_and_foreground_deletion(env: Env) -> None:
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
        "finalizer foregroundDeletion is removed"
    ]


def _pod(name: str, cpu: str = "", **more: Any) -> Doc:
    container: Doc = {"name": "main", "image": "nginx:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    meta = {"name": name, "annotations": more.pop("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **more}}


async def test_scheduling_and_preemption(env: Env) -> None:
    async with async_plane(env=env, nodes=2) as cluster:
        store = cluster.plane.server.store
        high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        await cluster.create({**high, "value": 1000})
        await cluster.create(_pod("small", "1", nodeName="node-0"))
        await cluster.create(_pod("zone", nodeSelector={"zone": "a"}))
        created = await cluster.create(_pod("first", "20"))
        await asyncio.sleep(2)
        await cluster.create(_pod("second", "20"))
        await asyncio.sleep(2)
        await cluster.create(_pod("third", "20", priorityClassName="high"))
        await asyncio.sleep(60)
    chosen = decisions(store, "pods", "first", "default-scheduler")[0]
    assert re.sub(r"\b(\d{2,3})\b", "N", chosen) == (
        "node-1 chosen of 2 feasible nodes (2 in all), score N: NodeResourcesFit + NodeResourcesBalancedAllocation N"
    )
    bound = causes(store, "pods", "first", "default-scheduler")[0]
    (trigger,) = bound.triggers
    assert bound.key == "default/first"
    assert (trigger.type, trigger.resource, trigger.name) == ("ADDED", "pods", "first")
    assert trigger.resource_version == created["metadata"]["resourceVersion"]
    assert decisions(store, "pods", "second", "default-scheduler")[0] == "node-0 chosen, the only feasible node of 2"
    unschedulable = "Unschedulable: 0/2 nodes are available: "
    assert decisions(store, "pods", "zone", "default-scheduler") == [
        f"{unschedulable}2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    ]
    third = decisions(store, "pods", "third", "default-scheduler")
    assert third[0] == f"nominated for node-0, {unschedulable}2 Insufficient cpu."
    assert third[-1] == "node-0 chosen: the pod is nominated for it, and fits"
    second = decisions(store, "pods", "second", "default-scheduler")
    preempted = next(text for text in second if text.startswith("preempted"))
    assert preempted == (
        "preempted for default/third (priority 1000), which then fits node-0, the best of 2 candidate nodes; 0 "
        "PodDisruptionBudgets are violated; victims: default/second (priority 0)"
    )


async def test_terminated_containers_and_pods(env: Env) -> None:
    async with async_plane(env=env, nodes=1) as cluster:
        store = cluster.plane.server.store
        await cluster.create(_pod("crash", annotations={"simulated.pilothouse.dev/exit-code": "3"}))
        await cluster.create(_pod("stopped"))
        await asyncio.sleep(5)
        await cluster.delete("v1", "Pod", "stopped")
        await asyncio.sleep(5)
    crashed = decisions(store, "pods", "crash", "kubelet")
    assert (
        "node-0: Running; container main exited with 3 (Error), restart policy Always, back-off 10 s before restart 2"
        in crashed
    )
    stopped = decisions(store, "pods", "stopped", "kubelet")
    assert stopped[0] == "node-0: Running; container main runs and is ready"
    assert stopped[-1] == "node-0 removes the pod: it is being deleted, and has ended as Succeeded"
    (trigger,) = causes(store, "pods", "stopped", "kubelet")[-1].triggers
    assert (trigger.type, trigger.resource, trigger.name) == ("MODIFIED", "pods", "stopped")


async def test_unreachable_node(env: Env) -> None:
    async with async_plane(env=env, nodes=2) as cluster:
        store, simulator = cluster.plane.server.store, cluster.plane.nodes
        assert simulator is not None
        await cluster.create(_owner("apps/v1", "ReplicaSet", "web", replicas=1, pod={"nodeName": "node-1"}))
        await asyncio.sleep(5)
        simulator.silence("node-1")
        await asyncio.sleep(100)
        result = decisions(store, "nodes", "node-1", "node-lifecycle-controller")
        assert result[-3:] == [
            "no heartbeat of node node-1 for 55 s, grace period 50 s: its conditions become Unknown",
            "NoSchedule taints by conditions and spec of node node-1: +node.kubernetes.io/unreachable",
            "Ready of node node-1 is Unknown (NodeStatusUnknown): taint node.kubernetes.io/unreachable:NoExecute, at "
            "most 0.1 nodes/s in zone (none)",
        ]
        assert {cause.key for cause in causes(store, "nodes", "node-1", "node-lifecycle-controller")} == {"node-1"}
        tainted = [change for change in changes(store, "nodes", "node-1") if change.type == "MODIFIED"][-1]
        assert decisions(store, "pods", "web", "node-lifecycle-controller") == [
            "node node-1 is not ready (Ready is Unknown): the pods on it become not ready"
        ]
        await asyncio.sleep(290)
    evicted = causes(store, "pods", "web", "taint-eviction-controller")[-1]
    since = evicted.decision.rpartition(" since ")[2]
    assert evicted.decision == (
        "evicted from node node-1: the pod tolerates for 300 s its taints node.kubernetes.io/unreachable:NoExecute "
        f"since {since}"
    )
    assert [(trigger.type, trigger.resource, trigger.name) for trigger in evicted.triggers] == [
        ("MODIFIED", "nodes", "node-1")
    ]
    assert evicted.triggers[0].resource_version == str(tainted.revision)
