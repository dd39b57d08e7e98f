"""Adds details to a change of a pod: its rank among the pods to delete, the PodDisruptionBudget of an eviction, the
node pressure behind a kubelet's eviction, the deletion of its node."""

from typing import Any

import msgspec

from pilothouse.why.changes import asks_deletion
from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference
from pilothouse.why.selection import bounds, selects

_MAX_PODS = 10
_SCALERS = frozenset({"replicaset-controller", "replicationcontroller-controller"})
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_BUDGETS = "poddisruptionbudgets.policy"
_MAX_LATER_CHANGES = 5
_COLLECTOR = "garbage-collector-controller"
_PRESSURES = {
    "memory": "MemoryPressure",
    "ephemeral-storage": "DiskPressure",
    "inodes": "DiskPressure",
    "pids": "PIDPressure",
}


class Details(msgspec.Struct, frozen=True):
    """``further`` are causes of the change in addition to its recorded triggers."""

    table: list[str] = []
    further: list[ObjectChange] = []


async def details(evidence: Evidence, change: ObjectChange) -> Details:
    """The details of a change; empty for most."""
    origin = change.origin
    if origin is None:
        return Details()
    if change.reference.resource != "pods":
        collected = change.inferred and change.cause is not None and change.cause.component == _COLLECTOR
        return Details(further=await _owner_deletions(evidence, change) if collected else [])
    if origin.subresource == "eviction":
        return Details(await _charged_budgets(evidence, change))
    cause = change.cause
    if cause is None:
        return Details()
    if change.inferred:
        return Details(further=await _inferred_causes(evidence, change, cause.component))
    if cause.component in _SCALERS and change.type != "ADDED" and " chosen, " in cause.decision:
        return Details(await _ranking_lines(evidence, change))
    if cause.component == "pod-garbage-collector-controller":
        return Details(further=await _node_deletion(evidence, change))
    if cause.component == "taint-eviction-controller" and change.type != "ADDED":
        return Details(await _bypassed_budgets(evidence, change))
    if cause.component == "default-scheduler" and cause.decision.startswith("preempted for "):
        return Details(await _priority_lines(evidence, change, cause.key))
    if cause.component == "kubelet" and change.type == "MODIFIED":
        return Details(further=await _pressure_change(evidence, change))
    return Details()


async def _inferred_causes(evidence: Evidence, change: ObjectChange, component: str) -> list[ObjectChange]:
    """The likely causes of a change whose component recorded none: the deletion of an owner or node, a taint."""
    if component == _COLLECTOR:
        return await _owner_deletions(evidence, change)
    if component == "pod-garbage-collector-controller":
        return await _node_deletion(evidence, change)
    if component == "node-lifecycle-controller" and change.type != "ADDED":
        return await _taint_change(evidence, change)
    return []


async def _owner_deletions(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """The delete requests of the owners of an object that the garbage collector deleted."""
    document = await evidence.before(change) or await evidence.after(change)
    deletions: list[ObjectChange] = []
    for owner_reference in ((document or {}).get("metadata") or {}).get("ownerReferences") or ():
        resource = evidence.resource_of(
            str(owner_reference.get("apiVersion") or ""), str(owner_reference.get("kind") or "")
        )
        if not resource:
            continue
        owner = Reference(resource, change.reference.namespace, str(owner_reference.get("name") or ""))
        requests = [
            owner_change
            for owner_change in await evidence.changes(owner)
            if owner_change.uid == owner_reference.get("uid") and asks_deletion(owner_change)
        ]
        deletions += requests[:1]
    return deletions


async def _taint_change(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """The last change that added a NoExecute taint to the pod's node."""
    pod = await evidence.before(change)
    node = Reference("nodes", "", str(((pod or {}).get("spec") or {}).get("nodeName") or ""))
    for node_change in reversed(await evidence.changes(node) if node.name else []):
        if node_change.revision < change.revision and node_change.type == "MODIFIED":
            old, new = await evidence.before(node_change), await evidence.after(node_change)
            if _no_execute_taints(new) > _no_execute_taints(old):
                return [node_change]
    return []


def _no_execute_taints(node: Document | None) -> set[str]:
    taints = ((node or {}).get("spec") or {}).get("taints") or ()
    return {f"{taint.get('key')}={taint.get('value')}" for taint in taints if taint.get("effect") == "NoExecute"}


async def _charged_budgets(evidence: Evidence, change: ObjectChange) -> list[str]:
    """The budgets of an eviction: those whose last status update before it added the pod to ``disruptedPods``."""
    name = change.reference.name
    lines = {}
    for budget_change in await evidence.changes_of_all(_BUDGETS, change.reference.namespace):
        if budget_change.type != "MODIFIED" or budget_change.revision >= change.revision:
            continue
        old, new = await evidence.before(budget_change), await evidence.after(budget_change)
        if name in _disrupted_pods(new) and name not in _disrupted_pods(old):
            lines[budget_change.reference.name] = _budget_line(budget_change.reference.name, old or {}, new or {})
    return list(lines.values())


def _disrupted_pods(budget: Document | None) -> dict[str, Any]:
    return ((budget or {}).get("status") or {}).get("disruptedPods") or {}


def _budget_line(name: str, old: Document, new: Document) -> str:
    old_status, status = old.get("status") or {}, new.get("status") or {}
    return (
        f"charged to poddisruptionbudget/{name}: disruptionsAllowed {old_status.get('disruptionsAllowed', 0)} -> "
        f"{status.get('disruptionsAllowed', 0)}, {status.get('currentHealthy', 0)} of {status.get('expectedPods', 0)} "
        f"pods healthy, {status.get('desiredHealthy', 0)} desired"
    )


async def _bypassed_budgets(evidence: Evidence, change: ObjectChange) -> list[str]:
    """The budgets that select a pod deleted because of a taint, which unlike an eviction ignores them."""
    pod = await evidence.before(change)
    budgets = await evidence.objects(_BUDGETS, change.reference.namespace, revision=change.revision - 1)
    return [
        f"poddisruptionbudget/{budget['metadata']['name']} ({bounds(budget)}) does not apply: "
        "the pod is deleted, not evicted"
        for budget in budgets
        if pod is not None and selects(budget, pod)
    ]


async def _priority_lines(evidence: Evidence, change: ObjectChange, key: str) -> list[str]:
    """The priorities of a preempted pod and of its preemptor."""
    namespace, _slash, name = key.partition("/")
    preemptor_changes = await evidence.changes(Reference("pods", namespace, name))
    preemptor = await evidence.after(preemptor_changes[-1]) if preemptor_changes else None
    victim = await evidence.before(change)
    if victim is None or preemptor is None:
        return []
    return [f"its priority is {_priority(victim)}, that of {key} is {_priority(preemptor)}"]


def _priority(pod: Document) -> str:
    spec = pod.get("spec") or {}
    class_ = spec.get("priorityClassName")
    return f"{spec.get('priority', 0)} ({f'PriorityClass {class_}' if class_ else 'no PriorityClass'})"


async def _ranking_lines(evidence: Evidence, change: ObjectChange) -> list[str]:
    """The owner's pods at the time of a scale-down, with the fields by which they are ranked
    (``ActivePodsWithRanks``)."""
    pods = await evidence.objects("pods", change.reference.namespace, revision=change.revision - 1)
    chosen = next((pod for pod in pods if pod["metadata"]["name"] == change.reference.name), None)
    owner = _controller(chosen)
    rows = [pod for pod in pods if owner and _controller(pod) == owner]
    rows.sort(key=lambda pod: (pod is not chosen, pod["metadata"]["name"]))
    lines = [f"{'-> ' if pod is chosen else '   '}{_pod_line(pod)}" for pod in rows[:_MAX_PODS]]
    if len(rows) > _MAX_PODS:
        lines.append(f"   and {len(rows) - _MAX_PODS} more pods")
    return lines if len(rows) > 1 else []


def _controller(pod: Document | None) -> str:
    references = ((pod or {}).get("metadata") or {}).get("ownerReferences") or ()
    return next((str(reference.get("uid")) for reference in references if reference.get("controller")), "")


def _pod_line(pod: Document) -> str:
    metadata, status = pod["metadata"], pod.get("status") or {}
    parts = [metadata["name"], (pod.get("spec") or {}).get("nodeName") or "no node", str(status.get("phase"))]
    conditions: list[dict[str, Any]] = status.get("conditions") or []
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
    is_ready = ready.get("status") == "True"
    parts.append(f"ready since {str(ready.get('lastTransitionTime'))[11:19]}" if is_ready else "not ready")
    if cost := (metadata.get("annotations") or {}).get(_DELETION_COST):
        parts.append(f"deletion cost {cost}")
    restarts = sum(
        int(container_status.get("restartCount") or 0) for container_status in status.get("containerStatuses") or ()
    )
    parts += [f"{restarts} restarts", f"created {str(metadata.get('creationTimestamp'))[11:19]}"]
    if metadata.get("deletionTimestamp"):
        parts.append("being deleted")
    return ", ".join(parts)


async def _node_deletion(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """The deletion of a pod's node, which the pod garbage collector follows after its quarantine."""
    pod = await evidence.before(change)
    name = ((pod or {}).get("spec") or {}).get("nodeName")
    if not name or await evidence.get(Reference("nodes", "", name)) is not None:
        return []
    changes = await evidence.changes(Reference("nodes", "", name))
    return [
        node_change
        for node_change in changes
        if node_change.type == "DELETED" and node_change.revision < change.revision
    ][-1:]


async def _pressure_change(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """The change that set the pressure condition of the node, for a pod evicted by its kubelet."""
    old, new = await evidence.before(change), await evidence.after(change)
    status = (new or {}).get("status") or {}
    if status.get("reason") != "Evicted" or ((old or {}).get("status") or {}).get("phase") == "Failed":
        return []
    resource = str(status.get("message") or "").partition("low on resource: ")[2].partition(".")[0]
    kind = _PRESSURES.get(resource, "")
    node = Reference("nodes", "", str(((new or {}).get("spec") or {}).get("nodeName")))
    changes = [node_change for node_change in await evidence.changes(node) if node_change.type == "MODIFIED"]
    earlier = [node_change for node_change in changes if node_change.revision < change.revision]
    # The kubelet sends both at the same time, and the node's status may arrive second.
    for node_change in [*reversed(earlier), *changes[len(earlier) :][:_MAX_LATER_CHANGES]]:
        if _has_pressure(kind, await evidence.after(node_change)) and not _has_pressure(
            kind, await evidence.before(node_change)
        ):
            return [node_change]
    return []


def _has_pressure(kind: str, node: Document | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == kind and condition.get("status") == "True" for condition in conditions)
