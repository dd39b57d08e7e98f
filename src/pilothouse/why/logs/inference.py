"""Derives the writing component from user and User-Agent or from events, for writes without a recorded decision (Go's
controllers). Pure."""

import re

import msgspec

from pilothouse.api.core import Event
from pilothouse.machinery.causes import Cause
from pilothouse.why.evidence import Document, Reference
from pilothouse.why.trust import CONTROLLER_ACCOUNTS

_ACCOUNT = "system:serviceaccount:kube-system:"
_MANAGER = "system:kube-controller-manager"
_CONTROLLER_BY_ACCOUNT = {
    "daemon-set-controller": "daemonset-controller",
    "endpoint-controller": "endpoints-controller",
    "generic-garbage-collector": "garbage-collector-controller",
    "horizontal-pod-autoscaler": "horizontal-pod-autoscaler-controller",
    "node-controller": "node-lifecycle-controller",
    "persistent-volume-binder": "persistentvolume-binder-controller",
    "pod-garbage-collector": "pod-garbage-collector-controller",
    "pv-protection-controller": "persistentvolume-protection-controller",
    "pvc-protection-controller": "persistentvolumeclaim-protection-controller",
    "replication-controller": "replicationcontroller-controller",
    "root-ca-cert-publisher": "root-ca-certificate-publisher-controller",
    "service-account-controller": "serviceaccount-controller",
}
"""Service account to controller name, where they differ."""


def component_of(user: str, user_agent: str) -> str:
    """The component that writes as this user; empty if it is none."""
    if user == "system:kube-scheduler":
        return "default-scheduler"
    if user.startswith("system:node:"):
        return "kubelet"
    if user == _MANAGER:  # without --use-service-account-credentials the agent ends with the controller
        account = user_agent.rpartition("/")[2].removeprefix(_ACCOUNT)
    elif user.startswith(_ACCOUNT):
        account = user.removeprefix(_ACCOUNT)
    else:
        return ""
    if account not in CONTROLLER_ACCOUNTS:
        return _MANAGER.removeprefix("system:") if user == _MANAGER else ""
    return _CONTROLLER_BY_ACCOUNT.get(account, account)


_OWNERS = {
    "replicaset-controller": ("ReplicaSet", "replicasets.apps"),
    "replicationcontroller-controller": ("ReplicationController", "replicationcontrollers"),
    "deployment-controller": ("Deployment", "deployments.apps"),
    "statefulset-controller": ("StatefulSet", "statefulsets.apps"),
    "daemonset-controller": ("DaemonSet", "daemonsets.apps"),
    "job-controller": ("Job", "jobs.batch"),
    "cronjob-controller": ("CronJob", "cronjobs.batch"),
}
_KEY_IS_OBJECT = {
    "ttl-after-finished-controller": "jobs.batch",
    "node-lifecycle-controller": "nodes",
    "default-scheduler": "pods",
    "persistentvolumeclaim-protection-controller": "persistentvolumeclaims",
    "persistentvolume-protection-controller": "persistentvolumes",
}


def inferred_cause(component: str, verb: str, reference: Reference, document: Document | None) -> Cause:
    """A cause without a decision: the component, and the key it was syncing as far as that follows from the written
    object."""
    resource, namespace, name = reference.resource, reference.namespace, reference.name
    prefix = f"{namespace}/" if namespace else ""
    owner_kind = _OWNERS.get(component)
    if owner_kind is not None and resource == owner_kind[1]:
        return Cause(component, f"{prefix}{name}")
    if owner_kind is not None:
        for owner in ((document or {}).get("metadata") or {}).get("ownerReferences") or ():
            if owner.get("kind") == owner_kind[0] and owner.get("controller"):
                return Cause(component, f"{prefix}{owner.get('name')}")
    if _KEY_IS_OBJECT.get(component) == resource and not (component == "default-scheduler" and verb == "delete"):
        return Cause(component, f"{prefix}{name}")
    if component == "namespace-controller":
        return Cause(component, name if resource == "namespaces" else namespace)
    return Cause(component)


class Reported(msgspec.Struct, frozen=True):
    """A write reported by an event. ``type`` is ADDED, MODIFIED or DELETED."""

    type: str
    component: str
    key: str
    decision: str


_CREATED = re.compile(r"^(?:Created (?:pod|job):? ([\w.-]+)|create Pod ([\w.-]+) in)")
_DELETED = re.compile(r"^(?:Deleted (?:pod|job):? ([\w.-]+)|delete Pod ([\w.-]+) in)")
_SCALED = re.compile(r"^Scaled (?:up|down) replica set ([\w.-]+) ")
_POD_EVENTS = {
    "Preempted": "default-scheduler",
    "TaintManagerEviction": "taint-eviction-controller",
    "DeletingPod": "taint-eviction-controller",
    "NodeControllerEviction": "node-lifecycle-controller",
}


def reported_by(event: Event, kind: str, name: str) -> Reported | None:
    """The write of an object of this kind (``pod``) and name that an event reports; None for other events."""
    regarding, message = event.involved_object, event.message
    component = next((owner for owner, (kind_, _resource) in _OWNERS.items() if kind_ == regarding.kind), None)
    if component is None:
        if regarding.kind == "Pod" and (kind, regarding.name) == ("pod", name) and event.reason in _POD_EVENTS:
            return Reported("DELETED", _POD_EVENTS[event.reason], f"{regarding.namespace}/{regarding.name}", message)
        return None
    key = f"{regarding.namespace}/{regarding.name}"
    for type_, pattern in (("ADDED", _CREATED), ("DELETED", _DELETED), ("MODIFIED", _SCALED)):
        match = pattern.match(message)
        if match is not None and name in match.groups() and (type_ == "MODIFIED") == (kind == "replicaset"):
            return Reported(type_, component, key, message)
    return None
