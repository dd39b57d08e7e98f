"""What an explanation adds to a change of a pod: the ranking in which it was chosen, the budget that its
eviction was charged to, the pressure that the kubelet evicted it for, the node that is gone."""

from typing import Any

import msgspec

from pilothouse.why.changes import asks_deletion
from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference
from pilothouse.why.selection import bounds, selects

_MOST_PODS = 10
_SCALERS = frozenset({"replicaset-controller", "replicationcontroller-controller"})
_COST = "controller.kubernetes.io/pod-deletion-cost"
_BUDGETS = "poddisruptionbudgets.policy"
_MOST_LATER = 5
_COLLECTOR = "garbage-collector-controller"
_PRESSURES = {
    "memory": "MemoryPressure",
    "ephemeral-storage": "DiskPressure",
    "inodes": "DiskPressure",
    "pids": "PIDPressure",
}


class Details(msgspec.Struct, frozen=True):
    """``further`` are changes that led to it, in addition to those that its cause names."""

    table: list[str] = []
    further: list[ObjectChange] = []


async def details(evidence: Evidence, change: ObjectChange) -> Details:
    """Those of a change; nothing for most."""
    origin = change.origin
    if origin is None:
        return Details()
    if change.reference.resource != "pods":
        collected = change.inferred and change.cause is not None and change.cause.component == _COLLECTOR
        return Details(further=await _owners_gone(evidence, change) if collected else [])
    if origin.subresource == "eviction":
        return Details(await _charged(evidence, change))
    cause = change.cause
    if cause is None:
        return Details()
    if change.inferred:
        return Details(further=await _unrecorded(evidence, change, cause.component))
    if cause.component in _SCALERS and change.type != "ADDED" and " chosen, " in cause.decision:
        return Details(await _ranking(evidence, change))
    if cause.component == "pod-garbage-collector-controller":
        return Details(further=await _lost_node(evidence, change))
    if cause.component == "taint-eviction-controller" and change.type != "ADDED":
        return Details(await _budgets_not_asked(evidence, change))
    if cause.component == "default-scheduler" and cause.decision.startswith("preempted for "):
        return Details(await _priorities(evidence, change, cause.key))
    if cause.component == "kubelet" and change.type == "MODIFIED":
        return Details(further=await _pressure(evidence, change))
    return Details()


async def _unrecorded(evidence: Evidence, change: ObjectChange, component: str) -> list[ObjectChange]:
    """What a component must have followed, if it has not recorded that: the end of an owner or a node, a taint."""
    if component == _COLLECTOR:
        return await _owners_gone(evidence, change)
    if component == "pod-garbage-collector-controller":
        return await _lost_node(evidence, change)
    if component == "node-lifecycle-controller" and change.type != "ADDED":
        return await _tainted(evidence, change)
    return []


async def _owners_gone(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """The deletions of the owners of an object that the garbage collector has deleted."""
    document = await evidence.before(change) or await evidence.after(change)
    found: list[ObjectChange] = []
    for each in ((document or {}).get("metadata") or {}).get("ownerReferences") or ():
        resource = evidence.resource_of(str(each.get("apiVersion") or ""), str(each.get("kind") or ""))
        if not resource:
            continue
        owner = Reference(resource, change.reference.namespace, str(each.get("name") or ""))
        requests = [one for one in await evidence.changes(owner) if one.uid == each.get("uid") and asks_deletion(one)]
        found += requests[:1]
    return found


async def _tainted(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """The last change that gave the node of a pod a taint that evicts."""
    pod = await evidence.before(change)
    node = Reference("nodes", "", str(((pod or {}).get("spec") or {}).get("nodeName") or ""))
    for each in reversed(await evidence.changes(node) if node.name else []):
        if each.revision < change.revision and each.type == "MODIFIED":
            before, after = await evidence.before(each), await evidence.after(each)
            if _evicting(after) > _evicting(before):
                return [each]
    return []


def _evicting(node: Document | None) -> set[str]:
    taints = ((node or {}).get("spec") or {}).get("taints") or ()
    return {f"{taint.get('key')}={taint.get('value')}" for taint in taints if taint.get("effect") == "NoExecute"}


async def _charged(evidence: Evidence, change: ObjectChange) -> list[str]:
    """The budgets that an eviction was charged to, by the last change that noted the pod before it."""
    name = change.reference.name
    lines = {}
    for each in await evidence.changes_of_all(_BUDGETS, change.reference.namespace):
        if each.type != "MODIFIED" or each.revision >= change.revision:
            continue
        before, after = await evidence.before(each), await evidence.after(each)
        if name in _disrupted(after) and name not in _disrupted(before):
            lines[each.reference.name] = _budget_line(each.reference.name, before or {}, after or {})
    return list(lines.values())


def _disrupted(budget: Document | None) -> dict[str, Any]:
    return ((budget or {}).get("status") or {}).get("disruptedPods") or {}


def _budget_line(name: str, before: Document, after: Document) -> str:
    was, status = before.get("status") or {}, after.get("status") or {}
    return (
        f"charged to poddisruptionbudget/{name}: disruptionsAllowed {was.get('disruptionsAllowed', 0)} -> "
        f"{status.get('disruptionsAllowed', 0)}, {status.get('currentHealthy', 0)} of {status.get('expectedPods', 0)} "
        f"pods healthy, {status.get('desiredHealthy', 0)} desired"
    )


async def _budgets_not_asked(evidence: Evidence, change: ObjectChange) -> list[str]:
    """The budgets that would have kept a pod from being evicted: a taint has it deleted, which asks none."""
    pod = await evidence.before(change)
    found = await evidence.objects(_BUDGETS, change.reference.namespace, revision=change.revision - 1)
    return [
        f"poddisruptionbudget/{each['metadata']['name']} ({bounds(each)}) is not asked: the pod is deleted, not evicted"
        for each in found
        if pod is not None and selects(each, pod)
    ]


async def _priorities(evidence: Evidence, change: ObjectChange, key: str) -> list[str]:
    """The PriorityClasses of a pod that was preempted and of the one that it was preempted for."""
    namespace, _slash, name = key.partition("/")
    others = await evidence.changes(Reference("pods", namespace, name))
    other = await evidence.after(others[-1]) if others else None
    victim = await evidence.before(change)
    if victim is None or other is None:
        return []
    return [f"its priority is {_priority(victim)}, that of {key} is {_priority(other)}"]


def _priority(pod: Document) -> str:
    spec = pod.get("spec") or {}
    class_ = spec.get("priorityClassName")
    return f"{spec.get('priority', 0)} ({f'PriorityClass {class_}' if class_ else 'no PriorityClass'})"


async def _ranking(evidence: Evidence, change: ObjectChange) -> list[str]:
    """The pods of the owner when one was chosen, with what upstream's order looks at."""
    pods = await evidence.objects("pods", change.reference.namespace, revision=change.revision - 1)
    chosen = next((pod for pod in pods if pod["metadata"]["name"] == change.reference.name), None)
    owner = _controller(chosen)
    rows = [pod for pod in pods if owner and _controller(pod) == owner]
    rows.sort(key=lambda each: (each is not chosen, each["metadata"]["name"]))
    lines = [f"{'-> ' if row is chosen else '   '}{_row(row)}" for row in rows[:_MOST_PODS]]
    if len(rows) > _MOST_PODS:
        lines.append(f"   and {len(rows) - _MOST_PODS} more pods")
    return lines if len(rows) > 1 else []


def _controller(pod: Document | None) -> str:
    references = ((pod or {}).get("metadata") or {}).get("ownerReferences") or ()
    return next((str(reference.get("uid")) for reference in references if reference.get("controller")), "")


def _row(pod: Document) -> str:
    metadata, status = pod["metadata"], pod.get("status") or {}
    parts = [metadata["name"], (pod.get("spec") or {}).get("nodeName") or "no node", str(status.get("phase"))]
    conditions: list[dict[str, Any]] = status.get("conditions") or []
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), {})
    is_ready = ready.get("status") == "True"
    parts.append(f"ready since {str(ready.get('lastTransitionTime'))[11:19]}" if is_ready else "not ready")
    if cost := (metadata.get("annotations") or {}).get(_COST):
        parts.append(f"deletion cost {cost}")
    restarts = sum(int(each.get("restartCount") or 0) for each in status.get("containerStatuses") or ())
    parts += [f"{restarts} restarts", f"created {str(metadata.get('creationTimestamp'))[11:19]}"]
    if metadata.get("deletionTimestamp"):
        parts.append("being deleted")
    return ", ".join(parts)


async def _lost_node(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """For a pod that is deleted because its node is gone: the deletion of the node. The controller waits for a time."""
    pod = await evidence.before(change)
    name = ((pod or {}).get("spec") or {}).get("nodeName")
    if not name or await evidence.get(Reference("nodes", "", name)) is not None:
        return []
    changes = await evidence.changes(Reference("nodes", "", name))
    return [each for each in changes if each.type == "DELETED" and each.revision < change.revision][-1:]


async def _pressure(evidence: Evidence, change: ObjectChange) -> list[ObjectChange]:
    """For a pod that its kubelet evicts: the change that put the node under that pressure."""
    before, after = await evidence.before(change), await evidence.after(change)
    status = (after or {}).get("status") or {}
    if status.get("reason") != "Evicted" or ((before or {}).get("status") or {}).get("phase") == "Failed":
        return []
    resource = str(status.get("message") or "").partition("low on resource: ")[2].partition(".")[0]
    kind = _PRESSURES.get(resource, "")
    node = Reference("nodes", "", str(((after or {}).get("spec") or {}).get("nodeName")))
    changes = [each for each in await evidence.changes(node) if each.type == "MODIFIED"]
    earlier = [each for each in changes if each.revision < change.revision]
    # A kubelet sends both at once, and the node's status may come second.
    for each in [*reversed(earlier), *changes[len(earlier) :][:_MOST_LATER]]:
        if _is_under(kind, await evidence.after(each)) and not _is_under(kind, await evidence.before(each)):
            return [each]
    return []


def _is_under(kind: str, node: Document | None) -> bool:
    conditions = ((node or {}).get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == kind and condition.get("status") == "True" for condition in conditions)
