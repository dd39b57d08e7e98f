"""What a kubelet writes about a pod, stage by stage. Pure: a pod in, a status patch out.

Stages, each one write: *accepted* (Pending, containers creating), *running* (Running; Ready too unless readiness comes
later), *ready*, and after a deletion *stopped* (terminal phase, the step before the object goes). Fields, order,
reasons and messages: kubelet v1.36 ``pkg/kubelet/kubelet_pods.go``, ``pkg/kubelet/status``.
"""

import datetime
import hashlib
from typing import Any

from pilothouse.api.core import Container, Pod
from pilothouse.machinery.times import format_time

SUCCEEDED_AFTER_TERM = 0
"""Exit code of a simulated container that is told to stop: it ends cleanly."""


def accepted(pod: Pod, now: datetime.datetime, host_ip: str) -> dict[str, Any]:
    """The kubelet has seen the pod: Pending, nothing runs yet."""
    waiting = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    statuses = [_container(c, {"waiting": {"reason": waiting}}, ready=False) for c in pod.spec.containers]
    body: dict[str, Any] = {
        "phase": "Pending",
        "startTime": format_time(now),
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "containerStatuses": statuses,
        "conditions": _conditions(pod, now, "accepted"),
    }
    if pod.spec.init_containers:
        body["initContainerStatuses"] = [
            _container(c, {"waiting": {"reason": waiting}}, ready=False) for c in pod.spec.init_containers
        ]
    return _patch(pod, body)


def running(pod: Pod, now: datetime.datetime, pod_ip: str, *, ready: bool) -> dict[str, Any]:
    """All containers run. ``ready`` is False where readiness takes longer."""
    state = {"running": {"startedAt": format_time(now)}}
    body: dict[str, Any] = {
        "phase": "Running",
        "podIP": pod_ip,
        "podIPs": [{"ip": pod_ip}],
        "containerStatuses": [_container(c, state, ready=ready, pod=pod) for c in pod.spec.containers],
        "conditions": _conditions(pod, now, "running" if ready else "starting"),
    }
    if pod.spec.init_containers:
        body["initContainerStatuses"] = [_initialized(c, pod, now) for c in pod.spec.init_containers]
    return _patch(pod, body)


def stopped(pod: Pod, now: datetime.datetime) -> dict[str, Any]:
    """Every container has ended after a deletion: the terminal phase that precedes the final delete."""
    ended = _ended(pod, now)
    body: dict[str, Any] = {
        "phase": "Succeeded",
        "containerStatuses": [_container(c, ended, ready=False, pod=pod) for c in pod.spec.containers],
        "conditions": _conditions(pod, now, "stopped"),
    }
    return _patch(pod, body)


def _ended(pod: Pod, now: datetime.datetime) -> dict[str, Any]:
    started = pod.status.start_time or now
    return {
        "terminated": {
            "exitCode": SUCCEEDED_AFTER_TERM,
            "reason": "Completed",
            "startedAt": format_time(started),
            "finishedAt": format_time(now),
        }
    }


def _initialized(container: Container, pod: Pod, now: datetime.datetime) -> dict[str, Any]:
    if container.restart_policy == "Always":
        return _container(container, {"running": {"startedAt": format_time(now)}}, ready=True, pod=pod)
    return {**_container(container, _ended(pod, now), ready=True, pod=pod), "started": False}


def _container(container: Container, state: dict[str, Any], *, ready: bool, pod: Pod | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
    }
    if pod is not None:
        status["imageID"] = f"{container.image}@sha256:{hashlib.sha256(container.image.encode()).hexdigest()}"
        identity = hashlib.sha256(f"{pod.metadata.uid}/{container.name}".encode()).hexdigest()
        status["containerID"] = f"simulated://{identity}"
    return status


def _conditions(pod: Pod, now: datetime.datetime, stage: str) -> list[dict[str, Any]]:
    names = " ".join(c.name for c in pod.spec.containers)
    not_ready = ("ContainersNotReady", f"containers with unready status: [{names}]")
    done = ("PodCompleted", "")
    sandbox = stage in {"starting", "running"}
    initialized = stage != "accepted" or not pod.spec.init_containers
    waiting = " ".join(c.name for c in pod.spec.init_containers)
    uninitialized = ("ContainersNotInitialized", f"containers with incomplete status: [{waiting}]")
    ready = stage == "running"
    reason = ("", "") if ready else done if stage == "stopped" else not_ready
    rows = [
        ("PodReadyToStartContainers", sandbox, ("", "")),
        ("Initialized", initialized, (done if stage == "stopped" else ("", "")) if initialized else uninitialized),
        ("Ready", *_gated(pod, ready, reason)),
        ("ContainersReady", ready, reason),
        ("PodScheduled", True, ("", "")),
    ]
    return [_condition(pod, now, *row) for row in rows]


def _gated(pod: Pod, ready: bool, reason: tuple[str, str]) -> tuple[bool, tuple[str, str]]:
    """Ready needs every readiness gate's condition True besides ready containers."""
    if not ready:
        return ready, reason
    present = {c.type: c.status for c in pod.status.conditions}
    messages = []
    for gate in pod.spec.readiness_gates:
        kind = gate.condition_type
        if kind not in present:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif present[kind] != "True":
            messages.append(f'the status of pod readiness gate "{kind}" is not "True", but {present[kind]}')
    return (False, ("ReadinessGatesNotReady", ", ".join(messages))) if messages else (True, ("", ""))


def _condition(pod: Pod, now: datetime.datetime, kind: str, holds: bool, why: tuple[str, str]) -> dict[str, Any]:
    status = "True" if holds else "False"
    before = next((c for c in pod.status.conditions if c.type == kind), None)
    since = before.last_transition_time if before is not None and before.status == status else None
    # A strategic merge keeps what it is not told to change: reason and message of a condition that holds again must go.
    return {
        "type": kind,
        "status": status,
        "reason": why[0] or None,
        "message": why[1] or None,
        "observedGeneration": pod.metadata.generation or None,
        "lastProbeTime": None,
        "lastTransitionTime": format_time(since or now),
    }


def _patch(pod: Pod, status: dict[str, Any]) -> dict[str, Any]:
    status["observedGeneration"] = pod.metadata.generation or None
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}
