"""The printer of Pods. After kubernetes' ``pkg/printers/internalversion/printers.go`` (v1.36)."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Printer,
    Row,
    columns,
    human_duration,
    parse_instant,
    wide,
)

_Doc = Mapping[str, Any]


def print_pod(pod: _Doc, now: datetime.datetime) -> Row:
    """Ready, Status, Restarts, IP, Node, Nominated Node, Readiness Gates."""
    metadata: _Doc = pod.get("metadata") or {}
    spec: _Doc = pod.get("spec") or {}
    status: _Doc = pod.get("status") or {}
    sidecars = {
        container.get("name"): True
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    total = len(spec.get("containers") or ()) + len(sidecars)
    reason, ready, restarts, last_restart = _summary(metadata, spec, status, sidecars)
    restarts_text = str(restarts)
    if restarts and last_restart is not None:
        restarts_text = f"{restarts} ({human_duration(now - last_restart)} ago)"
    pod_ips = status.get("podIPs") or ()
    return [
        f"{ready}/{total}",
        reason,
        restarts_text,
        (pod_ips[0].get("ip") if pod_ips else "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def pod_conditions(pod: _Doc) -> list[dict[str, str]] | None:
    """The conditions of the row: ``Completed`` for finished pods."""
    match (pod.get("status") or {}).get("phase"):
        case "Succeeded":
            message = "The pod has completed successfully."
        case "Failed":
            message = "The pod failed."
        case _:
            return None
    phase = pod["status"]["phase"]
    return [{"type": "Completed", "status": "True", "reason": phase, "message": message}]


def _condition(status: _Doc, kind: str) -> _Doc:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            matching: _Doc = condition
            return matching
    return {}


def _is_true(status: _Doc, kind: str) -> bool:
    return bool(_condition(status, kind).get("status") == "True")


def _summary(
    metadata: _Doc, spec: _Doc, status: _Doc, sidecars: Mapping[Any, bool]
) -> tuple[str, int, int, datetime.datetime | None]:
    reason = status.get("reason") or status.get("phase") or ""
    if any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in status.get("conditions") or ()
    ):
        reason = "SchedulingGated"

    ready = restarts = sidecar_restarts = 0
    last_restart: datetime.datetime | None = None
    sidecar_last_restart: datetime.datetime | None = None
    initializing = False
    for index, container in enumerate(status.get("initContainerStatuses") or ()):
        state: _Doc = container.get("state") or {}
        restarts += container.get("restartCount", 0)
        last_restart = _latest_restart(last_restart, container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts += container.get("restartCount", 0)
            sidecar_last_restart = _latest_restart(sidecar_last_restart, container)
        init_reason = _init_state(state, started=is_sidecar and bool(container.get("started")))
        if init_reason == "":
            if is_sidecar and container.get("started") and container.get("ready"):
                ready += 1
            continue
        initializing = True
        if init_reason is None:
            init_reason = f"Init:{index}/{len(spec.get('initContainers') or ())}"
        reason = init_reason
        break

    if not initializing or _is_true(status, "Initialized"):
        restarts, last_restart = sidecar_restarts, sidecar_last_restart
        running = False
        error_reason = ""
        for container in reversed(status.get("containerStatuses") or ()):
            state = container.get("state") or {}
            restarts += container.get("restartCount", 0)
            last_restart = _latest_restart(last_restart, container)
            waiting, terminated = state.get("waiting"), state.get("terminated")
            if waiting and waiting.get("reason"):
                reason = waiting["reason"]
            elif terminated is not None:
                reason = _terminated_reason(terminated)
                if terminated.get("exitCode", 0) != 0:
                    error_reason = reason
            elif container.get("ready") and state.get("running") is not None:
                running = True
                ready += 1
        if reason == "Completed":
            if running:
                reason = "Running" if _is_true(status, "Ready") else "NotReady"
            elif error_reason:
                reason = error_reason

    if metadata.get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return reason, ready, restarts, last_restart


def _init_state(state: _Doc, *, started: bool) -> str | None:
    """The pod status for an init container: "" if it has completed or started, None if it is in progress."""
    terminated, waiting = state.get("terminated"), state.get("waiting")
    if terminated is not None and terminated.get("exitCode", 0) == 0:
        return ""
    if started:
        return ""
    if terminated is not None:
        return f"Init:{_terminated_reason(terminated)}"
    if waiting and waiting.get("reason") and waiting["reason"] != "PodInitializing":
        return f"Init:{waiting['reason']}"
    return None


def _terminated_reason(terminated: _Doc) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _latest_restart(last_restart: datetime.datetime | None, container: _Doc) -> datetime.datetime | None:
    terminated = (container.get("lastState") or {}).get("terminated") or {}
    finished_at = parse_instant(terminated.get("finishedAt"))
    if finished_at is None or (last_restart is not None and last_restart >= finished_at):
        return last_restart
    return finished_at


def _readiness_gates(spec: _Doc, status: _Doc) -> str:
    gates: Sequence[_Doc] = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    met_count = sum(_is_true(status, gate.get("conditionType", "")) for gate in gates)
    return f"{met_count}/{len(gates)}"


PRINTER = Printer(
    (NAME, *columns("Ready", "Status", "Restarts"), AGE, *wide("IP", "Node", "Nominated Node", "Readiness Gates")),
    print_pod,
    pod_conditions,
)
