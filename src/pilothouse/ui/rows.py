"""Rows of the page's tables, computed from stored objects. Pure.

A row has the displayed fields of an object, about 150 bytes of JSON instead of some kilobytes. It begins with the
object's storage key, by which the page replaces it. Times are seconds since the epoch, not ages, so that a row only
changes with its object.
"""

import datetime
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from pilothouse.apiserver.registry.core.pods.printers import print_pod
from pilothouse.ui import views

Row = tuple[Any, ...]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_CORDONED = "node.kubernetes.io/unschedulable"
"""The taint that goes with ``spec.unschedulable``."""
_LONGEST_NOTE = 300
_LONGEST_MESSAGE = 1000
_HASHES = ("pod-template-hash", "controller-revision-hash")
_STARTING = ("", "ContainerCreating", "PodInitializing", "Pending", "Running", "NotReady")


class Table(NamedTuple):
    """One table: storage prefix, column names and the function that computes a row."""

    name: str
    prefixes: tuple[str, ...]
    columns: tuple[str, ...]
    row: Callable[[str, bytes], Row]
    most: int = 0
    """Maximum number of the newest ones; 0: all."""


def node_row(key: str, value: bytes) -> Row:
    """A Node: capacity, roles and problems."""
    node = _read_node(value)
    spec, status = node.spec or views.NodeSpec(), node.status or views.NodeStatus()
    conditions = status.conditions or ()
    condition = next(
        (node_condition for node_condition in conditions if node_condition.type == "Ready"),
        views.Condition(status="Unknown"),
    )
    ready = condition.status
    notes = [
        node_condition.type
        for node_condition in conditions
        if node_condition.type != "Ready" and node_condition.status == "True"
    ]
    notes += [f"{taint.key}:{taint.effect}" for taint in spec.taints or () if taint.key != _CORDONED]
    allocatable = status.allocatable or {}
    return (
        key,
        node.metadata.uid,
        "terminating"
        if node.metadata.deletion_timestamp
        else {"True": "ready", "False": "failing"}.get(ready, "unknown"),
        bool(spec.unschedulable),
        allocatable.get("cpu", ""),
        allocatable.get("memory", ""),
        allocatable.get("pods", ""),
        ", ".join(notes)[:_LONGEST_NOTE],
        epoch(node.metadata.creation_timestamp),
        0 if ready == "True" else epoch(condition.last_transition_time),
    )


def pod_row(key: str, value: bytes) -> Row:
    """A Pod: node, owner, and its status, as kubectl shows it and as one of ``pod_state``'s."""
    pod = _read_pod(value)
    spec: Any = pod.spec or {}
    status: Any = pod.status or {}
    metadata = {"deletionTimestamp": pod.metadata.deletion_timestamp}
    document = {"metadata": metadata, "spec": spec, "status": status}
    ready, cells, restarts = print_pod(document, _EPOCH)[:3]
    labels = pod.metadata.labels or {}
    return (
        key,
        pod.metadata.uid,
        _owner(pod.metadata),
        spec.get("nodeName") or "",
        pod_state(pod, cells),
        cells,
        ready,
        int(restarts),
        next((labels[name] for name in _HASHES if name in labels), ""),
        _pod_note(status)[:_LONGEST_NOTE],
        epoch(pod.metadata.creation_timestamp),
    )


def pod_state(pod: views.Pod, printed_status: str) -> str:
    """One of eight states by which pods are counted and drawn; ``printed_status`` is kubectl's column STATUS."""
    status: Any = pod.status or {}
    phase = status.get("phase") or ""
    if phase in ("Succeeded", "Failed"):
        return "succeeded" if phase == "Succeeded" else "failing"
    if pod.metadata.deletion_timestamp:
        return "terminating"
    if phase == "Unknown":
        return "unknown"
    if not (pod.spec or {}).get("nodeName"):
        return "pending"
    if (
        printed_status.removeprefix("Init:") not in _STARTING
        and not printed_status.startswith("Init:")
        and printed_status != "Completed"
    ):
        return "failing"
    if printed_status.startswith("Init:") and not printed_status[5:6].isdigit():
        return "failing"
    if any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    ):
        return "ready"
    return "unready" if phase == "Running" else "starting"


def _pod_note(status: Any) -> str:
    """A short reason why a pod does not run."""
    if status.get("message"):
        return str(status["message"])
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("message") or ""
    for container in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        state = container.get("state") or {}
        waiting = state.get("waiting") or {}
        if waiting.get("message"):
            return str(waiting["message"])
    return ""


def workload_row(key: str, value: bytes) -> Row:
    """A Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob or ReplicationController."""
    workload = _read_workload(value)
    metadata = workload.metadata
    spec, status = workload.spec or views.WorkloadSpec(), workload.status or views.WorkloadStatus()
    annotations, labels = metadata.annotations or {}, metadata.labels or {}
    desired, total, updated, ready, available = _counts(key, spec, status)
    observed = status.observed_generation
    return (
        key,
        metadata.uid,
        _owner(metadata),
        annotations.get("deployment.kubernetes.io/revision", ""),
        next((labels[name] for name in _HASHES if name in labels), status.update_revision or ""),
        desired,
        total,
        updated,
        ready,
        available,
        status.succeeded or 0,
        status.failed or 0,
        _workload_state(metadata, spec, status),
        _workload_note(spec, status)[:_LONGEST_NOTE],
        observed is None or metadata.generation is None or observed >= metadata.generation,
        epoch(metadata.creation_timestamp),
    )


def _counts(key: str, spec: Any, status: Any) -> tuple[int, int, int, int, int]:
    """Numbers of pods: desired, current, updated, ready, available."""
    if key.startswith("apps/daemonsets/"):
        return (
            status.desired_number_scheduled or 0,
            status.current_number_scheduled or 0,
            status.updated_number_scheduled or 0,
            status.number_ready or 0,
            status.number_available or 0,
        )
    if key.startswith("batch/jobs/"):
        active = status.active or 0
        desired = spec.completions if spec.completions is not None else spec.parallelism or 0
        return desired, active, active, status.ready or 0, status.ready or 0
    if key.startswith("batch/cronjobs/"):
        active = len(status.active or ())
        return active, active, active, active, active
    total = status.replicas or 0
    updated = status.updated_replicas
    return (
        1 if spec.replicas is None else spec.replicas,
        total,
        total if updated is None and not key.startswith("apps/deployments/") else updated or 0,
        status.ready_replicas or 0,
        status.available_replicas or 0,
    )


_BAD = (("ReplicaFailure", "True"), ("Progressing", "False"), ("Failed", "True"), ("FailureTarget", "True"))
_DONE = (("Complete", "True"),)


def _workload_state(metadata: views.Metadata, spec: Any, status: Any) -> str:
    if metadata.deletion_timestamp:
        return "terminating"
    conditions = {(condition.type, condition.status) for condition in status.conditions or ()}
    if conditions.intersection(_BAD):
        return "failing"
    if conditions.intersection(_DONE):
        return "succeeded"
    return "paused" if spec.paused or spec.suspend else ""


def _workload_note(spec: Any, status: Any) -> str:
    for condition in status.conditions or ():
        if (condition.type, condition.status) in _BAD:
            return f"{condition.reason or condition.type}: {condition.message or ''}"
    if spec.schedule:
        last = f", last started {status.last_schedule_time}" if status.last_schedule_time else ", never started"
        return f"{spec.schedule}{last}"
    return ""


def event_row(key: str, value: bytes) -> Row:
    """An Event of either API group: both are stored under one prefix."""
    event = _read_event(value)
    series = event.series or views.EventSeries()
    involved = event.involved_object
    at = series.last_observed_time or event.last_timestamp or event.event_time or event.first_timestamp
    return (
        key,
        epoch(at or event.metadata.creation_timestamp),
        event.type or "Normal",
        event.reason or "",
        (event.message or "")[:_LONGEST_MESSAGE],
        involved.kind,
        involved.namespace,
        involved.name,
        involved.uid,
        series.count or event.count or 1,
        event.reporting_component or (event.source.component if event.source else "") or "",
    )


def _owner(metadata: views.Metadata) -> str:
    """The uid of the object's controller."""
    owners = metadata.owner_references or ()
    return next((owner.uid for owner in owners if owner.controller), "")


@lru_cache(maxsize=4096)
def epoch(text: str | None) -> int:
    """Seconds since the epoch; 0 without a time."""
    if not text:
        return 0
    try:
        return int((datetime.datetime.fromisoformat(text) - _EPOCH).total_seconds())
    except (ValueError, TypeError):
        return 0


_read_node: Callable[[bytes], views.Node] = msgspec.json.Decoder(views.Node).decode
_read_pod: Callable[[bytes], views.Pod] = msgspec.json.Decoder(views.Pod).decode
_read_workload: Callable[[bytes], views.Workload] = msgspec.json.Decoder(views.Workload).decode
_read_event: Callable[[bytes], views.Event] = msgspec.json.Decoder(views.Event).decode

MAX_EVENTS = 500
TABLES: Sequence[Table] = (
    Table(
        "nodes",
        ("/nodes/",),
        ("key", "uid", "state", "unschedulable", "cpu", "memory", "pods", "note", "created", "since"),
        node_row,
    ),
    Table(
        "workloads",
        (
            "apps/deployments/",
            "apps/replicasets/",
            "apps/statefulsets/",
            "apps/daemonsets/",
            "batch/jobs/",
            "batch/cronjobs/",
            "/replicationcontrollers/",
        ),
        (
            "key",
            "uid",
            "owner",
            "revision",
            "hash",
            "desired",
            "total",
            "updated",
            "ready",
            "available",
            "succeeded",
            "failed",
            "state",
            "note",
            "observed",
            "created",
        ),
        workload_row,
    ),
    Table(
        "pods",
        ("/pods/",),
        ("key", "uid", "owner", "node", "state", "status", "ready", "restarts", "hash", "note", "created"),
        pod_row,
    ),
    Table(
        "events",
        ("/events/",),
        (
            "key",
            "at",
            "type",
            "reason",
            "message",
            "kind",
            "namespace",
            "name",
            "uid",
            "count",
            "source",
        ),
        event_row,
        MAX_EVENTS,
    ),
)
TABLE_OF = {prefix: table for table in TABLES for prefix in table.prefixes}
