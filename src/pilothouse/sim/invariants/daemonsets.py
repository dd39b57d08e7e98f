"""What must hold for DaemonSets: one live pod on a node, during a surge one old and one new, and an honest end."""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.apps import DaemonSet
from pilothouse.api.core import Pod
from pilothouse.client.interceptor import Answered, Observation, Opened
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.pods import is_active
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.story import Origin
from pilothouse.storage import Change

if TYPE_CHECKING:
    from pilothouse.sim.simulation import Process

_pod = msgspec.json.Decoder(Pod).decode
_set = msgspec.json.Decoder(DaemonSet).decode


class DaemonSets(Invariant):
    """Judged is each creation by a manager: it must not make two live pods of one DaemonSet on one node, or three while
    a surge is allowed. Each process that began with an old list of pods may add one.
    """

    def __init__(self) -> None:
        self._sets: dict[str, DaemonSet] = {}
        """By uid; those that exist."""
        self._surged: dict[str, None] = {}
        """Uids of those that ever allowed a surge."""
        self._pods: dict[str, Pod] = {}
        """By key."""
        self._newest_pod_change = 0
        self._stale: dict[int, None] = {}
        self.created = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        """Pods and DaemonSets."""
        if change.key.startswith("/pods/"):
            self._newest_pod_change = change.revision
            if change.type == "DELETED":
                self._pods.pop(change.key, None)
                return
            pod = self._pods[change.key] = _pod(change.value)
            if change.type == "ADDED" and origin is not None and origin.program.startswith("manager"):
                self._created(change.key, pod)
        elif change.key.startswith("apps/daemonsets/"):
            owner = _set(change.value)
            if change.type == "DELETED":
                self._sets.pop(owner.metadata.uid, None)
                return
            self._sets[owner.metadata.uid] = owner
            rolling = owner.spec.update_strategy.rolling_update
            if rolling is not None and rolling.max_surge not in (None, 0, "0%"):
                self._surged[owner.metadata.uid] = None

    def _created(self, key: str, pod: Pod) -> None:
        owner = _owner(pod)
        if owner is None:
            return
        self.created += 1
        node = _target(pod)
        there = sorted(
            other.metadata.name
            for other in self._pods.values()
            if is_active(other) and _owner(other) == owner and _target(other) == node
        )
        if len(there) > (2 if owner in self._surged else 1) + len(self._stale):
            raise Violation(f"{key} is one too many on {node}: {there}")

    def observed(self, process: "Process", seen: Observation) -> None:
        """Notes which processes begin with old pods."""
        replica = process.wire.replica
        if replica is None or not isinstance(seen, Opened | Answered) or seen.call.resource != "pods":
            return
        first = seen.call.verb == "list" or (seen.call.verb == "watch" and "sendInitialEvents" in seen.request.target)
        if first and "resourceVersion=0" in seen.request.target and replica.revision < self._newest_pod_change:
            self._stale[process.number] = None

    def settled(self) -> None:
        """Every node that counts has one pod, of the newest template, and the status says so."""
        for uid, owner in self._sets.items():
            if owner.metadata.deletion_timestamp is not None:
                continue
            pods = [pod for pod in self._pods.values() if is_active(pod) and _owner(pod) == uid]
            nodes = sorted(_target(pod) for pod in pods)
            status = owner.status
            if len(set(nodes)) != len(nodes):
                raise Violation(f"{owner.metadata.name} has two pods on a node: {nodes}")
            said = (status.current_number_scheduled + status.number_misscheduled, status.observed_generation)
            if said != (len(pods), owner.metadata.generation):
                raise Violation(
                    f"{owner.metadata.name} has {len(pods)} pods, generation {owner.metadata.generation}; says {said}"
                )
            if status.desired_number_scheduled != status.updated_number_scheduled:
                raise Violation(f"{owner.metadata.name} has not finished its update: {status}")


def _owner(pod: Pod) -> str | None:
    reference = controller_of(pod.metadata)
    return reference.uid if reference is not None and reference.kind == "DaemonSet" else None


def _target(pod: Pod) -> str:
    """The node a pod is on or pinned to."""
    if pod.spec.node_name or pod.spec.affinity is None or pod.spec.affinity.node_affinity is None:
        return pod.spec.node_name
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None, "a daemon pod is pinned"
    return required.node_selector_terms[0].match_fields[0].values[0]
