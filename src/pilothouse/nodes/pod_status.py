"""The status of a pod, as a kubelet writes it. Pure: the pod, its containers and the time in, a patch out.

``containers`` has the state of the containers, ``pod_phase`` the phase. Fields, order, reasons and
messages: kubelet v1.36 ``pkg/kubelet/kubelet_pods.go``, ``pkg/kubelet/status``.
"""

import datetime
import hashlib
import math
from typing import Any

import msgspec

from pilothouse.api.core import Container
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.times import format_time
from pilothouse.nodes.containers import (
    CRASH_LOOP,
    RUNNING,
    TERMINATED,
    WAITING,
    RuntimeContainer,
    RuntimePod,
    Termination,
)
from pilothouse.nodes.pod_phase import FAILED, PENDING, RUNS, SUCCEEDED, phase_of
from pilothouse.nodes.views import NodePod

OWNED = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
"""The kubelet's conditions, in its order. Those of other clients are kept, before them."""

_LOST = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
    "startedAt": None,
    "finishedAt": None,
}

_Rows = list[tuple[str, bool, str, str]]
"""Type, status, reason, message."""


class PodFailure(msgspec.Struct, frozen=True):
    """Why the kubelet has failed a pod: rejected, evicted, or past its deadline."""

    reason: str
    message: str
    disruption: bool = False
    """Also set the condition ``DisruptionTarget``, so that a Job does not count it as a failure."""


class Instant(msgspec.Struct, frozen=True):
    """The same instant on the loop's clock and on the wall clock."""

    loop: float
    wall: datetime.datetime

    def at(self, loop: float) -> str:
        """The wall time of a loop time."""
        return format_time(self.wall - datetime.timedelta(seconds=self.loop - loop))


def rejected(pod: NodePod, now: Instant, failure: PodFailure) -> dict[str, Any]:
    """The node rejects the pod (``rejectPod`` in ``pkg/kubelet/kubelet.go``)."""
    message = f"Pod was rejected: {failure.message}"
    body = {"phase": FAILED, "reason": failure.reason, "message": message, "startTime": format_time(now.wall)}
    rows: _Rows = [("Ready", False, "PodFailed", ""), ("ContainersReady", False, "PodFailed", "")]
    return _patch(pod, now, body, rows)


def status(
    pod: NodePod, runtime_pod: RuntimePod, now: Instant, host: str, address: str, failure: PodFailure | None = None
) -> dict[str, Any]:
    """The pod as its containers are.

    When everything was stopped and nothing runs any more, the phase is terminal: containers that never ran count as
    lost, and the pod as failed (``TerminatePod`` in ``pkg/kubelet/status/status_manager.go``).
    """
    phase = final_phase(runtime_pod, failure)
    over = phase in (SUCCEEDED, FAILED)
    lost = over and runtime_pod.stopping
    begun = runtime_pod.sandbox or runtime_pod.ran
    body: dict[str, Any] = {
        "phase": phase,
        "startTime": format_time(pod.status.start_time or now.wall),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
    }
    if failure is not None and over:
        body |= {"reason": failure.reason, "message": failure.message}
    if address:
        body |= {"podIP": address, "podIPs": [{"ip": address}]}
        if pod.status.pod_ip not in ("", address):
            # The list is merged by address: after a boot the pod would have two.
            body["podIPs"].append({"$patch": "replace"})
    waits = "PodInitializing" if runtime_pod.inits else "ContainerCreating"
    initialized = _incomplete(runtime_pod) == []
    kinds = (*pod.spec.init_containers, *pod.spec.containers, *pod.spec.ephemeral_containers)
    statuses = []
    # A new ephemeral container that the worker has not processed yet has no status.
    for spec, container in zip(kinds, runtime_pod.all_containers, strict=False):
        # Regular containers of a pod that was never initialized are still reported as waiting.
        is_lost = lost and (not container.init and (initialized or begun)) and container.end is None
        statuses.append(_container(spec, container, pod, now, waits, lost=is_lost))
    # Init containers in their order, all others by name (``convertToAPIContainerStatuses``).
    body["containerStatuses"] = sorted(statuses[runtime_pod.inits : len(runtime_pod.containers)], key=_name)
    if runtime_pod.inits:
        body["initContainerStatuses"] = statuses[: runtime_pod.inits]
    if runtime_pod.ephemeral:
        body["ephemeralContainerStatuses"] = sorted(statuses[len(runtime_pod.containers) :], key=_name)
    rows = _conditions(pod, runtime_pod, phase, failure if over else None)
    return _patch(pod, now, body, rows)


def describe(pod: NodePod, runtime_pod: RuntimePod, phase: str, failure: PodFailure | None) -> str:
    """Why the status is written, in a sentence."""
    parts = [f"{pod.spec.node_name}: {phase}"]
    if failure is not None:
        parts.append(f"{failure.reason}: {failure.message}")
    if pod.metadata.deletion_timestamp is not None:
        parts.append(f"being deleted, grace period {pod.metadata.deletion_grace_period_seconds or 0} s")
    if runtime_pod.starts_at == math.inf and not runtime_pod.stopping:
        parts.append("volumes are not mounted yet")
    parts += map(_describe_container, runtime_pod.all_containers)
    return "; ".join(parts)


def _describe_container(container: RuntimeContainer) -> str:
    name, last = f"container {container.name}", container.end
    if container.state == RUNNING:
        again = f", restarted {container.restarts} times" if container.restarts else ""
        return f"{name} runs and is {'' if container.ready else 'not '}ready{again}"
    if last is None:
        return f"{name} waits{f': {container.reason}' if container.reason else ''}"
    text = f"{name} exited with {last.code} ({last.reason}), restart policy {container.policy}"
    if container.reason == CRASH_LOOP and container.state == WAITING:
        return f"{text}, back-off {container.restart_at - last.finished_at:g} s before restart {container.restarts + 1}"
    return text


def _name(status: dict[str, Any]) -> str:
    name: str = status["name"]
    return name


def final_phase(runtime_pod: RuntimePod, failure: PodFailure | None) -> str:
    """The phase to be written: terminal only when nothing runs any more."""
    if (failure is not None or runtime_pod.stopping) and not runtime_pod.alive:
        if failure is not None:
            return FAILED
        if any(container.end is None for container in runtime_pod.containers[runtime_pod.inits :]):
            return FAILED
    phase = phase_of(runtime_pod)
    # Held back while containers may still run (``mergePodStatus``): a sidecar beside a failed init container.
    return (RUNS if runtime_pod.sandbox else PENDING) if phase in (SUCCEEDED, FAILED) and runtime_pod.alive else phase


def expected(pod: NodePod, runtime_pod: RuntimePod) -> dict[str, str]:
    """The current status of each of the kubelet's conditions."""
    return {
        kind: _word(holds)
        for kind, holds, _r, _m in _conditions(pod, runtime_pod, final_phase(runtime_pod, None), None)
    } | {"PodScheduled": "True"}


def fingerprint(runtime_pod: RuntimePod, failure: PodFailure | None) -> tuple[Any, ...]:
    """Equal for two states with the same status."""
    return (
        runtime_pod.sandbox,
        runtime_pod.stopping and not runtime_pod.alive,
        failure is not None and not runtime_pod.alive,
        *[(c.state, c.reason, c.message, c.restarts, c.ready, c.started) for c in runtime_pod.all_containers],
    )


def container_id(uid: str, name: str, restart_count: int) -> str:
    """A different id for every run."""
    identity = f"{uid}/{name}/{restart_count}" if restart_count else f"{uid}/{name}"
    return f"simulated://{hashlib.sha256(identity.encode()).hexdigest()}"


# Containers


def _container(
    spec: Container, container: RuntimeContainer, pod: NodePod, now: Instant, waits: str, *, lost: bool
) -> dict[str, Any]:
    uid = pod.metadata.uid
    last = (
        container.end if container.state not in (RUNNING, TERMINATED) and container.end is not None else container.last
    )
    body: dict[str, Any] = {
        "name": spec.name,
        "state": {},
        "lastState": {"terminated": _terminated(last, uid, container.name, now)} if last is not None else {},
        "ready": container.ready,
        "restartCount": container.restarts,
        "image": spec.image,
        "imageID": "",
        "started": container.started,
    }
    if container.ephemeral:
        del body["started"]  # nothing probes it
    if lost:
        body["state"] = {"terminated": _LOST}
    elif container.state == RUNNING:
        body["state"] = {"running": {"startedAt": now.at(container.since)}}
        _add_identity(body, uid, container.restarts)
        _add_resources(body, spec)
    elif container.state == TERMINATED and container.end is not None:
        body["state"] = {"terminated": _terminated(container.end, uid, container.name, now)}
        _add_identity(body, uid, container.end.restart_count)
    else:
        waiting = {"reason": container.reason or waits}
        if container.message:
            waiting["message"] = container.message
        elif container.reason == CRASH_LOOP:
            meta = pod.metadata
            message = f"restarting failed container={container.name} pod={meta.name}_{meta.namespace}({uid})"
            waiting["message"] = f"back-off {_go_duration(container.backoff)} {message}"
        elif container.reason in ("ErrImagePull", "ImagePullBackOff"):
            waiting["message"] = f'Back-off pulling image "{spec.image}"'
        body["state"] = {"waiting": waiting}
        if last is not None:
            _add_identity(body, uid, last.restart_count)
    return body


def _terminated(end: Termination, uid: str, name: str, now: Instant) -> dict[str, Any]:
    body: dict[str, Any] = {"exitCode": end.code, "reason": end.reason}
    if end.message:
        body["message"] = end.message
    started, finished = now.at(end.started_at), now.at(end.finished_at)
    return {
        **body,
        "startedAt": started,
        "finishedAt": finished,
        "containerID": container_id(uid, name, end.restart_count),
    }


def _add_identity(body: dict[str, Any], uid: str, restart_count: int) -> None:
    body["imageID"] = _image_id(body["image"])
    body["containerID"] = container_id(uid, body["name"], restart_count)


def _go_duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _add_resources(status: dict[str, Any], spec: Container) -> None:
    requests, limits = spec.resources.requests, spec.resources.limits
    if requests:
        status["allocatedResources"] = requests
    if requests or limits:
        status["resources"] = {key: value for key, value in (("requests", requests), ("limits", limits)) if value}


@bounded_cache(1024)
def _image_id(image: str) -> str:
    """``registry:5000/app:v1`` → ``registry:5000/app@sha256:…``, with a digest made up from the name."""
    if "@" in image:
        return image
    folder, slash, name = image.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"


# Conditions


def _conditions(pod: NodePod, runtime_pod: RuntimePod, phase: str, failure: PodFailure | None) -> _Rows:
    over = phase in (SUCCEEDED, FAILED)
    rows: _Rows = [("PodReadyToStartContainers", runtime_pod.sandbox and not over, "", "")]
    incomplete = _incomplete(runtime_pod)
    if phase == SUCCEEDED:
        rows.append(("Initialized", True, "PodCompleted", ""))
    elif incomplete:
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        rows.append(("Initialized", False, "ContainersNotInitialized", message))
    else:
        rows.append(("Initialized", True, "", ""))
    if over:
        why = "PodCompleted" if phase == SUCCEEDED else "PodFailed"
        rows += [("Ready", False, why, ""), ("ContainersReady", False, why, "")]
    else:
        unready = [c.name for c in runtime_pod.containers if not c.ready and (c.sidecar or not c.init)]
        gates = _closed_gates(pod)
        if unready:
            message = f"containers with unready status: [{' '.join(unready)}]"
            rows.append(("Ready", False, "ContainersNotReady", f"{message}, {gates}" if gates else message))
            rows.append(("ContainersReady", False, "ContainersNotReady", message))
        else:
            rows.append(("Ready", False, "ReadinessGatesNotReady", gates) if gates else ("Ready", True, "", ""))
            rows.append(("ContainersReady", True, "", ""))
    if failure is not None and failure.disruption:
        # First, as in ``$setElementOrder``: the API server rejects a patch whose two orders differ.
        rows.insert(0, ("DisruptionTarget", True, "TerminationByKubelet", failure.message))
    return rows


def _incomplete(runtime_pod: RuntimePod) -> list[str]:
    """The init containers that have not completed; none after a regular container has run."""
    if any(c.state in (RUNNING, TERMINATED) or c.restarts for c in runtime_pod.containers[runtime_pod.inits :]):
        return []
    return [c.name for c in runtime_pod.containers[: runtime_pod.inits] if not (c.started if c.sidecar else c.ready)]


def _word(holds: bool) -> str:
    return "True" if holds else "False"


def _closed_gates(pod: NodePod) -> str:
    """The message about unsatisfied readiness gates, "" if there are none."""
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


def _patch(pod: NodePod, now: Instant, body: dict[str, Any], rows: _Rows) -> dict[str, Any]:
    old_conditions = {c.type: c for c in pod.status.conditions}
    at = format_time(now.wall)
    # No generation: a server older than 1.33.
    generation = pod.metadata.generation or None
    conditions = []
    for kind, holds, reason, message in [*rows, ("PodScheduled", True, "", "")]:
        previous = old_conditions.get(kind)
        stays = previous is not None and previous.status == _word(holds) and previous.last_transition_time is not None
        # A merge keeps omitted fields: reason and message of a condition that is true again must be null.
        conditions.append(
            {
                "type": kind,
                "status": _word(holds),
                "reason": reason or None,
                "message": message or None,
                "observedGeneration": generation,
                "lastProbeTime": None,
                "lastTransitionTime": format_time(previous.last_transition_time) if stays else at,  # type: ignore[union-attr,arg-type]  # see ``stays``
            }
        )
    written = {kind for kind, *_rest in rows}
    foreign = [c.type for c in pod.status.conditions if c.type not in OWNED]
    foreign += [kind for kind in ("DisruptionTarget",) if kind in written and kind not in foreign]
    own = [kind for kind in OWNED if kind in written or kind == "PodScheduled" or kind in old_conditions]
    body["$setElementOrder/conditions"] = [{"type": kind} for kind in (*foreign, *own)]
    body["conditions"] = conditions
    body["observedGeneration"] = generation
    return {"metadata": {"uid": pod.metadata.uid}, "status": body}
