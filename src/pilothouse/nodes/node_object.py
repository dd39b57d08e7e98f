"""What a kubelet writes about its node: the Node, its status, its Lease. Pure.

Order of fields and conditions, reasons and messages: kubelet v1.36 ``pkg/kubelet/nodestatus/setters.go``.
"""

import datetime
import hashlib
import ipaddress
from typing import Any

from pilothouse.machinery.times import format_micro_time, format_time
from pilothouse.nodes.profile import Profile

KUBELET_VERSION = "v1.36.2"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION_SECONDS = 40

_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def node_address(index: int) -> str:
    """The internal address of the ``index``-th simulated node, out of 10.64.0.0/12."""
    return str(ipaddress.IPv4Address("10.64.0.0") + 1 + index)


def new_node(name: str, index: int, profile: Profile) -> dict[str, Any]:
    """The Node as it registers, without its status conditions (they come with the first status)."""
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
        "spec": {},
        "status": _machine(name, index, profile),
    }


def _machine(name: str, index: int, profile: Profile) -> dict[str, Any]:
    resources = {
        "cpu": profile.cpu,
        "ephemeral-storage": profile.ephemeral_storage,
        "memory": profile.memory,
        "pods": str(profile.pods),
    }
    identity = hashlib.sha256(name.encode()).hexdigest()
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [
            {"type": "InternalIP", "address": node_address(index)},
            {"type": "Hostname", "address": name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": identity[:32],
            "systemUUID": identity[:32],
            "bootID": identity[32:],
            "kernelVersion": "simulated",
            "osImage": "pilothouse simulated node",
            "containerRuntimeVersion": "simulated://1.0.0",
            "kubeletVersion": KUBELET_VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": "amd64",
        },
    }


def status_patch(now: datetime.datetime, since: datetime.datetime) -> dict[str, Any]:
    """The strategic merge patch of a healthy node's status, its conditions standing since ``since``."""
    heartbeat, transition = format_time(now), format_time(since)
    conditions = [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": heartbeat,
            "lastTransitionTime": transition,
        }
        for kind, status, reason, message in _HEALTHY
    ]
    return {"status": {"conditions": conditions}}


def new_lease(name: str, node_uid: str, now: datetime.datetime) -> dict[str, Any]:
    """The Lease as a kubelet creates it: owned by its node, so that it goes when the node goes."""
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
