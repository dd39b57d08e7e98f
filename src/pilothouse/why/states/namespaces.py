"""Namespaces that are being deleted."""

from pilothouse.why.deletions import deletion_request
from pilothouse.why.evidence import Reference
from pilothouse.why.states.replicas import removal_overdue, steps_by_root
from pilothouse.why.states.terminating import finalizer_steps
from pilothouse.why.steps import STATE, TIME, Step, pluralize
from pilothouse.why.view import Finding, View

_CONDITIONS = (
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
)
"""True while the deletion is blocked (``namespaced_resources_deleter.go``, v1.36). NamespaceFinalizersRemaining is left
out: the finalizers are shown for each object."""
_SHOWN = 5
_IGNORED = frozenset({"events", "events.events.k8s.io", "pods.metrics.k8s.io"})


async def namespace(view: View) -> Finding | None:
    """The remaining objects of a terminating namespace, and their finalizers."""
    if not view.metadata.get("deletionTimestamp"):
        return None
    steps: list[Step] = []
    for type_ in _CONDITIONS:
        condition = view.condition(type_)
        if condition.get("status") == "True":
            steps.append(view.step(f"is not empty: {condition.get('reason')}: {condition.get('message')}", root=STATE))
    finalizers = view.spec.get("finalizers") or []
    other_finalizers = [finalizer for finalizer in finalizers if finalizer != "kubernetes"]
    if other_finalizers:
        steps.append(view.step(f"is held by spec.finalizers {', '.join(other_finalizers)}", root=STATE))
    if steps:
        await _add_remaining_objects(view, steps[-1])
    else:
        steps.append(await _being_emptied(view))
    request = await deletion_request(view.evidence, await view.own_changes())
    if request is not None:
        steps.append(await view.chain.step(request))
    return Finding("terminating", tuple(steps))


async def _being_emptied(view: View) -> Step:
    """The remaining objects, when the conditions report none: before the first sync, and while pods are deleted, which
    upstream does not report (``deleteAllContent``, v1.36)."""
    counts = {
        resource: len(await view.evidence.objects(resource, view.reference.name))
        for resource in view.evidence.namespaced
        if resource not in _IGNORED
    }
    remaining = [f"{count} {resource}" for resource, count in counts.items() if count]
    unreadable = [name for name in counts if view.evidence.is_unreadable(Reference(name, view.reference.name, ""))]
    if not remaining and not unreadable:
        return view.step("is empty: namespace-controller removes it with its next sync", root=TIME)
    parts = [f"{_first(remaining)} remain"] if remaining else []
    parts += [f"{_first(unreadable)} can't be read"] if unreadable else []
    step = view.step(f"is being emptied: {'; '.join(parts)}", root=TIME)
    step.table.append(
        "namespace-controller begins some seconds after the deletion, deletes pods first, and waits for half of their "
        "grace period before the next sync"
    )
    await _add_remaining_objects(view, step)
    step.root = "" if step.because else TIME
    return step


def _first(kinds: list[str]) -> str:
    more = f" and {len(kinds) - _SHOWN} more kinds" if len(kinds) > _SHOWN else ""
    return f"{', '.join(kinds[:_SHOWN])}{more}"


async def _add_remaining_objects(view: View, step: Step) -> None:
    """Add the remaining objects that are being deleted: pods that are not removed, and objects with finalizers."""
    documents = await view.evidence.objects("pods", view.reference.name)
    pods = [view.of("pods", pod["metadata"]["name"], pod, namespace=view.reference.name) for pod in documents]
    remaining = await removal_overdue([pod for pod in pods if not pod.metadata.get("finalizers")])
    if remaining:
        names = [pod.reference.name for pod in remaining]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        line = f"{pluralize(len(names), 'pod')} {'is' if len(names) == 1 else 'are'} not removed: "
        step.table.append(f"{line}{', '.join(names[:_SHOWN])}{more}")
    pod_steps = await steps_by_root(remaining)
    step.because = [*pod_steps, *await _objects_with_finalizers(view)][:_SHOWN]


async def _objects_with_finalizers(view: View) -> list[Step]:
    steps: list[Step] = []
    for resource in view.evidence.namespaced:
        for document in await view.evidence.objects(resource, view.reference.name):
            metadata = document.get("metadata") or {}
            if metadata.get("finalizers") and metadata.get("deletionTimestamp"):
                steps += await finalizer_steps(
                    view.of(resource, str(metadata.get("name")), document, namespace=view.reference.name)
                )
                if len(steps) >= _SHOWN:
                    return steps[:_SHOWN]
    return steps
