"""``Workloads``: the pods and their owners, with the requirements of strategies and PodDisruptionBudgets.

A pod of a Deployment's ReplicaSet counts for the Deployment, a pod of a CronJob's Job for the CronJob. Pods without an
owner are counted together, per namespace. Owners of custom kinds are known by their reference only.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pilothouse.api.policy import PodDisruptionBudgetSpec
from pilothouse.machinery.labels import Selector, selector_from
from pilothouse.simulate.recording import structs, views
from pilothouse.simulate.recording.bounds import budget_demand, strategy_demand
from pilothouse.simulate.recording.pods import PodState, pod_state
from pilothouse.simulate.recording.workload import WorkloadTracker

MAX_WORKLOADS = 500
_REVISION = "deployment.kubernetes.io/revision"
_KINDS = {
    "apps/deployments": "Deployment",
    "apps/statefulsets": "StatefulSet",
    "apps/daemonsets": "DaemonSet",
    "apps/replicasets": "ReplicaSet",
    "/replicationcontrollers": "ReplicationController",
    "batch/jobs": "Job",
    "batch/cronjobs": "CronJob",
}
_OWNER_KINDS = {"ReplicaSet": "Deployment", "Job": "CronJob"}
"""The kinds whose owners are resolved, with the kind of the owner."""

_read_pod = msgspec.json.Decoder(views.Pod).decode
_read_owner = msgspec.json.Decoder(views.Owner).decode
_read_revision = msgspec.json.Decoder(views.ControllerRevision).decode
_read_budget = msgspec.json.Decoder(views.Budget).decode


class Write(NamedTuple):
    """A change with the data that trackers use. ``is_new`` is false for objects that existed before the recorder."""

    at: float
    key: str
    type: str
    value: bytes
    client: str
    evicts: bool
    is_new: bool


class _Pod(NamedTuple):
    state: PodState
    is_counted_as_deleted: bool
    tracker: WorkloadTracker | None


class _Budget(NamedTuple):
    selector: Selector
    spec: PodDisruptionBudgetSpec


class Workloads:
    """All workloads of the cluster; the first ``MAX_WORKLOADS`` are recorded."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[Write], None]] = {
            "/pods": self._pod_changed,
            "apps/controllerrevisions": self._controller_revision_changed,
            "policy/poddisruptionbudgets": self._budget_changed,
            **dict.fromkeys(_KINDS, self._owner_changed),
        }
        """By ``group/resource``."""
        self._trackers: list[WorkloadTracker] = []
        self._unrecorded = 0
        self._by_uid: dict[str, WorkloadTracker | None] = {}
        """By the uid of each existing owner; None if it is not recorded (``MAX_WORKLOADS``)."""
        self._owners: dict[str, views.Owner] = {}
        """The existing owners, by uid."""
        self._pods: dict[str, _Pod] = {}
        self._budgets: dict[str, dict[str, _Budget]] = {}
        """By namespace and name."""

    # Owners

    def _owner_changed(self, write: Write) -> None:
        kind = _KINDS[write.key[: write.key.index("/", write.key.index("/") + 1)]]
        owner = _read_owner(write.value)
        uid = owner.metadata.uid
        tracker = self._tracker_of(kind, owner.metadata, write)
        if write.type == "DELETED":
            self._by_uid.pop(uid, None)
            self._owners.pop(uid, None)
            if tracker is not None:
                tracker.set_desired(write.at, uid, 0)
                if tracker.kind == kind:
                    tracker.set_requirements(write.at, [])
                    tracker.delete(write.at)
            return
        if tracker is None:
            return
        if tracker.kind == kind:
            self._owners[uid] = owner
        if kind == "ReplicaSet" and tracker.kind == "Deployment":
            number = (owner.metadata.annotations or {}).get(_REVISION, "")
            revision = (owner.metadata.labels or {}).get("pod-template-hash", "")
            if number.isdecimal() and len(number) < 10:
                tracker.set_revision_number(write.at, revision, int(number))
            return
        tracker.set_desired(write.at, uid, _desired(kind, owner))
        if tracker.kind == kind:
            self._demand(write.at, tracker, owner)

    def _tracker_of(self, kind: str, metadata: views.Metadata, write: Write) -> WorkloadTracker | None:
        """The tracker of the owner with this metadata, or of its own controller."""
        uid = metadata.uid
        if uid in self._by_uid:
            return self._by_uid[uid]
        controller = views.controller_of(metadata)
        if controller is not None and controller.kind == _OWNER_KINDS.get(kind) and controller.uid in self._by_uid:
            tracker = self._by_uid[uid] = self._by_uid[controller.uid]
            return tracker
        tracker = self._by_uid[uid] = self._new_tracker(kind, metadata.namespace, metadata.name, write)
        return tracker

    def _new_tracker(self, kind: str, namespace: str, name: str, write: Write) -> WorkloadTracker | None:
        if len(self._trackers) >= MAX_WORKLOADS:
            self._unrecorded += 1
            return None
        tracker = WorkloadTracker(kind, namespace, name, write.at)
        tracker.created_in_run = write.is_new
        self._trackers.append(tracker)
        return tracker

    def _controller_revision_changed(self, write: Write) -> None:
        if write.type == "DELETED":
            return
        revision = _read_revision(write.value)
        reference = views.controller_of(revision.metadata)
        tracker = self._by_uid.get(reference.uid) if reference is not None else None
        if tracker is not None:
            # Pods of a StatefulSet are labelled with the name of their revision, those of a DaemonSet with its hash.
            labels = revision.metadata.labels or {}
            name = labels.get("controller-revision-hash") if tracker.kind == "DaemonSet" else revision.metadata.name
            tracker.set_revision_number(write.at, name or revision.metadata.name, revision.revision)

    # Budgets

    def _budget_changed(self, write: Write) -> None:
        budget = _read_budget(write.value)
        namespace, name = budget.metadata.namespace, budget.metadata.name
        budgets = self._budgets.setdefault(namespace, {})
        old = budgets.pop(name, None)
        if write.type != "DELETED":
            if old is not None and old.spec == budget.spec:
                budgets[name] = old  # only its status, which changes with the pods
                return
            budgets[name] = _Budget(selector_from(budget.spec.selector), budget.spec)
        for uid, owner in self._owners.items():
            tracker = self._by_uid.get(uid)
            if owner.metadata.namespace == namespace and tracker is not None:
                self._demand(write.at, tracker, owner)

    def _demand(self, at: float, tracker: WorkloadTracker, owner: views.Owner) -> None:
        strategy = strategy_demand(tracker.kind, owner, tracker.desired)
        demands = [strategy] if strategy is not None else []
        if tracker.labels:
            for name, budget in self._budgets.get(tracker.namespace, {}).items():
                if budget.selector.matches(tracker.labels):
                    demand = budget_demand(name, budget.spec, tracker.desired)
                    demands += [demand] if demand is not None else []
        tracker.set_requirements(at, demands)

    # Pods

    def _pod_changed(self, write: Write) -> None:
        old = self._pods.pop(write.key, None)
        pod = _read_pod(write.value)
        tracker = old.tracker if old is not None else self._tracker_of_pod(pod, write)
        if write.type == "DELETED":
            self._pod_removed(write, old, tracker)
            return
        state = pod_state(pod)
        counted = old.is_counted_as_deleted if old is not None else False
        if tracker is not None:
            if old is None:
                self._pod_created(write, tracker, pod)
            tracker.pod_changed(write.at, old.state if old is not None else None, state)
            if state.terminating and not counted:
                counted = True
                evicted = write.evicts or state.evicted
                tracker.pod_deleted(write.client, evicted=evicted)
            elif not counted and _is_failed_by_eviction(old, state):
                counted = True
                tracker.pod_deleted(write.client, evicted=True)
        self._pods[write.key] = _Pod(state, counted, tracker)

    def pod_waited(self, key: str, seconds: float, *, was_ready: bool) -> None:
        """Record how long a pod waited until it was ready, or until the wait ended otherwise."""
        pod = self._pods.get(key)
        if pod is not None and pod.tracker is not None:
            pod.tracker.pod_waited(seconds, was_ready=was_ready)

    def _pod_created(self, write: Write, tracker: WorkloadTracker, pod: views.Pod) -> None:
        labels = pod.metadata.labels or {}
        if write.is_new:
            tracker.pod_created()
        if labels != tracker.labels:
            tracker.labels = labels
            reference = _controller_uid(pod)
            owner = self._owners.get(self._top_uid(reference))
            if owner is not None:
                self._demand(write.at, tracker, owner)

    def _top_uid(self, uid: str) -> str:
        """The uid of the owner with the requirements: for a ReplicaSet that may be its Deployment."""
        tracker = self._by_uid.get(uid)
        if uid in self._owners or tracker is None:
            return uid
        return next((owner_uid for owner_uid in self._owners if self._by_uid.get(owner_uid) is tracker), uid)

    def _pod_removed(self, write: Write, old: _Pod | None, tracker: WorkloadTracker | None) -> None:
        if tracker is None or old is None:
            return
        tracker.pod_changed(write.at, old.state, None)
        if not old.is_counted_as_deleted and old.state.active:
            tracker.pod_deleted(write.client, evicted=write.evicts or old.state.evicted)

    def _tracker_of_pod(self, pod: views.Pod, write: Write) -> WorkloadTracker | None:
        reference: Any = next(
            (reference for reference in pod.metadata.owner_references or () if reference.controller), None
        )
        namespace = pod.metadata.namespace
        uid, kind, name = f"pods of {namespace}", "Pods", "without owner"
        if reference is not None:
            uid, kind, name = reference.uid, reference.kind, reference.name
        if uid not in self._by_uid:
            self._by_uid[uid] = self._new_tracker(kind, namespace, name, write)
        return self._by_uid[uid]

    def owner_of(self, pod_key: str) -> str:
        """The owner of the pod with this key: ``deployment/web``; empty if the pod does not exist or has no owner."""
        pod = self._pods.get(pod_key)
        if pod is None or pod.tracker is None or pod.tracker.kind == "Pods":
            return ""
        return f"{pod.tracker.kind.lower()}/{pod.tracker.name}"

    # Result

    def workloads(self, at: float) -> tuple[list[structs.Workload], int]:
        """The recorded workloads, and the number of further ones."""
        return [tracker.workload(at) for tracker in self._trackers], self._unrecorded


def _is_failed_by_eviction(old: _Pod | None, state: PodState) -> bool:
    """Whether the pod has failed now because its kubelet evicted it; such pods are not deleted."""
    return state.phase == "Failed" and state.evicted and old is not None and old.state.phase != "Failed"


def _controller_uid(pod: views.Pod) -> str:
    return next((reference.uid for reference in pod.metadata.owner_references or () if reference.controller), "")


def _desired(kind: str, owner: views.Owner) -> int:
    """The desired number of pods of an owner; 0 for a CronJob, whose pods belong to its Jobs."""
    spec, status = owner.spec, owner.status
    if kind == "DaemonSet":
        return status.desired_number_scheduled or 0
    if kind == "CronJob":
        return 0
    if kind == "Job":
        ended = any(
            condition.type in ("Complete", "Failed") and condition.status == "True"
            for condition in status.conditions or ()
        )
        if ended or spec.suspend:
            return 0
        parallelism = 1 if spec.parallelism is None else spec.parallelism
        left = parallelism if spec.completions is None else spec.completions - (status.succeeded or 0)
        return max(0, min(parallelism, left))
    return 1 if spec.replicas is None else spec.replicas
