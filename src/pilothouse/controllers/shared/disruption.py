"""The condition ``DisruptionTarget``, why a pod will be deleted, and the patch that writes it. Pure.

Job's pod failure policy and users read the condition. Mirrors ``UpdatePodCondition`` (v1.36 ``pkg/api/v1/pod/util.go``)
and ``PatchPodStatus`` (``pkg/util/pod/pod.go``): a strategic merge patch with the changed fields, the order of the
conditions, and the uid as precondition.
"""

import datetime
from typing import Any

from pilothouse.api.core import Pod, PodCondition
from pilothouse.machinery.conditions import find_condition
from pilothouse.machinery.times import format_time

DISRUPTION_TARGET = "DisruptionTarget"


def disruption_target(pod: Pod, reason: str, message: str) -> PodCondition:
    """The condition for the pod's generation, without a time, which ``status_patch`` sets."""
    return PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
    )


def status_patch(
    pod: Pod, now: datetime.datetime, *, condition: PodCondition | None = None, phase: str = ""
) -> dict[str, Any] | None:
    """The body of a patch of ``pods/status``, or None if nothing changes. With a ``phase`` it sets
    ``observedGeneration``, too, as the kubelet would."""
    status: dict[str, Any] = {}
    if condition is not None:
        changed = _changes(find_condition(pod.status.conditions, condition.type), condition, now)
        if changed is not None:
            types = [existing.type for existing in pod.status.conditions]
            if condition.type not in types:
                types.append(condition.type)
            if pod.status.conditions:  # a list that the pod does not have yet is no merge (``diffMaps``)
                status["$setElementOrder/conditions"] = [{"type": kind} for kind in types]
            status["conditions"] = [changed]
    if phase:
        if pod.status.observed_generation != pod.metadata.generation:
            status["observedGeneration"] = pod.metadata.generation
        if pod.status.phase != phase:
            status["phase"] = phase
    return {"metadata": {"uid": pod.metadata.uid}, "status": status} if status else None


def _changes(old: PodCondition | None, new: PodCondition, now: datetime.datetime) -> dict[str, Any] | None:
    """The entries of the patch for the list of conditions."""
    full: dict[str, Any] = {
        "type": new.type,
        "status": new.status,
        "reason": new.reason,
        "message": new.message,
        "observedGeneration": new.observed_generation or None,
    }
    if old is None:
        if not new.observed_generation:
            del full["observedGeneration"]
        return {**full, "lastProbeTime": None, "lastTransitionTime": format_time(now)}
    old_entry = {
        "type": old.type,
        "status": old.status,
        "reason": old.reason,
        "message": old.message,
        "observedGeneration": old.observed_generation or None,
    }
    changed = {name: value for name, value in full.items() if old_entry[name] != value}
    # As upstream, nothing is written if only the generation is newer.
    if not changed.keys() - {"observedGeneration"}:
        return None
    if old.status != new.status:
        changed["lastTransitionTime"] = format_time(now)
    return {"type": new.type, **changed}
