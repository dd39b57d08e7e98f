"""What a kubelet writes about a pod, stage by stage. Pure: a pod in, a status patch out.

Stages, each one write: *accepted* (Pending, containers creating), *running* (Running; ready too unless readiness comes
later), *ready*, and after a deletion *stopped* (terminal phase, the step before the object goes). Fields, order,
reasons and messages: kubelet v1.36 ``pkg/kubelet/kubelet_pods.go``, ``pkg/kubelet/status``.
"""

import datetime
import functools
import hashlib
from typing import Any

from pilothouse.api.core import Container, Pod
from pilothouse.machinery.times import format_time

OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
"""The kubelet's conditions, in its order. Those of others are kept, and stand before them."""

_COMPLETED, _KILLED = 0, 137
_LOST = {
    "exitCode": _KILLED,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}

_Rows = list[tuple[str, bool, str, str]]
"""Type, whether it holds, reason, message."""


def accepted(pod: Pod, now: datetime.datetime, host: str) -> dict[str, Any]:
    """The kubelet has seen the pod: Pending, nothing runs yet."""
    body = _start(pod, now, host)
    rows: _Rows = [("PodReadyToStartContainers", False, "", "")]
    rows.append(("Initialized", True, "", "") if not pod.spec.init_containers else _uninitialized(pod))
    rows += _unready(pod)
    return _patch(pod, now, {**body, "conditions": rows})


def running(pod: Pod, now: datetime.datetime, host: str, address: str, *, ready: bool) -> dict[str, Any]:
    """All containers run. ``ready`` is False where readiness takes longer.

    Also what a running pod is told again when its status was changed by somebody else, or a readiness gate changed:
    containers keep the time at which they started.
    """
    started = format_time(_running_since(pod) or now)
    state = {"running": {"startedAt": started}}
    body: dict[str, Any] = {
        "phase": "Running",
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": [_container(c, state, ready=ready, uid=pod.metadata.uid) for c in pod.spec.containers],
    }
    if pod.spec.init_containers:
        body["initContainerStatuses"] = [_initialized(c, pod, started) for c in pod.spec.init_containers]
    rows: _Rows = [("PodReadyToStartContainers", True, "", ""), ("Initialized", True, "", "")]
    if ready:
        gates = _closed_gates(pod)
        rows.append(("Ready", False, "ReadinessGatesNotReady", gates) if gates else ("Ready", True, "", ""))
        rows.append(("ContainersReady", True, "", ""))
    else:
        rows += _unready(pod)
    return _patch(pod, now, {**body, "conditions": rows})


def stopped(pod: Pod, now: datetime.datetime, host: str, *, ran: bool, killed: bool) -> dict[str, Any]:
    """Every container has ended after a deletion: the terminal phase that precedes the final delete.

    Containers that ran end with 0, or with 137 when they were ``killed`` at the end of the grace period. Those that
    never did count as lost, and the pod as failed (``TerminatePod`` in ``pkg/kubelet/status/status_manager.go``).
    """
    succeeded = ran and not killed
    body: dict[str, Any] = {"phase": "Succeeded" if succeeded else "Failed"}
    initialized = ran or not pod.spec.init_containers
    if ran:
        body |= _ended_containers(pod, now, killed=killed)
    else:
        body = {**_start(pod, now, host), **body}
        if initialized:
            lost = {"terminated": _LOST}
            body["containerStatuses"] = [_container(c, lost, ready=False) for c in pod.spec.containers]
    why = "PodCompleted" if succeeded else "PodFailed"
    rows: _Rows = [("PodReadyToStartContainers", False, "", "")]
    if initialized:
        rows.append(("Initialized", True, why if succeeded else "", ""))
    else:
        rows.append(_uninitialized(pod))
    rows += [("Ready", False, why, ""), ("ContainersReady", False, why, "")]
    return _patch(pod, now, {**body, "conditions": rows})


def expected(pod: Pod, *, initialized: bool, ready: bool) -> dict[str, str]:
    """The status of each of the kubelet's conditions before the end: ``initialized`` once containers run."""
    return {
        "PodReadyToStartContainers": _word(initialized),
        "Initialized": _word(initialized or not pod.spec.init_containers),
        "Ready": _word(ready and not (pod.spec.readiness_gates and _closed_gates(pod))),
        "ContainersReady": _word(ready),
        "PodScheduled": "True",
    }


def _word(holds: bool) -> str:
    return "True" if holds else "False"


# Containers


def _start(pod: Pod, now: datetime.datetime, host: str) -> dict[str, Any]:
    """Everything but the conditions of a pod whose containers are being created."""
    waiting = {"waiting": {"reason": "PodInitializing" if pod.spec.init_containers else "ContainerCreating"}}
    body: dict[str, Any] = {
        "phase": "Pending",
        "startTime": format_time(pod.status.start_time or now),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "containerStatuses": [_container(c, waiting, ready=False) for c in pod.spec.containers],
    }
    if pod.spec.host_network:
        body |= {"podIP": host, "podIPs": [{"ip": host}]}
    if pod.spec.init_containers:
        body["initContainerStatuses"] = [_container(c, waiting, ready=False) for c in pod.spec.init_containers]
    return body


def _running_since(pod: Pod) -> datetime.datetime | None:
    # Both are one write: the sandbox becomes ready and the containers start.
    for condition in pod.status.conditions:
        if condition.type == "PodReadyToStartContainers" and condition.status == "True":
            return condition.last_transition_time
    return None


def _ended_containers(pod: Pod, now: datetime.datetime, *, killed: bool) -> dict[str, Any]:
    ended = {
        "terminated": {
            "exitCode": _KILLED if killed else _COMPLETED,
            "reason": "Error" if killed else "Completed",
            "startedAt": format_time(_running_since(pod) or pod.status.start_time or now),
            "finishedAt": format_time(now),
        }
    }
    uid = pod.metadata.uid
    body: dict[str, Any] = {
        "containerStatuses": [_container(c, ended, ready=False, uid=uid) for c in pod.spec.containers]
    }
    if pod.spec.init_containers:
        body["initContainerStatuses"] = [
            _container(c, ended, ready=False, uid=uid)
            if c.restart_policy == "Always"
            else _initialized(c, pod, ended["terminated"]["startedAt"])
            for c in pod.spec.init_containers
        ]
    return body


def _initialized(container: Container, pod: Pod, at: Any) -> dict[str, Any]:
    """An init container once regular containers run: a sidecar runs on, any other has completed."""
    uid = pod.metadata.uid
    if container.restart_policy == "Always":
        return _container(container, {"running": {"startedAt": at}}, ready=True, uid=uid)
    started = format_time(pod.status.start_time) if pod.status.start_time is not None else at
    done = {"exitCode": _COMPLETED, "reason": "Completed", "startedAt": started, "finishedAt": at}
    return _container(container, {"terminated": done}, ready=True, uid=uid)


def _container(container: Container, state: dict[str, Any], *, ready: bool, uid: str = "") -> dict[str, Any]:
    """A container's status. ``uid`` is the pod's once the container exists."""
    status: dict[str, Any] = {
        "name": container.name,
        "state": state,
        "lastState": {},
        "ready": ready,
        "restartCount": 0,
        "image": container.image,
        "imageID": "",
        "started": "running" in state,
    }
    if uid:
        identity = hashlib.sha256(f"{uid}/{container.name}".encode()).hexdigest()
        status["imageID"] = _image_id(container.image)
        status["containerID"] = f"simulated://{identity}"
        if "terminated" in state:
            status["state"] = {"terminated": {**state["terminated"], "containerID": status["containerID"]}}
        else:
            _add_resources(status, container)
    return status


def _add_resources(status: dict[str, Any], container: Container) -> None:
    requests, limits = container.resources.requests, container.resources.limits
    if requests:
        status["allocatedResources"] = requests
    if requests or limits:
        status["resources"] = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}


@functools.lru_cache(maxsize=1024)
def _image_id(image: str) -> str:
    """``registry:5000/app:v1`` → ``registry:5000/app@sha256:…``, with a digest made up from the name."""
    if "@" in image:
        return image
    folder, slash, name = image.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


# Conditions


def _uninitialized(pod: Pod) -> tuple[str, bool, str, str]:
    # A sidecar that has not started counts as incomplete too.
    names = " ".join(c.name for c in pod.spec.init_containers)
    return ("Initialized", False, "ContainersNotInitialized", f"containers with incomplete status: [{names}]")


def _unready(pod: Pod) -> _Rows:
    names = " ".join(c.name for c in pod.spec.containers)
    why = ("ContainersNotReady", f"containers with unready status: [{names}]")
    return [("Ready", False, *why), ("ContainersReady", False, *why)]


def _closed_gates(pod: Pod) -> str:
    """Which readiness gates keep the pod from being ready, "" for none."""
    if not pod.spec.readiness_gates:
        return ""
    present = {c.type: c.status for c in pod.status.conditions}
    messages = []
    for gate in pod.spec.readiness_gates:
        kind = gate.condition_type
        if kind not in present:
            messages.append(f'corresponding condition of pod readiness gate "{kind}" does not exist.')
        elif present[kind] != "True":
            messages.append(f'the status of pod readiness gate "{kind}" is not "True", but {present[kind]}')
    return ", ".join(messages)


def _patch(pod: Pod, now: datetime.datetime, status: dict[str, Any]) -> dict[str, Any]:
    before = {c.type: c for c in pod.status.conditions}
    at = format_time(now)
    # No generation: a server older than 1.33.
    generation = pod.metadata.generation or None
    conditions = []
    for kind, holds, reason, message in [*status["conditions"], ("PodScheduled", True, "", "")]:
        known = before.get(kind)
        stays = known is not None and known.status == _word(holds) and known.last_transition_time is not None
        # A merge keeps what it is not told to change: reason and message of a condition that holds again must go.
        conditions.append(
            {
                "type": kind,
                "status": _word(holds),
                "reason": reason or None,
                "message": message or None,
                "observedGeneration": generation,
                "lastProbeTime": None,
                "lastTransitionTime": format_time(known.last_transition_time) if stays else at,  # type: ignore[union-attr,arg-type]  # see ``stays``
            }
        )
    foreign = [c.type for c in pod.status.conditions if c.type not in OWNED]
    status["$setElementOrder/conditions"] = [{"type": kind} for kind in (*foreign, *OWNED)]
    status["conditions"] = conditions
    status["observedGeneration"] = generation
    return {"metadata": {"uid": pod.metadata.uid}, "status": status}
