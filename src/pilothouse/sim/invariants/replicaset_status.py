"""A ReplicaSet's status is never ahead of the cache of the process that writes it."""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.api.apps import ReplicaSet
from pilothouse.api.core import Pod
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client.interceptor import Observation, Sent
from pilothouse.machinery.labels import Selector, selector_from
from pilothouse.machinery.owners import controller_of
from pilothouse.semantics.pods import is_active, is_ready, is_terminating
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.invariants.cached import InformerCache

if TYPE_CHECKING:
    from pilothouse.sim.process import Process

_set = msgspec.json.Decoder(ReplicaSet).decode


class _Patch(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_patch = msgspec.json.Decoder(_Patch).decode


class _Counts:
    """The counts of the pods of one ReplicaSet at all times of one cache."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.generation = 0
        self.active: set[int] = set()
        self.ready: set[int] = set()
        self.terminating: set[int] = set()
        self.ever: set[str] = set()
        """Uids of all observed pods that it could have counted."""
        self.adopts = False
        """Whether the process sent patches to adopt or release: between them and their events the reported number may
        differ from the cache at any time, but not from the observed pods."""


class StatusBehindCache(Invariant):
    """Each status that a process sends matches its observations.

    ``observedGeneration`` is a generation that was observed; replicas, ready and terminating replicas are each a count
    of the cache at some moment of that process. If it adopts pods, replicas are at most the number of observed pods.
    """

    def __init__(self) -> None:
        self._caches: dict[int, _Cache] = {}
        self.checked = 0

    def observed(self, process: "Process", observation: Observation) -> None:
        cache = self._caches.get(process.number)
        if cache is None:
            cache = self._caches[process.number] = _Cache()
        cache.pods.observe(observation)
        cache.owners.observe(observation)
        if isinstance(observation, Sent):
            call = observation.call
            if call.resource == "pods" and call.verb == "patch":
                for reference in _patch(observation.request.body).metadata.owner_references:
                    cache.note_claim(reference.uid)
            elif (call.resource, call.subresource, call.verb) == ("replicasets", "status", "update"):
                self.checked += 1
                _check(cache, _set(observation.request.body))


class _Cache:
    def __init__(self) -> None:
        self.counts: dict[str, _Counts] = {}
        self._claims: set[str] = set()
        self.owners = InformerCache("replicasets", ReplicaSet, self._owner_changed)
        self.pods = InformerCache("pods", Pod, self._pod_changed)

    def note_claim(self, uid: str) -> None:
        self._claims.add(uid)
        if uid in self.counts:
            self.counts[uid].adopts = True

    def _owner_changed(self, _old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        if new is None:
            return
        uid = new.metadata.uid
        counts = self.counts.get(uid)
        if counts is None:
            counts = self.counts[uid] = _Counts(selector_from(new.spec.selector))
            counts.adopts = uid in self._claims
            for pod in self.pods.objects.values():
                self._record_pod(uid, counts, pod)
        counts.generation = max(counts.generation, new.metadata.generation)
        self._count(uid, counts)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            for uid, counts in self.counts.items():
                self._record_pod(uid, counts, new)
        for pod in (old, new):
            reference = controller_of(pod.metadata) if pod is not None else None
            if reference is not None and reference.uid in self.counts:
                self._count(reference.uid, self.counts[reference.uid])

    def _record_pod(self, uid: str, counts: _Counts, pod: Pod) -> None:
        reference = controller_of(pod.metadata)
        if (reference is None or reference.uid == uid) and counts.selector.matches(pod.metadata.labels):
            counts.ever.add(pod.metadata.uid)

    def _count(self, uid: str, counts: _Counts) -> None:
        active = ready = terminating = 0
        for pod in self.pods.objects.values():
            reference = controller_of(pod.metadata)
            if reference is None or reference.uid != uid or not counts.selector.matches(pod.metadata.labels):
                continue
            if is_active(pod):
                active += 1
                ready += is_ready(pod)
            elif is_terminating(pod):
                terminating += 1
        counts.active.add(active)
        counts.ready.add(ready)
        counts.terminating.add(terminating)


def _check(cache: _Cache, written: ReplicaSet) -> None:
    meta, status = written.metadata, written.status
    name = f"the status of {meta.namespace}/{meta.name} ({meta.uid})"
    counts = cache.counts.get(meta.uid)
    if counts is None:
        raise Violation(f"{name} is written by a process that never observed the ReplicaSet")
    if status.observed_generation > counts.generation:
        raise Violation(f"{name} has generation {status.observed_generation}, {counts.generation} was observed")
    if counts.adopts:
        if status.replicas > len(counts.ever):
            raise Violation(f"{name} has {status.replicas} replicas, {len(counts.ever)} pods were observed in total")
        return
    for field, reported, observed in (
        ("replicas", status.replicas, counts.active),
        ("readyReplicas", status.ready_replicas, counts.ready),
        ("terminatingReplicas", status.terminating_replicas or 0, counts.terminating),
    ):
        if reported not in observed:
            raise Violation(f"{name} has {field} {reported}; the cache had {sorted(observed)}")
