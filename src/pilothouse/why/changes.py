"""What a change was, in a sentence, and how likely it is that others followed from it. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.machinery.differences import ABSENT, Difference, differences, short_json
from pilothouse.why.evidence import Document, ObjectChange

SPEC, FAILED, DELETED, CREATED, METADATA, PHASE, CONDITION, STATUS, NOTHING = 60, 55, 50, 40, 30, 25, 20, 10, 0
"""What weighs more is more likely the reason of what a controller did after it."""

_SHOWN = 3
_SHOWN_TEXT = 80
_SHOWN_NAMES = 10
_UNREMARKABLE = ("metadata.generation", "metadata.annotations", "status.observedGeneration", "metadata.uid")
_HEARTBEATS = ("lastHeartbeatTime", "renewTime", "lastProbeTime", "lastUpdateTime", "lastTransitionTime")


_FUNCTIONAL = (
    'metadata.annotations["storageclass.',
    'metadata.annotations["ingressclass.kubernetes.io/is-default-class',
    'metadata.annotations["controller.kubernetes.io/pod-deletion-cost',
    'metadata.annotations["simulated.pilothouse.dev/',
)
"""Annotations that programs act on."""


class Summary(msgspec.Struct, frozen=True):
    """``text`` without the object's name: ``was deleted``, ``changed: spec.replicas: 3 -> 2``."""

    text: str
    weight: int


def summary(change: ObjectChange, before: Document | None, after: Document | None) -> Summary:
    """What a change was. Without the documents, which history may not have, only its type is known."""
    if change.type == "ADDED":
        return Summary("was created", CREATED)
    if change.type == "DELETED":
        asked = before is not None and bool(_metadata(before).get("deletionTimestamp"))
        return Summary("was removed once its deletion was complete" if asked else "was deleted", DELETED)
    if before is None or after is None:
        return _without_documents(change)
    listed = _listed_paths if change.reference.resource == "secrets" else _listed
    if _metadata(after).get("deletionTimestamp") and not _metadata(before).get("deletionTimestamp"):
        return Summary(_deletion_text(after), DELETED)
    found = [difference for difference in differences(before, after) if not difference.path.endswith(_HEARTBEATS)]
    if change.origin is not None and change.origin.subresource == "status":
        # Other writes, which are not known, may lie between the two documents.
        found = [each for each in found if each.path.startswith(("status", "metadata"))]
    if change.reference.resource == "nodes" and (taints := _taint_changes(before, after)):
        others = [each for each in found if each.path.startswith("spec.") and not each.path.startswith("spec.taints")]
        return Summary(f"changed: {'; '.join(taints)}{f'; {listed(others)}' if others else ''}", SPEC)
    if _failed(after) and not _failed(before):
        return Summary(f"failed{_reason(after)}", FAILED)
    for prefixes, weight in (
        (("spec.", "spec", "data", "webhooks", "rules", "subjects"), SPEC),
        (("metadata.finalizers", "metadata.ownerReferences", "metadata.labels", *_FUNCTIONAL), METADATA),
        (("status.phase",), PHASE),
        (("status.conditions",), CONDITION),
        (("status",), STATUS),
    ):
        these = [each for each in found if each.path.startswith(prefixes) and each.path not in _UNREMARKABLE]
        if these:
            return Summary(f"changed: {listed(these)}", weight)
    these = [each for each in found if each.path not in _UNREMARKABLE[:1]]
    return Summary(f"changed: {listed(these)}" if these else "was written unchanged", NOTHING)


def asks_deletion(change: ObjectChange) -> bool:
    """Whether the request of a change asked for a deletion."""
    origin = change.origin
    return origin is not None and (origin.verb in ("delete", "deletecollection") or origin.subresource == "eviction")


_BY_SUBRESOURCE = {"scale": ("was scaled", SPEC), "status": ("was changed", STATUS), "binding": ("was bound", PHASE)}


def _without_documents(change: ObjectChange) -> Summary:
    """What the request says: the fields that it named, or what it was for."""
    if asks_deletion(change):
        return Summary("was marked for deletion", DELETED)
    named = [
        difference
        for difference in differences({}, change.sent)
        if difference.path.startswith(("spec", "data", "metadata.labels"))
    ]
    if named:
        secret = change.reference.resource == "secrets"
        shown = [each.path if secret else f"{each.path} = {_short(each.after)}" for each in named[:_SHOWN]]
        more = f" and {len(named) - _SHOWN} more fields" if len(named) > _SHOWN else ""
        return Summary(f"changed: {'; '.join(shown)}{more}", SPEC)
    origin = change.origin
    if origin is None or origin.verb not in ("update", "patch", "create"):
        return Summary("was changed", STATUS)
    if origin.subresource in _BY_SUBRESOURCE:
        return Summary(*_BY_SUBRESOURCE[origin.subresource])
    # What somebody writes is likely to be the spec, what a controller writes of its own accord beside it is not.
    return Summary("was changed", SPEC if change.cause is None else METADATA)


def _taint_changes(before: Document, after: Document) -> list[str]:
    """``taint dedicated=gpu:NoSchedule added``."""
    old, new = _taints(before), _taints(after)
    return [
        *(f"taint {each} added" for each in new if each not in old),
        *(f"taint {each} removed" for each in old if each not in new),
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
        return f"{text}, and kept by its finalizers {first_of(finalizers)}"
    return f"{text} with {grace} seconds of grace" if grace else text


def first_of(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are: an object may have thousands."""
    shown = ", ".join(names[:_SHOWN_NAMES])
    return f"{shown} and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else shown


def _failed(document: Document) -> bool:
    status = document.get("status") or {}
    if status.get("phase") == "Failed":
        return True
    return any(
        condition.get("type") == "Failed" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


def _reason(document: Document) -> str:
    status = document.get("status") or {}
    texts = [status.get("reason"), status.get("message")]
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Failed":
            texts += [condition.get("reason"), condition.get("message")]
    for each in status.get("containerStatuses") or ():
        ended = (each.get("state") or {}).get("terminated")
        if ended and ended.get("exitCode"):
            texts.append(f"container {each.get('name')} exited with {ended['exitCode']}")
    said = [text for text in texts if text]
    return f": {': '.join(said)}" if said else ""


def _listed(found: list[Difference]) -> str:
    shown = "; ".join(map(_line, found[:_SHOWN]))
    return f"{shown} and {len(found) - _SHOWN} more fields" if len(found) > _SHOWN else shown


def _listed_paths(found: list[Difference]) -> str:
    """Of Secrets no values: explanations end up in logs, and on pages that are shown to others."""
    return ", ".join(dict.fromkeys(each.path for each in found[:_SHOWN]))


def _line(difference: Difference) -> str:
    if difference.before is ABSENT:
        return f"{difference.path} added ({_short(difference.after)})"
    if difference.after is ABSENT:
        return f"{difference.path} removed (was {_short(difference.before)})"
    return f"{difference.path}: {_short(difference.before)} -> {_short(difference.after)}"


def _short(value: Any) -> str:
    return short_json(value, _SHOWN_TEXT)


def changed_paths(before: Document | None, after: Document | None) -> set[str]:
    """The fields of the spec that a change has changed."""
    if before is None or after is None:
        return set()
    return {difference.path for difference in differences(before, after) if difference.path.startswith("spec.")}


def is_fulfilled(resource: str, document: Document) -> bool:
    """Whether the status of an object says that its controller has done all that the spec asks for, so that what the
    controller does next has another reason."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    wanted = spec.get("replicas", 1)
    observed = status.get("observedGeneration", 0) == _metadata(document).get("generation", 0)
    has = status.get("replicas", 0) == wanted
    match resource:
        case "replicasets.apps" | "replicationcontrollers":
            return bool(has)
        case "deployments.apps":
            return bool(observed and has and status.get("updatedReplicas", 0) == wanted)
        case "statefulsets.apps":
            return bool(observed and has and status.get("currentRevision") == status.get("updateRevision"))
        case "daemonsets.apps":
            desired = status.get("desiredNumberScheduled", 0)
            return bool(
                observed
                and desired == status.get("currentNumberScheduled", 0)
                and desired == status.get("updatedNumberScheduled", 0)
            )
    return False


def is_healthy(resource: str, document: Document) -> bool:
    """Whether a workload had all that its spec asks for, ready."""
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if resource == "daemonsets.apps":
        return is_fulfilled(resource, document) and status.get("numberReady", 0) == status.get("desiredNumberScheduled")
    ready = "availableReplicas" if resource == "deployments.apps" else "readyReplicas"
    return is_fulfilled(resource, document) and status.get(ready, 0) >= spec.get("replicas", 1)
