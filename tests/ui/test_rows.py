"""Rows of nodes, pods, workloads and events."""

import json
from typing import Any

from tests.tables import cases

from pilothouse.ui.rows import TABLE_OF, TABLES, event_row, node_row, pod_row, workload_row


def named(table: str, row: tuple[Any, ...]) -> dict[str, Any]:
    columns = next(item.columns for item in TABLES if item.name == table)
    assert len(columns) == len(row)
    return dict(zip(columns, row, strict=True))


def pod(status: dict[str, Any] | None = None, *, node: str = "node-0", **meta: Any) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z", **meta}
    spec = {"nodeName": node, "containers": [{"name": "main"}]} if node else {"containers": [{"name": "main"}]}
    document = {"metadata": metadata, "spec": spec, "status": status or {}}
    return named("pods", pod_row("/pods/default/a", json.dumps(document).encode()))


def container(state: dict[str, Any], *, ready: bool = False, restarts: int = 0) -> dict[str, Any]:
    return {"name": "main", "ready": ready, "restartCount": restarts, "state": state}


READY = {"type": "Ready", "status": "True"}
RUNNING = {
    "phase": "Running",
    "conditions": [READY],
    "containerStatuses": [container({"running": {}}, ready=True, restarts=2)],
}
WAITING = container({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}})
DELETED = {"deletionTimestamp": "1970-01-01T00:02:00Z"}
STATES = {
    "ready": (pod(RUNNING), "ready", "Running"),
    "running, not ready": (
        pod({"phase": "Running", "containerStatuses": [container({"running": {}})]}),
        "unready",
        None,
    ),
    "unscheduled": (pod({"phase": "Pending"}, node=""), "pending", "Pending"),
    "starting": (
        pod({"phase": "Pending", "containerStatuses": [container({"waiting": {"reason": "ContainerCreating"}})]}),
        "starting",
        "ContainerCreating",
    ),
    "crashing": (pod({"phase": "Running", "containerStatuses": [WAITING]}), "failing", "CrashLoopBackOff"),
    "failed": (pod({"phase": "Failed", "reason": "Evicted"}), "failing", "Evicted"),
    "succeeded": (pod({"phase": "Succeeded"}), "succeeded", "Succeeded"),
    "being deleted": (pod(RUNNING, **DELETED), "terminating", "Terminating"),
    "being deleted at its end": (pod({"phase": "Failed"}, **DELETED), "failing", "Failed"),
    "unknown": (pod({"phase": "Unknown"}), "unknown", "Unknown"),
    "no phase": (pod(), "starting", ""),
    "null lists": (pod({"phase": "Running", "conditions": None, "containerStatuses": None}), "unready", "Running"),
}


@cases("row, state, status", STATES)
def test_the_state_of_a_pod(row: dict[str, Any], state: str, status: str | None) -> None:
    assert row["state"] == state
    assert status is None or row["status"] == status


def test_the_row_of_a_pod() -> None:
    owners = [{"uid": "other"}, {"uid": "owner", "controller": True}]
    row = pod(RUNNING, ownerReferences=owners, labels={"pod-template-hash": "abc"})
    assert row | {"status": "Running"} == {
        "key": "/pods/default/a",
        "uid": "u",
        "owner": "owner",
        "node": "node-0",
        "state": "ready",
        "status": "Running",
        "ready": "1/1",
        "restarts": 2,
        "hash": "abc",
        "note": "",
        "created": 60,
    }


def test_reason_why_a_pod_does_not_run() -> None:
    unschedulable = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available."}
    assert pod({"phase": "Pending", "conditions": [unschedulable]}, node="")["note"] == "0/3 nodes are available."
    assert pod({"phase": "Running", "containerStatuses": [WAITING]})["note"] == "back-off 10s"


def test_the_row_of_a_node() -> None:
    document = {
        "metadata": {"name": "n", "uid": "u"},
        "spec": {
            "unschedulable": True,
            "taints": [
                {"key": "gpu", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
            ],
        },
        "status": {
            "allocatable": {"cpu": "4"},
            "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:01:00Z"},
                {"type": "DiskPressure", "status": "True"},
            ],
        },
    }
    row = named("nodes", node_row("/nodes/n", json.dumps(document).encode()))
    assert (row["state"], row["unschedulable"], row["cpu"]) == ("failing", True, "4")
    assert (row["note"], row["since"]) == ("DiskPressure, gpu:NoSchedule", 60)


def workload(resource: str, **parts: Any) -> dict[str, Any]:
    document = {"metadata": {"name": "w", "uid": "u", "generation": 2, **parts.pop("metadata", {})}, **parts}
    return named("workloads", workload_row(f"{resource}/default/w", json.dumps(document).encode()))


WORKLOADS = {
    "a Deployment": (
        workload(
            "apps/deployments",
            spec={"replicas": 3},
            status={"replicas": 4, "updatedReplicas": 2, "readyReplicas": 3, "observedGeneration": 1},
        ),
        {"desired": 3, "total": 4, "updated": 2, "ready": 3, "observed": False, "state": ""},
    ),
    "a Deployment without replicas": (workload("apps/deployments", spec={}), {"desired": 1, "total": 0}),
    "progress deadline exceeded": (
        workload(
            "apps/deployments",
            status={"conditions": [{"type": "Progressing", "status": "False", "reason": "Late", "message": "m"}]},
        ),
        {"state": "failing", "note": "Late: m"},
    ),
    "a DaemonSet": (
        workload(
            "apps/daemonsets", status={"desiredNumberScheduled": 5, "numberReady": 4, "updatedNumberScheduled": 3}
        ),
        {"desired": 5, "ready": 4, "updated": 3},
    ),
    "a Job": (
        workload("batch/jobs", spec={"completions": 5}, status={"active": 2, "succeeded": 3, "failed": 1}),
        {"desired": 5, "total": 2, "succeeded": 3, "failed": 1, "state": ""},
    ),
    "completed Job": (
        workload("batch/jobs", status={"conditions": [{"type": "Complete", "status": "True"}]}),
        {"state": "succeeded"},
    ),
    "a CronJob": (
        workload("batch/cronjobs", spec={"schedule": "* * * * *", "suspend": True}, status={"active": [{}, {}]}),
        {"desired": 2, "state": "paused", "note": "* * * * *, never started"},
    ),
}


@cases("row, expected", WORKLOADS)
def test_the_row_of_a_workload(row: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: row[name] for name in expected} == expected


def test_events_of_both_groups_are_shown_alike() -> None:
    involved = {"kind": "Pod", "namespace": "default", "name": "a", "uid": "u"}
    old = {"metadata": {}, "involvedObject": involved, "lastTimestamp": "1970-01-01T00:00:05Z", "count": 3,
           "source": {"component": "kubelet"}, "type": "Warning", "reason": "R", "message": "m" * 5000}  # fmt: skip
    new = {"metadata": {}, "involvedObject": involved, "eventTime": "1970-01-01T00:00:05.000000Z",
           "reportingComponent": "kubelet", "series": {"count": 3}, "type": "Warning", "reason": "R",
           "message": "m" * 5000}  # fmt: skip
    rows = [named("events", event_row("/events/default/e", json.dumps(item).encode())) for item in (old, new)]
    assert rows[0] == rows[1]
    assert (rows[0]["at"], rows[0]["count"], rows[0]["source"]) == (5, 3, "kubelet")
    assert len(rows[0]["message"]) == 1000


def test_every_stored_prefix_belongs_to_one_table() -> None:
    prefixes = [prefix for table in TABLES for prefix in table.prefixes]
    assert len(prefixes) == len(set(prefixes)) == len(TABLE_OF)
