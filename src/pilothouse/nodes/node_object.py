"""The Node, its status and its Lease, as a kubelet writes them. Pure.

Order of fields and conditions, reasons and messages: kubelet v1.36 ``pkg/kubelet/nodestatus/setters.go``.
"""

import datetime
import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.core import NodeCondition
from pilothouse.machinery.times import format_micro_time, format_time
from pilothouse.nodes.addresses import node_address
from pilothouse.nodes.profile import Profile
from pilothouse.semantics.nodes import SIMULATED_RUNTIME_VERSION

KUBELET_VERSION = "v1.36.2"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION_SECONDS = 40

KUBELET_PORT = 10250

Row = tuple[str, str, str, str]
"""A condition: type, status, reason, message."""

_PRESSURES: tuple[tuple[Row, Row], ...] = (
    (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("MemoryPressure", "True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    ),
    (
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("DiskPressure", "True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
    ),
    (
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("PIDPressure", "True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ),
)
_READY: Row = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_UNREADY: Row = ("Ready", "False", "KubeletNotReady", "container runtime status check may not have completed yet")
HEALTHY: tuple[Row, ...] = (*(good for good, _bad in _PRESSURES), _READY)
"""The kubelet's conditions, Ready last."""
STARTING: tuple[Row, ...] = (*(good for good, _bad in _PRESSURES), _UNREADY)
"""The same of a node that has just registered."""
STATUS_EVENTS = {
    ("MemoryPressure", "False"): "NodeHasSufficientMemory",
    ("MemoryPressure", "True"): "NodeHasInsufficientMemory",
    ("DiskPressure", "False"): "NodeHasNoDiskPressure",
    ("DiskPressure", "True"): "NodeHasDiskPressure",
    ("PIDPressure", "False"): "NodeHasSufficientPID",
    ("PIDPressure", "True"): "NodeHasInsufficientPID",
    ("Ready", "True"): "NodeReady",
}
"""The event for a condition that has changed to a status."""


def rows_under(pressures: Sequence[str]) -> tuple[Row, ...]:
    """The conditions of a node with these ``pressures``."""
    if not pressures:
        return HEALTHY
    return (*(bad if bad[0] in pressures else good for good, bad in _PRESSURES), _READY)


def new_node(
    name: str, index: int, profile: Profile, now: datetime.datetime, *, conditions: bool = True
) -> dict[str, Any]:
    """The Node at registration: complete, and not ready. ``conditions``: whether to include them."""
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        **profile.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"taints": [msgspec.to_builtins(taint) for taint in profile.taints]} if profile.taints else {},
        "status": {
            **machine(name, index, profile),
            **({"conditions": _conditions(STARTING, (), now)} if conditions else {}),
        },
    }


def machine(name: str, index: int, profile: Profile, boots: int = 0) -> dict[str, Any]:
    """The part of the status that stays the same, from boot to boot."""
    resources = {
        "cpu": profile.cpu,
        "ephemeral-storage": profile.ephemeral_storage,
        "memory": profile.memory,
        "pods": str(profile.pods),
    }
    identity = hashlib.sha256(name.encode()).hexdigest()
    boot = hashlib.sha256(f"{name}/{boots}".encode()).hexdigest() if boots else identity
    return {
        "addresses": [
            {"type": "InternalIP", "address": node_address(index)},
            {"type": "Hostname", "address": name},
        ],
        "capacity": resources,
        "allocatable": resources,
        "daemonEndpoints": {"kubeletEndpoint": {"Port": KUBELET_PORT}},
        "nodeInfo": {
            "machineID": identity[:32],
            "systemUUID": identity[:32],
            "bootID": boot[32:],
            "kernelVersion": "simulated",
            "osImage": "pilothouse simulated node",
            "containerRuntimeVersion": SIMULATED_RUNTIME_VERSION,
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def status_patch(
    now: datetime.datetime,
    old_conditions: Sequence[NodeCondition],
    whole: dict[str, Any] | None = None,
    rows: Sequence[Row] = HEALTHY,
) -> dict[str, Any]:
    """The strategic merge patch of a node's status with the conditions ``rows`` instead of ``old_conditions``.

    ``whole`` is the ``machine``, for a Node that another client or an earlier process has created.
    """
    status: dict[str, Any] = {}
    if whole is not None:
        # The list is merged by type, a label that addresses of two families share (v1.36 ``pkg/util/node/node.go``).
        status = {**whole, "addresses": [*whole["addresses"], {"$patch": "replace"}]}
    kinds = [kind for kind, *_rest in rows]
    foreign = [c.type for c in old_conditions if c.type not in kinds]
    status["$setElementOrder/conditions"] = [{"type": kind} for kind in (*foreign, *kinds)]
    status["conditions"] = _conditions(rows, old_conditions, now)
    return {"status": status}


def changes(old_conditions: Sequence[NodeCondition], rows: Sequence[Row] = HEALTHY) -> list[tuple[str, str]]:
    """Type and status of the conditions that a status with ``rows`` would change."""
    statuses = {c.type: c.status for c in old_conditions}
    return [(kind, status) for kind, status, *_rest in rows if statuses.get(kind) != status]


def _conditions(
    rows: Sequence[Row], old_conditions: Sequence[NodeCondition], now: datetime.datetime
) -> list[dict[str, Any]]:
    heartbeat = format_time(now)
    previous = {c.type: c for c in old_conditions}
    conditions = []
    for kind, status, reason, message in rows:
        old = previous.get(kind)
        since = old.last_transition_time if old is not None and old.status == status else None
        conditions.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": heartbeat,
                "lastTransitionTime": format_time(since) if since is not None else heartbeat,
                "reason": reason,
                "message": message,
            }
        )
    return conditions


def new_lease(name: str, node_uid: str, now: datetime.datetime) -> dict[str, Any]:
    """The Lease as a kubelet creates it: owned by its node, so that it is garbage collected with the node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": lease_spec(name, now),
    }


def lease_spec(name: str, now: datetime.datetime) -> dict[str, Any]:
    """``spec`` of a renewed Lease."""
    return {
        "holderIdentity": name,
        "leaseDurationSeconds": LEASE_DURATION_SECONDS,
        "renewTime": format_micro_time(now),
    }
