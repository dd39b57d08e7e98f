"""Invariants of ReplicaSets: number and owners of pods, and the status.

``ReplicaSets`` checks writes against the state of the store; ``replicaset_status`` checks status writes against the
cache of the process that sent them.
"""

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.client.interceptor import Observation
from pilothouse.machinery.labels import selector_from
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.pods import is_active
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.invariants.old_pods import OldPods
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_pod = msgspec.json.Decoder(Pod).decode
_set = msgspec.json.Decoder(ReplicaSet).decode


class ReplicaSets(Invariant):
    """The number of pods, checked whenever a pod is created.

    Pods that somebody created and a ReplicaSet adopted may exceed the desired number for a moment. Therefore each
    *creation* is checked: the active pods of its owner must not exceed the largest ``replicas`` that the owner ever
    had, plus one burst for each process that started with a list of pods that was not the latest state.
    """

    def __init__(self, *, burst: int) -> None:
        self._burst = burst
        self._sets: dict[str, ReplicaSet] = {}
        """The existing ReplicaSets, by uid."""
        self._largest: dict[str, int] = {}
        self._pods: dict[str, Pod] = {}
        """By key."""
        self._active: Counter[str] = Counter()
        """Active pods by the uid of their controller."""
        self._stale = OldPods()
        self.created = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        if change.key.startswith("/pods/"):
            self._stale.newest_change = change.revision
            self._pod_changed(change, origin)
        elif change.key.startswith("apps/replicasets/"):
            owner = _set(change.value)
            uid = owner.metadata.uid
            if change.type == "DELETED":
                self._sets.pop(uid, None)
            else:
                old = self._sets.get(uid)
                self._sets[uid] = owner
                reported = owner.status.observed_generation
                if reported > owner.metadata.generation:
                    raise Violation(f"{change.key} observed generation {reported} of {owner.metadata.generation}")
                if old is not None and reported < old.status.observed_generation:
                    raise Violation(
                        f"{change.key} observed generation {old.status.observed_generation}, now {reported}"
                    )
                self._largest[uid] = max(self._largest.get(uid, 0), _desired(owner))

    def _pod_changed(self, change: Change, origin: Origin | None) -> None:
        old = self._pods.pop(change.key, None)
        previous = _active_owner(old)
        if previous is not None:
            self._active[previous] -= 1
        if change.type == "DELETED":
            return
        pod = self._pods[change.key] = _pod(change.value)
        controllers = [ref.uid for ref in pod.metadata.owner_references if ref.controller]
        if len(controllers) > 1:
            raise Violation(f"{change.key} has {len(controllers)} controllers: {controllers}")
        old_controller = (
            controller_of(old.metadata) if old is not None and old.metadata.uid == pod.metadata.uid else None
        )
        if old_controller is not None and controllers and old_controller.uid != controllers[0]:
            raise Violation(
                f"{change.key} went from controller {old_controller.uid} to {controllers[0]} without being released"
            )
        owner = _active_owner(pod)
        if owner is None:
            return
        self._active[owner] += 1
        if change.type != "ADDED":
            return
        self.created += 1
        if origin is None or not origin.program.startswith("manager"):
            return
        allowed = self._largest.get(owner, 0) + self._burst * len(self._stale)
        if self._active[owner] > allowed:
            raise Violation(
                f"{change.key} is active pod number {self._active[owner]} of {owner}, whose replicas were never above "
                f"{self._largest.get(owner, 0)}, after {len(self._stale)} starts with an old list (burst {self._burst})"
            )

    def observed(self, process: "Process", observation: Observation) -> None:
        self._stale.observed(process, observation)

    def check_final_state(self) -> None:
        """At the end each ReplicaSet has exactly the desired pods, and reports that."""
        for owner in self._sets.values():
            meta, status = owner.metadata, owner.status
            if meta.deletion_timestamp is not None:
                continue
            name = f"{meta.namespace}/{meta.name}"
            pods = [pod for pod in self._pods.values() if _active_owner(pod) == meta.uid]
            matches = selector_from(owner.spec.selector).matches
            if len(pods) != _desired(owner):
                raise Violation(f"{name} should have {_desired(owner)} pods and has {len(pods)}")
            unselected = [pod.metadata.name for pod in pods if not matches(pod.metadata.labels)]
            if unselected:
                raise Violation(f"{name} controls pods that it does not select: {unselected}")
            ready = sum(
                1 for pod in pods if any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
            )
            reported = (status.replicas, status.ready_replicas, status.observed_generation, status.conditions)
            if reported != (len(pods), ready, meta.generation, ()):
                raise Violation(
                    f"{name} has {len(pods)} pods, {ready} ready, generation {meta.generation}; reports {reported}"
                )


def _desired(owner: ReplicaSet) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas


def _active_owner(pod: Pod | None) -> str | None:
    """The uid of the ReplicaSet for which an active pod counts."""
    if pod is None or not is_active(pod):
        return None
    reference = controller_of(pod.metadata)
    return reference.uid if reference is not None and reference.kind == "ReplicaSet" else None
