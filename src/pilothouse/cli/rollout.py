"""The progress of an object's rollout: one line of text, and whether it is complete or has failed. Pure.

Rules are those of ``kubectl rollout status`` (kubectl 0.36, ``pkg/polymorphichelpers/rollout_status.go``) and ``kubectl
wait`` for the kinds that these support; with the strategy ``OnDelete`` pods of an earlier template are left. An object
of any other kind is done when it exists and none of its conditions Ready, Available and Established is False.
"""

from collections.abc import Callable
from typing import Any

import msgspec

_GATES = ("Ready", "Available", "Established")

_GROUP_OF = {
    "DaemonSet": "apps",
    "Deployment": "apps",
    "Job": "batch",
    "Namespace": "",
    "PersistentVolumeClaim": "",
    "Pod": "",
    "ReplicaSet": "apps",
    "ReplicationController": "",
    "StatefulSet": "apps",
}
"""The kinds with rules of their own. A custom resource may have the same kind in another group."""

CONTROLLER_OF = {
    "CronJob": "cronjob-controller",
    "DaemonSet": "daemonset-controller",
    "Deployment": "deployment-controller",
    "HorizontalPodAutoscaler": "horizontal-pod-autoscaler-controller",
    "Job": "job-controller",
    "PersistentVolumeClaim": "persistentvolume-binder-controller",
    "ReplicaSet": "replicaset-controller",
    "ReplicationController": "replicationcontroller",
    "StatefulSet": "statefulset-controller",
}
"""The controller that reconciles objects of this kind."""


EXISTS = "exists"
"""The progress of an object that need not become ready."""
DELETED = "is being deleted"


class Progress(msgspec.Struct, frozen=True):
    """The progress to show, and whether to stop waiting: it is complete, or has failed for good."""

    text: str
    done: bool
    failed: bool = False


def progress_of(document: dict[str, Any]) -> Progress:
    """The progress of an object, as the API server returned it."""
    meta, kind = document.get("metadata", {}), document.get("kind", "")
    if meta.get("deletionTimestamp"):
        return Progress(DELETED, False)
    if kind not in _GROUP_OF or document.get("apiVersion", "").rpartition("/")[0] != _GROUP_OF[kind]:
        return _conditions(document)
    spec, status = document.get("spec") or {}, document.get("status") or {}
    if kind in _REPLICATED:
        earlier = _observed(meta, status) or _past_deadline(status) or _replica_failure(status)
        return earlier or _REPLICATED[kind](spec, status)
    if kind == "DaemonSet":
        return _observed(meta, status) or _daemon_set(spec, status)
    if kind == "Job":
        return _job(spec, status)
    if kind == "Pod":
        return _pod(status)
    phase = status.get("phase", "")
    return Progress(phase or "is pending", phase in {"Active", "Bound"})


def _conditions(document: dict[str, Any]) -> Progress:
    """The progress of an object of any other kind. In custom resources the status may have any type."""
    status = document.get("status")
    entries = status.get("conditions") if isinstance(status, dict) else None
    conditions = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    unmet = [entry["type"] for entry in conditions if entry.get("type") in _GATES and entry.get("status") != "True"]
    return Progress(f"not {', '.join(unmet)}" if unmet else EXISTS, not unmet)


def is_established(definition: dict[str, Any]) -> bool:
    """Whether objects of a CustomResourceDefinition can be created."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


def _observed(meta: dict[str, Any], status: dict[str, Any]) -> Progress | None:
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        return Progress("waiting for the spec update to be observed", False)
    return None


def _past_deadline(status: dict[str, Any]) -> Progress | None:
    """Whether the rollout of a Deployment has failed (kubectl 0.36, ``pkg/polymorphichelpers/rollout_status.go``)."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Progressing" and condition.get("reason") == "ProgressDeadlineExceeded":
            return Progress("exceeded its progress deadline", False, failed=True)
    return None


def _replica_failure(status: dict[str, Any]) -> Progress | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return Progress(f"fails: {condition.get('message', '')}", False)
    return None


def _deployment(spec: dict[str, Any], status: dict[str, Any]) -> Progress:
    existing, updated = status.get("replicas", 0), status.get("updatedReplicas", 0)
    of_template = _updated(updated, spec.get("replicas", 1), existing)
    if of_template is not None and spec.get("paused"):
        return Progress(f"is paused, {of_template.text}", False)
    return of_template or _old_pods(existing - updated) or _replicas(spec, status)


def _stateful_set(spec: dict[str, Any], status: dict[str, Any]) -> Progress:
    strategy, of_template = spec.get("updateStrategy") or {}, None
    if _is_rolling(strategy) and status.get("currentRevision") != status.get("updateRevision"):
        wanted = spec.get("replicas", 1) - ((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        of_template = _updated(status.get("updatedReplicas", 0), wanted, status.get("replicas", 0))
    return of_template or _replicas(spec, status)


def _daemon_set(spec: dict[str, Any], status: dict[str, Any]) -> Progress:
    desired, of_template = status.get("desiredNumberScheduled", 0), None
    if _is_rolling(spec.get("updateStrategy") or {}):
        updated, existing = status.get("updatedNumberScheduled", 0), status.get("currentNumberScheduled", 0)
        of_template = _updated(updated, desired, existing)
    return of_template or _counted(min(status.get("numberReady", 0), status.get("numberAvailable", 0)), desired)


def _is_rolling(strategy: dict[str, Any]) -> bool:
    """Whether the controller replaces pods of an earlier template; with ``OnDelete`` users do."""
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def _updated(updated: int, desired: int, existing: int) -> Progress | None:
    """None if enough pods have the current template, or no others exist."""
    return Progress(f"{updated} of {desired} updated", False) if updated < min(desired, existing) else None


def _old_pods(number: int) -> Progress | None:
    if number <= 0:
        return None
    return Progress(f"{number} old {'pod is' if number == 1 else 'pods are'} pending termination", False)


def _replicas(spec: dict[str, Any], status: dict[str, Any]) -> Progress:
    desired = spec.get("replicas", 1)
    ready = _counted(min(status.get("readyReplicas", 0), status.get("availableReplicas", 0)), desired)
    return _old_pods(status.get("replicas", 0) - desired) or ready


_REPLICATED: dict[str, Callable[[dict[str, Any], dict[str, Any]], Progress]] = {
    "Deployment": _deployment,
    "ReplicaSet": _replicas,
    "ReplicationController": _replicas,
    "StatefulSet": _stateful_set,
}


def _counted(ready: int, desired: int) -> Progress:
    return Progress(f"{ready} of {desired} ready", ready >= desired)


def _job(spec: dict[str, Any], status: dict[str, Any]) -> Progress:
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in {"Complete", "Failed"}:
            return Progress(condition["type"].lower(), condition["type"] == "Complete", condition["type"] == "Failed")
    return Progress(f"{status.get('succeeded', 0)} of {spec.get('completions', 1)} succeeded", False)


def _pod(status: dict[str, Any]) -> Progress:
    phase = status.get("phase", "Pending")
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    return Progress(phase + (", ready" if ready else ""), ready or phase == "Succeeded", phase == "Failed")
