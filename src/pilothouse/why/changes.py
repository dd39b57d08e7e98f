"""Describes a change in a sentence, and weighs it as a cause of other changes. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.machinery.differences import ABSENT, Difference, differences, short_json
from pilothouse.why.evidence import Document, ObjectChange, conditions_of, mapping_of

SPEC, FAILED, DELETED, CREATED, METADATA, PHASE, CONDITION, STATUS, NOTHING = 60, 55, 50, 40, 30, 25, 20, 10, 0
"""Weights: a higher one is more likely the cause of a controller's later write."""

_SHOWN = 3
_SHOWN_TEXT = 80
_SHOWN_NAMES = 10
_IGNORED_PATHS = ("metadata.generation", "metadata.annotations", "status.observedGeneration", "metadata.uid")
_HEARTBEATS = ("lastHeartbeatTime", "renewTime", "lastProbeTime", "lastUpdateTime", "lastTransitionTime")


_EFFECTIVE_ANNOTATIONS = (
    'metadata.annotations["storageclass.',
    'metadata.annotations["ingressclass.kubernetes.io/is-default-class',
    'metadata.annotations["controller.kubernetes.io/pod-deletion-cost',
    'metadata.annotations["simulated.pilothouse.dev/',
)
"""Annotations that controllers act on."""


class Summary(msgspec.Struct, frozen=True):
    """``text`` without the object's name: ``was deleted``, ``changed: spec.replicas: 3 -> 2``."""

    text: str
    weight: int


def summary(change: ObjectChange, old: Document | None, new: Document | None) -> Summary:
    """Describe a change. Without the objects before and after, only type and request are available."""
    if change.type == "ADDED":
        return Summary("was created", CREATED)
    if change.type == "DELETED":
        terminating = old is not None and bool(_metadata(old).get("deletionTimestamp"))
        return Summary("was removed once its deletion was complete" if terminating else "was deleted", DELETED)
    if old is None or new is None:
        return _without_documents(change)
    describe = _paths_text if change.reference.resource == "secrets" else _differences_text
    if _metadata(new).get("deletionTimestamp") and not _metadata(old).get("deletionTimestamp"):
        return Summary(_deletion_text(new), DELETED)
    changed = [difference for difference in differences(old, new) if not difference.path.endswith(_HEARTBEATS)]
    if change.origin is not None and change.origin.subresource == "status":
        # There may be unrecorded writes between the two versions.
        changed = [difference for difference in changed if difference.path.startswith(("status", "metadata"))]
    if change.reference.resource == "nodes" and (taints := _taint_changes(old, new)):
        other_fields = [
            difference
            for difference in changed
            if difference.path.startswith("spec.") and not difference.path.startswith("spec.taints")
        ]
        return Summary(f"changed: {'; '.join(taints)}{f'; {describe(other_fields)}' if other_fields else ''}", SPEC)
    if _failed(new) and not _failed(old):
        return Summary(f"failed{_reason(new)}", FAILED)
    for prefixes, weight in (
        (("spec.", "spec", "data", "webhooks", "rules", "subjects"), SPEC),
        (("metadata.finalizers", "metadata.ownerReferences", "metadata.labels", *_EFFECTIVE_ANNOTATIONS), METADATA),
        (("status.phase",), PHASE),
        (("status.conditions",), CONDITION),
        (("status",), STATUS),
    ):
        relevant = [
            difference
            for difference in changed
            if difference.path.startswith(prefixes) and difference.path not in _IGNORED_PATHS
        ]
        if relevant:
            return Summary(f"changed: {describe(relevant)}", weight)
    relevant = [difference for difference in changed if difference.path not in _IGNORED_PATHS[:1]]
    return Summary(f"changed: {describe(relevant)}" if relevant else "was written unchanged", NOTHING)


def asks_deletion(change: ObjectChange) -> bool:
    """Whether the request of a change was a deletion or eviction."""
    origin = change.origin
    return origin is not None and (origin.verb in ("delete", "deletecollection") or origin.subresource == "eviction")


_SUMMARY_BY_SUBRESOURCE = {
    "scale": ("was scaled", SPEC),
    "status": ("was changed", STATUS),
    "binding": ("was bound", PHASE),
}


def _without_documents(change: ObjectChange) -> Summary:
    """Describe a change by its request: the fields in the body, or verb and subresource."""
    if asks_deletion(change):
        return Summary("was marked for deletion", DELETED)
    sent_fields = [
        difference
        for difference in differences({}, change.sent)
        if difference.path.startswith(("spec", "data", "metadata.labels"))
    ]
    if sent_fields:
        is_secret = change.reference.resource == "secrets"
        changes = [
            difference.path if is_secret else f"{difference.path} = {_short(difference.after)}"
            for difference in sent_fields[:_SHOWN]
        ]
        more = f" and {len(sent_fields) - _SHOWN} more fields" if len(sent_fields) > _SHOWN else ""
        return Summary(f"changed: {'; '.join(changes)}{more}", SPEC)
    origin = change.origin
    if origin is None or origin.verb not in ("update", "patch", "create"):
        return Summary("was changed", STATUS)
    if origin.subresource in _SUMMARY_BY_SUBRESOURCE:
        return Summary(*_SUMMARY_BY_SUBRESOURCE[origin.subresource])
    # Users mostly write the spec, controllers mostly other fields.
    return Summary("was changed", SPEC if change.cause is None else METADATA)


def _taint_changes(previous: Document, after: Document) -> list[str]:
    """``taint dedicated=gpu:NoSchedule added``."""
    old, new = _taints(previous), _taints(after)
    return [
        *(f"taint {taint} added" for taint in new if taint not in old),
        *(f"taint {taint} removed" for taint in old if taint not in new),
    ]


def _taints(node: Document) -> list[str]:
    return [
        f"{taint.get('key')}{'=' + taint['value'] if taint.get('value') else ''}:{taint.get('effect')}"
        for taint in (node.get("spec") or {}).get("taints") or ()
    ]


def _metadata(document: Document) -> dict[str, Any]:
    return document.get("metadata") or {}


def _deletion_text(after: Document) -> str:
    metadata = _metadata(after)
    finalizers = metadata.get("finalizers")
    grace = metadata.get("deletionGracePeriodSeconds")
    text = "was marked for deletion"
    if finalizers:
        noun = "finalizer" if len(finalizers) == 1 else "finalizers"
        return f"{text}, and kept by its {noun} {first_names(finalizers)}"
    return f"{text} with {grace} seconds of grace" if grace else text


def first_names(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    names_text = ", ".join(names[:_SHOWN_NAMES])
    return f"{names_text} and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else names_text


def _failed(document: Document) -> bool:
    if mapping_of(document, "status").get("phase") == "Failed":
        return True
    return any(
        condition.get("type") == "Failed" and condition.get("status") == "True" for condition in conditions_of(document)
    )


def _reason(document: Document) -> str:
    status = mapping_of(document, "status")
    texts = [status.get("reason"), status.get("message")]
    for condition in conditions_of(document):
        if condition.get("type") == "Failed":
            texts += [condition.get("reason"), condition.get("message")]
    for container_status in status.get("containerStatuses") or ():
        terminated = (container_status.get("state") or {}).get("terminated")
        if terminated and terminated.get("exitCode"):
            texts.append(f"container {container_status.get('name')} exited with {terminated['exitCode']}")
    reasons = [str(text) for text in texts if text]
    return f": {': '.join(reasons)}" if reasons else ""


def _differences_text(changed: list[Difference]) -> str:
    changes_text = "; ".join(map(_line, changed[:_SHOWN]))
    return f"{changes_text} and {len(changed) - _SHOWN} more fields" if len(changed) > _SHOWN else changes_text


def _paths_text(changed: list[Difference]) -> str:
    """The paths only: values of Secrets must not get into logs and pages."""
    return ", ".join(dict.fromkeys(difference.path for difference in changed[:_SHOWN]))


def _line(difference: Difference) -> str:
    if difference.before is ABSENT:
        return f"{difference.path} added ({_short(difference.after)})"
    if difference.after is ABSENT:
        return f"{difference.path} removed (was {_short(difference.before)})"
    return f"{difference.path}: {_short(difference.before)} -> {_short(difference.after)}"


def _short(value: Any) -> str:
    return short_json(value, _SHOWN_TEXT)


def changed_paths(old: Document | None, new: Document | None) -> set[str]:
    """The changed fields of the spec."""
    if old is None or new is None:
        return set()
    return {difference.path for difference in differences(old, new) if difference.path.startswith("spec.")}


def is_fulfilled(resource: str, document: Document) -> bool:
    """Whether the status of an object shows that its controller has done everything for the spec: later writes then
    have another cause."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    desired = spec.get("replicas", 1)
    observed = status.get("observedGeneration", 0) == _metadata(document).get("generation", 0)
    has_replicas = status.get("replicas", 0) == desired
    match resource:
        case "replicasets.apps" | "replicationcontrollers":
            return bool(has_replicas)
        case "deployments.apps":
            return bool(observed and has_replicas and status.get("updatedReplicas", 0) == desired)
        case "statefulsets.apps":
            return bool(observed and has_replicas and status.get("currentRevision") == status.get("updateRevision"))
        case "daemonsets.apps":
            scheduled = status.get("desiredNumberScheduled", 0)
            return bool(
                observed
                and scheduled == status.get("currentNumberScheduled", 0)
                and scheduled == status.get("updatedNumberScheduled", 0)
            )
    return False


def is_healthy(resource: str, document: Document) -> bool:
    """Whether a workload had all its replicas, ready."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if resource == "daemonsets.apps":
        return is_fulfilled(resource, document) and status.get("numberReady", 0) == status.get("desiredNumberScheduled")
    ready = "availableReplicas" if resource == "deployments.apps" else "readyReplicas"
    return is_fulfilled(resource, document) and status.get(ready, 0) >= spec.get("replicas", 1)
