"""How many pods each owner has, by labels and state, updated with every event.

A ReplicaSet is synced after nearly every event of one of its pods, mostly only to update its status. Counting 5,000
pods each time costs milliseconds, updating a census about a microsecond. It is updated by the pod handlers before they
enqueue, and so agrees with the informer's cache. Pods are counted by their labels, since selector and template are
known to the owner only; nearly always all pods of an owner have the same ones.
"""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.replicaset.ranking import ActivePodsWithRanks
from pilothouse.semantics.pods import is_ready

Labels = tuple[tuple[str, str], ...]
"""Labels in the order received. The same labels in another order are counted apart."""


class Tally(msgspec.Struct, gc=False):
    """Pods of one owner with the same labels."""

    active: int = 0
    ready: int = 0
    """Active pods that are ready."""
    terminating: int = 0
    others: int = 0
    """Finished pods."""

    @property
    def total(self) -> int:
        return self.active + self.terminating + self.others


class Census:
    """The counts per owner. ``owner_key`` returns the owner of a pod, ``None`` if it is not counted."""

    def __init__(self, owner_key: Callable[[Pod], str | None]) -> None:
        self._owner_key = owner_key
        self._owners: dict[str, dict[Labels, Tally]] = {}
        self._ranked_pods: dict[str, ActivePodsWithRanks] = {}

    def of(self, owner: str) -> Mapping[Labels, Tally]:
        """The tallies of one owner, in the order in which their labels first appeared. Not to be kept."""
        return self._owners.get(owner, {})

    def ranked_pods(self, owner: str, active: Callable[[], Iterable[Pod]]) -> ActivePodsWithRanks:
        """The owner's pods for ranking, created from its ``active`` ones at the first call, and updated until
        ``dismiss``."""
        ranked_pods = self._ranked_pods.get(owner)
        if ranked_pods is None:
            ranked_pods = self._ranked_pods[owner] = ActivePodsWithRanks(active())
        return ranked_pods

    def dismiss(self, owner: str) -> None:
        """No pod of the owner is to go any more."""
        self._ranked_pods.pop(owner, None)

    def add(self, pod: Pod) -> None:
        self._count(pod, 1)

    def replace(self, old: Pod, new: Pod) -> None:
        self._count(old, -1)
        self._count(new, 1)

    def remove(self, pod: Pod) -> None:
        self._count(pod, -1)

    def _count(self, pod: Pod, delta: int) -> None:
        owner = self._owner_key(pod)
        if owner is None:
            return
        labels = tuple(pod.metadata.labels.items())
        tallies = self._owners.get(owner)
        if tallies is None:
            tallies = self._owners[owner] = {}
        tally = tallies.get(labels)
        if tally is None:
            tally = tallies[labels] = Tally()
        if pod.status.phase in {"Succeeded", "Failed"}:
            tally.others += delta
        elif pod.metadata.deletion_timestamp is not None:
            tally.terminating += delta
        else:
            tally.active += delta
            if is_ready(pod):
                tally.ready += delta
            ranked_pods = self._ranked_pods.get(owner)
            if ranked_pods is not None and not (ranked_pods.add if delta > 0 else ranked_pods.remove)(pod):
                # A new list replaces the whole cache before handlers are called for its pods. Pods ranked in between
                # are already newer.
                self.dismiss(owner)
        if delta < 0 and not tally.total:
            del tallies[labels]
            if not tallies:
                del self._owners[owner]
