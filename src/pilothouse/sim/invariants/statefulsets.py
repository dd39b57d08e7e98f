"""Invariants of one StatefulSet: identity of its pods, unavailability, and the final state.

Computed from the committed objects after every write. If pods are deleted manually, or nodes removed, less can be
checked: see the arguments.
"""

from pilothouse.api.apps import ControllerRevision, StatefulSet
from pilothouse.api.core import PersistentVolumeClaim, Pod
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.pods import is_ready
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

REVISION = "controller-revision-hash"


class StatefulSets(Invariant):
    """One StatefulSet of the namespace default, with its pods.

    ``ordered``: a pod is created only when all before it are ready, and deleted only when none above it is terminating.
    ``missing``: after all ``replicas`` were ready, at most this many are not. ``partition``: pods below this ordinal
    keep their first revision. ``claims``: names of claim templates. ``limit``: the revision history limit.
    """

    def __init__(
        self,
        *,
        ordered: bool = False,
        missing: int | None = None,
        replicas: int = 0,
        partition: int = 0,
        claims: tuple[str, ...] = (),
        limit: int = 10,
    ) -> None:
        self._ordered = ordered
        self._missing = missing
        self._replicas = replicas
        self._partition = partition
        self._templates = claims
        self._limit = limit
        self._owners = Objects("apps/statefulsets/default/", StatefulSet)
        self._pods = Objects("/pods/default/", Pod)
        self._claims = Objects("/persistentvolumeclaims/default/", PersistentVolumeClaim)
        self._revisions = Objects("apps/controllerrevisions/default/", ControllerRevision)
        self._first: dict[str, str] = {}
        self._complete = False
        self.created = 0
        """The number of created pods."""
        self.most_missing = 0
        """The maximum number of missing pods, after all were ready once."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        if self._claims.follow(change) or self._revisions.follow(change):
            return
        _name, _old, owner = self._owners.follow(change) or ("", None, None)
        if owner is not None:
            self._check_status(owner)
        if update := self._pods.follow(change):
            name, old, new = update
            if new is not None and old is None:
                self._check_new(name, new)
            elif new is not None and old is not None and _is_terminating(new) and not _is_terminating(old):
                self._check_deletion(name)
            self._check_missing(change.key)

    def _check_status(self, owner: StatefulSet) -> None:
        status = owner.status
        counts = (status.replicas, status.ready_replicas, status.current_replicas, status.updated_replicas)
        if min(counts) < 0:
            raise Violation(f"{owner.metadata.name} has a negative count: {counts}")

    def _check_new(self, name: str, pod: Pod) -> None:
        """Check a created pod: it has the identity of its name, and is next in order."""
        self.created += 1
        parent, _dash, ordinal = name.rpartition("-")
        labels = pod.metadata.labels
        reported = (
            labels.get("statefulset.kubernetes.io/pod-name"),
            labels.get("apps.kubernetes.io/pod-index"),
            pod.spec.hostname,
        )
        if reported != (name, ordinal, name):
            raise Violation(f"{name} has the identity {reported}")
        for template in self._templates:
            desired = f"{template}-{name}"
            mounted = [v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim]
            if desired not in mounted or desired not in self._claims:
                raise Violation(f"{name} was created with the claims {mounted}, existing are {sorted(self._claims)}")
        revision = labels.get(REVISION, "")
        if int(ordinal) < self._partition and self._first.setdefault(name, revision) != revision:
            raise Violation(f"{name} is below the partition and was created from {revision}, not {self._first[name]}")
        if not self._ordered:
            return
        for lower in range(int(ordinal)):
            predecessor = self._pods.get(f"{parent}-{lower}")
            if predecessor is None or not _is_serving(predecessor):
                raise Violation(f"{name} was created while {parent}-{lower} is missing or not ready")

    def _check_deletion(self, name: str) -> None:
        """Check a deletion. A pod below it may be terminating because of an update that started before a scale-down."""
        terminating = [
            pod_name
            for pod_name, pod in self._pods.items()
            if _is_terminating(pod) and _ordinal(pod_name) > _ordinal(name)
        ]
        if self._ordered and terminating:
            raise Violation(f"{name} was deleted while {sorted(terminating)} are still terminating")

    def _check_missing(self, key: str) -> None:
        if self._missing is None:
            return
        serving = sum(1 for pod in self._pods.values() if _is_serving(pod))
        self._complete = self._complete or serving >= self._replicas
        if self._complete:
            self.most_missing = max(self.most_missing, self._replicas - serving)
            if self._replicas - serving > self._missing:
                raise Violation(f"{key}: {serving} of {self._replicas} pods are ready, {self._missing} may be missing")

    def check_final_state(self) -> None:
        """At the end all desired pods exist with the desired revision, and the status is correct."""
        for owner in self._owners.values():
            name, spec, status = owner.metadata.name, owner.spec, owner.status
            start = spec.ordinals.start if spec.ordinals is not None else 0
            desired = 1 if spec.replicas is None else spec.replicas
            rolling = spec.update_strategy.rolling_update
            partition = (rolling.partition or 0) if rolling is not None else 0
            names = {f"{name}-{ordinal}" for ordinal in range(start, start + desired)}
            pods = {key: pod for key, pod in self._pods.items() if _is_of(pod, owner)}
            if set(pods) != names or not all(map(_is_serving, pods.values())):
                raise Violation(f"{name} should have {sorted(names)}, and has {sorted(pods)}")
            newest = max(self._revisions.values(), key=lambda revision: revision.revision).metadata.name
            if status.update_revision != newest:
                raise Violation(f"{name} has updateRevision {status.update_revision}, the newest is {newest}")
            old = sorted(
                key
                for key, pod in pods.items()
                if _ordinal(key) >= start + partition and pod.metadata.labels.get(REVISION) != newest
            )
            if old and spec.update_strategy.type == "RollingUpdate":
                raise Violation(f"{old} were not updated to {newest}")
            updated = sum(1 for pod in pods.values() if pod.metadata.labels.get(REVISION) == newest)
            reported = (
                status.observed_generation,
                status.replicas,
                status.ready_replicas,
                status.available_replicas,
                status.updated_replicas,
            )
            if reported != (owner.metadata.generation, desired, desired, desired, updated):
                raise Violation(f"{name} reports {reported}")
            if updated == desired and status.current_revision != newest:
                raise Violation(f"{name} has currentRevision {status.current_revision}, all pods are of {newest}")
            live = {status.current_revision, newest, *(pod.metadata.labels.get(REVISION, "") for pod in pods.values())}
            unused = [revision for revision in self._revisions if revision not in live]
            if len(unused) > self._limit:
                raise Violation(f"{name} keeps {sorted(unused)}")


def _ordinal(name: str) -> int:
    return int(name.rpartition("-")[2])


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _is_serving(pod: Pod) -> bool:
    return not _is_terminating(pod) and pod.status.phase == "Running" and is_ready(pod)


def _is_of(pod: Pod, owner: StatefulSet) -> bool:
    reference = controller_of(pod.metadata)
    return reference is not None and reference.uid == owner.metadata.uid
