"""Which component wrote, where no decision was recorded: Go's controllers say who they are by user and User-Agent, and
why they wrote nowhere. Events of controllers tell of some writes, too. Pure."""

import re

import msgspec

from pilothouse.api.core import Event
from pilothouse.machinery.causes import Cause
from pilothouse.why.evidence import Document, Reference
from pilothouse.why.trust import CONTROLLER_ACCOUNTS

_ACCOUNT = "system:serviceaccount:kube-system:"
_MANAGER = "system:kube-controller-manager"
_BY_ACCOUNT = {
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
"""Controllers by their service account, where the names differ."""


def component_of(user: str, user_agent: str) -> str:
    """The component that writes as this user; empty for everybody else."""
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
    return _BY_ACCOUNT.get(account, account)


_OWNERS = {
    "replicaset-controller": ("ReplicaSet", "replicasets.apps"),
    "replicationcontroller-controller": ("ReplicationController", "replicationcontrollers"),
    "deployment-controller": ("Deployment", "deployments.apps"),
    "statefulset-controller": ("StatefulSet", "statefulsets.apps"),
    "daemonset-controller": ("DaemonSet", "daemonsets.apps"),
    "job-controller": ("Job", "jobs.batch"),
    "cronjob-controller": ("CronJob", "cronjobs.batch"),
}
_OF_OBJECT = {
    "ttl-after-finished-controller": "jobs.batch",
    "node-lifecycle-controller": "nodes",
    "default-scheduler": "pods",
    "persistentvolumeclaim-protection-controller": "persistentvolumeclaims",
    "persistentvolume-protection-controller": "persistentvolumes",
}


def inferred_cause(component: str, verb: str, reference: Reference, document: Document | None) -> Cause:
    """A cause without a decision: the component, and the object that it must have been working on, as far as that
    follows from what it wrote."""
    resource, namespace, name = reference.resource, reference.namespace, reference.name
    prefix = f"{namespace}/" if namespace else ""
    owns = _OWNERS.get(component)
    if owns is not None and resource == owns[1]:
        return Cause(component, f"{prefix}{name}")
    if owns is not None:
        for owner in ((document or {}).get("metadata") or {}).get("ownerReferences") or ():
            if owner.get("kind") == owns[0] and owner.get("controller"):
                return Cause(component, f"{prefix}{owner.get('name')}")
    if _OF_OBJECT.get(component) == resource and not (component == "default-scheduler" and verb == "delete"):
        return Cause(component, f"{prefix}{name}")
    if component == "namespace-controller":
        return Cause(component, name if resource == "namespaces" else namespace)
    return Cause(component)


class Reported(msgspec.Struct, frozen=True):
    """A write that an event reports. ``type`` is ADDED, MODIFIED or DELETED."""

    type: str
    component: str
    key: str
    decision: str


_CREATED = re.compile(r"^(?:Created (?:pod|job):? ([\w.-]+)|create Pod ([\w.-]+) in)")
_DELETED = re.compile(r"^(?:Deleted (?:pod|job):? ([\w.-]+)|delete Pod ([\w.-]+) in)")
_SCALED = re.compile(r"^Scaled (?:up|down) replica set ([\w.-]+) ")
_ON_PODS = {
    "Preempted": "default-scheduler",
    "TaintManagerEviction": "taint-eviction-controller",
    "DeletingPod": "taint-eviction-controller",
    "NodeControllerEviction": "node-lifecycle-controller",
}


def reported_by(event: Event, kind: str, name: str) -> Reported | None:
    """What an event says that was done to an object of this kind (``pod``) and name."""
    about, message = event.involved_object, event.message
    owns = next((each for each, (owner, _resource) in _OWNERS.items() if owner == about.kind), None)
    if owns is None:
        if about.kind == "Pod" and (kind, about.name) == ("pod", name) and event.reason in _ON_PODS:
            return Reported("DELETED", _ON_PODS[event.reason], f"{about.namespace}/{about.name}", message)
        return None
    key = f"{about.namespace}/{about.name}"
    for type_, pattern in (("ADDED", _CREATED), ("DELETED", _DELETED), ("MODIFIED", _SCALED)):
        found = pattern.match(message)
        if found is not None and name in found.groups() and (type_ == "MODIFIED") == (kind == "replicaset"):
            return Reported(type_, owns, key, message)
    return None
