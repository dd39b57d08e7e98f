"""Invariants of rollouts of Deployments without scaling: their bounds.

Checked for the replicas of ReplicaSets and for the pods, both as committed.
"""

from pilothouse.api.apps import Deployment, ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.pods import is_active, is_ready
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change


class Deployments(Invariant):
    """The bounds of one Deployment with constant ``replicas``. At most ``most`` pods are desired at any time, and after
    all were available once, at least ``least`` remain available."""

    def __init__(self, *, replicas: int, most: int, least: int) -> None:
        self._replicas = replicas
        self._most = most
        self._least = least
        self._deployments = Objects("apps/deployments/", Deployment)
        self._sets = Objects("apps/replicasets/", ReplicaSet)
        self._pods = Objects("/pods/", Pod)
        self._complete = False
        self.lowest = replicas
        """The minimum number of available pods."""

    def committed(self, change: Change, origin: Origin | None) -> None:
        self._deployments.follow(change)
        if self._sets.follow(change):
            total = sum(replica_set.spec.replicas or 0 for replica_set in self._sets.values())
            if total > self._most:
                raise Violation(f"{change.key}: {total} pods are desired in total, {self._most} are allowed")
        elif self._pods.follow(change):
            available = sum(1 for pod in self._pods.values() if is_active(pod) and is_ready(pod))
            self._complete = self._complete or available >= self._replicas
            if self._complete:
                self.lowest = min(self.lowest, available)
                if available < self._least:
                    raise Violation(f"{change.key}: {available} pods are available, {self._least} must be")

    def check_final_state(self) -> None:
        """At the end one ReplicaSet has all pods, and the status is correct."""
        for owner in self._deployments.values():
            replica_sets = [replica_set for replica_set in self._sets.values() if _is_of(replica_set, owner)]
            used = [replica_set.metadata.name for replica_set in replica_sets if replica_set.spec.replicas]
            status = owner.status
            reported = (status.updated_replicas, status.replicas, status.available_replicas, status.observed_generation)
            if len(used) != 1 or reported != (self._replicas,) * 3 + (owner.metadata.generation,):
                raise Violation(f"{owner.metadata.name} has pods of {used} and reports {reported}")


def _is_of(replica_set: ReplicaSet, owner: Deployment) -> bool:
    reference = controller_of(replica_set.metadata)
    return reference is not None and reference.uid == owner.metadata.uid
