"""Invariants of DaemonSets: one live pod on each node, two of different revisions during a surge, and a correct final
status.

The nodes that need a pod are computed by ``placement``, the pure decision that is tested with upstream's tables;
everything else is computed here from the committed objects. ``daemonset_bounds`` checks the bounds of rolling updates.
"""

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.apps import ControllerRevision, DaemonSet
from pilothouse.api.core import Node, Pod, PodTemplateSpec
from pilothouse.client.interceptor import Observation
from pilothouse.controllers.shared.history import equal_revision, newest, template_patch
from pilothouse.controllers.workloads.daemonset.placement import Placement, decide_placement, node_requirements_of
from pilothouse.controllers.workloads.daemonset.pod_template import (
    HASH_LABEL,
    is_updated,
    target_node,
    template_generation,
)
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.pods import is_active, is_ready, is_terminal
from pilothouse.sim.invariants import Invariant, Objects, Violation
from pilothouse.sim.invariants.old_pods import OldPods
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_set = msgspec.json.Decoder(DaemonSet).decode
_template = msgspec.json.Decoder(PodTemplateSpec).decode


class Daemons(Invariant):
    """The committed DaemonSets with their pods, nodes and revisions, and the processes that started with old pods.
    Performs no checks itself."""

    def __init__(self) -> None:
        self.sets: dict[str, DaemonSet] = {}
        """The existing DaemonSets, by uid."""
        self.pods = Objects("/pods/", Pod)
        self.nodes = Objects("/nodes/", Node)
        self.revisions = Objects("apps/controllerrevisions/", ControllerRevision)
        self.stale = OldPods()

    def committed(self, change: Change, origin: Origin | None) -> None:
        if self.nodes.follow(change) or self.revisions.follow(change):
            return
        if update := self.pods.follow(change):
            self.stale.newest_change = change.revision
            _key, old, new = update
            self.pod_changed(change.key, old, new, origin)
        elif change.key.startswith("apps/daemonsets/"):
            owner = _set(change.value)
            old_owner = self.sets.pop(owner.metadata.uid, None)
            if change.type != "DELETED":
                self.sets[owner.metadata.uid] = owner
                self.set_changed(old_owner, owner)

    def pod_changed(self, key: str, old: Pod | None, new: Pod | None, origin: Origin | None) -> None:
        """Called for each write of a pod."""

    def set_changed(self, old: DaemonSet | None, new: DaemonSet) -> None:
        """Called for each write of a DaemonSet."""

    def observed(self, process: "Process", observation: Observation) -> None:
        self.stale.observed(process, observation)

    def placements(self, owner: DaemonSet) -> dict[str, Placement]:
        """The decision for each node."""
        requirements = node_requirements_of(_template(owner.spec.template).spec)
        return {name: decide_placement(requirements, self.nodes[name]) for name in sorted(self.nodes)}

    def live_pods(self, uid: str) -> list[Pod]:
        """The pods of a DaemonSet that are neither finished nor being deleted."""
        return [pod for pod in self.pods.values() if owner_of(pod) == uid and is_active(pod)]


class DaemonSets(Daemons):
    """Checked at each creation by a manager: without surge the node has only finished pods of the DaemonSet; if a surge
    was ever allowed, at most one active pod, of another revision. Each process that started with an old list of pods
    may add one. At each commit: a pod has one controller, which is never replaced without a release;
    ``observedGeneration`` does not decrease; no count is negative. For the final state see ``check_final_state``.
    """

    def __init__(self) -> None:
        super().__init__()
        self._surged: dict[str, None] = {}
        """Uids of DaemonSets that ever allowed a surge."""
        self.created = 0

    def set_changed(self, old: DaemonSet | None, new: DaemonSet) -> None:
        """Check the generation and counts in its status."""
        reported, name = new.status.observed_generation, new.metadata.name
        if reported > new.metadata.generation:
            raise Violation(f"{name} observed generation {reported} of {new.metadata.generation}")
        if old is not None and reported < old.status.observed_generation:
            raise Violation(f"{name} observed generation {old.status.observed_generation}, now {reported}")
        numbers = [value for value in msgspec.structs.astuple(new.status) if isinstance(value, int)]
        if min(numbers) < 0:
            raise Violation(f"{name} reports a number below 0: {new.status}")
        rolling = new.spec.update_strategy.rolling_update
        if rolling is not None and rolling.max_surge not in (None, 0, "0%"):
            self._surged[new.metadata.uid] = None

    def pod_changed(self, key: str, old: Pod | None, new: Pod | None, origin: Origin | None) -> None:
        """Check the controller of a pod, and the number of pods on its node."""
        if new is None:
            return
        controllers = [reference.uid for reference in new.metadata.owner_references if reference.controller]
        if len(controllers) > 1:
            raise Violation(f"{key} has {len(controllers)} controllers: {controllers}")
        old_controller = (
            controller_of(old.metadata) if old is not None and old.metadata.uid == new.metadata.uid else None
        )
        if old_controller is not None and controllers and old_controller.uid != controllers[0]:
            raise Violation(
                f"{key} went from controller {old_controller.uid} to {controllers[0]} without being released"
            )
        if old is None and origin is not None and origin.program.startswith("manager"):
            self._created(key, new)

    def _created(self, key: str, pod: Pod) -> None:
        owner = owner_of(pod)
        if owner is None:
            return
        self.created += 1
        node = target_node(pod)
        other_pods = [
            other
            for other in self.pods.values()
            if other is not pod and owner_of(other) == owner and target_node(other) == node
        ]
        if owner in self._surged:
            counted = [other for other in other_pods if is_active(other)]
            same_hash = [other for other in counted if _hash(other) == _hash(pod)]
            extra = max(len(counted) - 1, len(same_hash))
        else:
            counted = [other for other in other_pods if not is_terminal(other)]
            extra = len(counted)
        if extra > len(self.stale):
            names = sorted(other.metadata.name for other in counted)
            raise Violation(f"{key} is one pod too many on {node}, which has {names}")

    def check_final_state(self) -> None:
        """At the end each node that needs a pod has one with the latest template, and other nodes have none, except
        because of NoSchedule taints. The status is correct, the latest revision has the template, and old revisions are
        within the limit or used by a pod."""
        for owner in self.sets.values():
            if owner.metadata.deletion_timestamp is None:
                self._check(owner)

    def _check(self, owner: DaemonSet) -> None:
        name, status = owner.metadata.name, owner.status
        placements = self.placements(owner)
        pods = self.live_pods(owner.metadata.uid)
        pods_by_node = Counter(target_node(pod) for pod in pods)
        desired = sorted(node for node, placement in placements.items() if placement.should_run)
        tolerated = sorted(
            node for node, placement in placements.items() if placement.should_continue and not placement.should_run
        )
        if any(pods_by_node[node] != 1 for node in desired) or any(
            count > 1 or node not in (*desired, *tolerated) for node, count in pods_by_node.items()
        ):
            raise Violation(
                f"{name} should have a pod on {desired}, may keep one on {tolerated}, and has them "
                f"on {dict(pods_by_node)}"
            )
        current = self._check_revisions(owner, pods)
        generation = template_generation(owner.metadata.annotations)

        def new(pod: Pod) -> bool:
            return is_updated(pod, current, generation)

        if owner.spec.update_strategy.type == "RollingUpdate":
            outdated = [pod.metadata.name for pod in pods if target_node(pod) in desired and not new(pod)]
            if outdated:
                raise Violation(f"{name} has not finished its update: {outdated} are not of {current}")
        if status.observed_generation != owner.metadata.generation:
            raise Violation(f"{name} observed {status.observed_generation}, is {owner.metadata.generation}")
        if status.current_number_scheduled + status.number_misscheduled != len(pods):
            raise Violation(f"{name} has {len(pods)} pods and reports {status}")
        if any(pods_by_node[node] for node in tolerated):
            return  # as upstream, a NoSchedule taint on the node of a pod is observed with the next event only
        ready = sum(1 for pod in pods if is_ready(pod))
        updated = sum(1 for pod in pods if new(pod))
        reported = (
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.number_ready,
            status.number_available,
            status.updated_number_scheduled,
            status.number_unavailable,
        )
        if reported != (len(desired), len(pods), ready, ready, updated, len(desired) - ready):
            raise Violation(
                f"{name} should have {len(desired)}, has {len(pods)}, {ready} ready, {updated} new; reports {status}"
            )

    def _check_revisions(self, owner: DaemonSet, pods: list[Pod]) -> str:
        """Check the revisions. Returns the hash of the current one."""
        name = owner.metadata.name
        owned = [
            revision
            for revision in self.revisions.values()
            if (reference := controller_of(revision.metadata)) is not None and reference.uid == owner.metadata.uid
        ]
        if not owned:
            raise Violation(f"{name} has no revision")
        patch = template_patch(owner.spec.template)
        current = newest(sorted(owned, key=lambda revision: revision.metadata.name))
        # There may be two with the same template: if a user creates one, the controller finds it with the next sync.
        matching = [revision.metadata.name for revision in owned if equal_revision(revision.data, patch)]
        if current.metadata.name not in matching:
            raise Violation(
                f"the template of {name} is held by {matching}; the newest revision is {current.metadata.name}"
            )
        hashes = {_hash(pod) for pod in pods}
        unused = [
            revision
            for revision in owned
            if revision is not current and revision.metadata.labels.get(HASH_LABEL) not in hashes
        ]
        limit = 10 if owner.spec.revision_history_limit is None else owner.spec.revision_history_limit
        if unused and len(owned) - 1 > limit:
            raise Violation(
                f"{name} keeps {len(owned) - 1} old revisions, {len(unused)} of no use, and may keep {limit}"
            )
        return current.metadata.labels.get(HASH_LABEL, "")


def owner_of(pod: Pod) -> str | None:
    """The uid of the DaemonSet that controls the pod."""
    reference = controller_of(pod.metadata)
    return reference.uid if reference is not None and reference.kind == "DaemonSet" else None


def _hash(pod: Pod) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")
