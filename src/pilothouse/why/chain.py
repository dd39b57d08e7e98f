"""From a change back to what began it.

The origin of a change names the component, the key that it was working on and the events that had enqueued the key.
Each event shows an object at a resourceVersion, and the change that had that one has an origin of its own. Controllers
are driven by levels, so the event is often only the occasion: what a Deployment's controller does in the middle of a
rollout follows from the new template, although the news was that a pod became ready. So the last change of the spec of
the key's own object is considered too, unless the status said that it was fulfilled.
"""

from collections.abc import Callable

import msgspec

from pilothouse.machinery.causes import RETRY, TIMER, Cause, Trigger
from pilothouse.why.actors import FAULTS, act, root_of
from pilothouse.why.changes import (
    CREATED,
    FAILED,
    NOTHING,
    PHASE,
    SPEC,
    asks_deletion,
    changed_paths,
    is_fulfilled,
    summary,
)
from pilothouse.why.deletions import deletion_request
from pilothouse.why.details import details
from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference, newest_of_spec
from pilothouse.why.injected import injected
from pilothouse.why.nearby import nearby
from pilothouse.why.requests import acting_differences, last_request
from pilothouse.why.steps import FAULT, PROGRAM, UNKNOWN, USER, Step

UnwrittenFault = Callable[[Reference, int], Step | None]
"""The last fault of an object before a revision (0: of all) that nobody has written down in the cluster: simulations
bring them about."""
_MOST_LINKS = 16
_MOST_BRANCHES = 3
_MOST_STEPS = 80
_MOST_CHANGES = 60
"""Of so many of the last changes of an object those of the status are read, too."""
_BESIDES = CREATED
"""What weighs less than that is described of only if there is nothing else."""

KEY_RESOURCES = {
    "replicaset-controller": "replicasets.apps",
    "replicationcontroller-controller": "replicationcontrollers",
    "deployment-controller": "deployments.apps",
    "statefulset-controller": "statefulsets.apps",
    "daemonset-controller": "daemonsets.apps",
    "job-controller": "jobs.batch",
    "cronjob-controller": "cronjobs.batch",
    "horizontal-pod-autoscaler-controller": "horizontalpodautoscalers.autoscaling",
    "namespace-controller": "namespaces",
    "ttl-after-finished-controller": "jobs.batch",
    "endpointslice-controller": "services",
    "endpoints-controller": "services",
    "service-lb-controller": "services",
    "node-lifecycle-controller": "nodes",
    "persistentvolumeclaim-protection-controller": "persistentvolumeclaims",
    "persistentvolume-protection-controller": "persistentvolumes",
    "serviceaccount-controller": "namespaces",
    "root-ca-certificate-publisher-controller": "namespaces",
    "disruption-controller": "poddisruptionbudgets.policy",
    "resourcequota-controller": "resourcequotas",
    "default-scheduler": "pods",
}
"""What the keys of components name."""


_EVICTION = "taint-eviction-controller"
_OUT_OF_REACH = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_STATUS_DRIVEN = frozenset({"node-lifecycle-controller"})
"""These follow what an object's status says: nothing that they do is due to its spec."""


_WITHOUT_FULFILMENT = frozenset({"cronjobs.batch", "services"})
"""The status of these does not say when the spec was fulfilled: that is at once, or at the next time of a schedule."""


class _Candidate(msgspec.Struct):
    change: ObjectChange
    text: str
    weight: int


class _Intents:
    """Changes of a spec that still hold, the last first, and those that later ones have undone or replaced."""

    def __init__(self) -> None:
        self.candidates: list[_Candidate] = []
        self.outdated: list[ObjectChange] = []
        self._paths: set[str] = set()

    def add(self, candidate: _Candidate, paths: set[str]) -> None:
        """Add a change that came before those that are there."""
        if paths and paths <= self._paths:
            self.outdated.append(candidate.change)
        elif len(self.candidates) < _MOST_BRANCHES:
            self.candidates.append(candidate)
        self._paths |= paths


class Chain:
    """Follows changes back. One for each explanation: it bounds how much is described."""

    def __init__(self, evidence: Evidence, unwritten: UnwrittenFault = lambda _reference, _until: None) -> None:
        self._evidence = evidence
        self._unwritten = unwritten
        self._steps = 0
        self._changes: dict[tuple[str, str, str], ObjectChange] = {}

    async def step(self, change: ObjectChange, *, text: str = "", seen: frozenset[int] = frozenset()) -> Step:
        """A change, and what led to it. ``text`` replaces the description of the change itself."""
        self._steps += 1
        evidence = self._evidence
        described = summary(change, await evidence.before(change), await evidence.after(change))
        text = text or described.text
        reference = change.reference
        name = f"{evidence.kind_of(reference.resource)}/{reference.name}"
        cause = change.cause
        step = Step(
            text=f"{name} {text}",
            object=name,
            namespace=reference.namespace,
            resource_version=change.resource_version,
            time=change.time,
            by=act(change, text),
            decision=cause.decision if cause is not None else "",
        )
        self._changes[step.object, step.namespace, step.resource_version] = change
        more = await details(evidence, change)
        step.table = list(more.table)
        if change.inferred:
            step.table.append("the reason was not recorded")
        if cause is not None and len(seen) < _MOST_LINKS and self._steps < _MOST_STEPS:
            seen |= {change.revision}
            # An event that a kubelet has received is no reason for the end of a container.
            own_fault = described.weight == FAILED and cause.component in FAULTS
            for reason in await self._reasons(change, None if own_fault else cause, more.further, seen):
                step.because.append(await self.step(reason.change, text=reason.text, seen=seen))
            if not step.because and root_of(change) == FAULT:
                step.because = await self.injected(reference, until=change.revision)
                about = key_reference(cause)
                if not step.because and about is not None and about != reference:
                    step.because = await self.injected(about, until=change.revision)
        if not step.because:
            step.because = self._lost_contact(cause, change.revision)
        if not step.because:
            step.root = root_of(change)
            step.table += _lost(cause, step.root)
        return step

    def _lost_contact(self, cause: Cause | None, until: int) -> list[Step]:
        """The fault behind the taint of a node that is out of reach, when history does not have the taint any more."""
        if cause is None or cause.component != _EVICTION or not any(each in cause.decision for each in _OUT_OF_REACH):
            return []
        named = next((trigger.name for trigger in cause.triggers if trigger.resource == "nodes"), "")
        fault = self._unwritten(Reference("nodes", "", named), until) if named else None
        return [] if fault is None else [fault]

    async def add_nearby(self, root: Step) -> None:
        """Add to a step of somebody's act what the same user wrote within the same seconds."""
        change = self._changes.get((root.object, root.namespace, root.resource_version))
        if change is not None and root.root in (USER, PROGRAM):
            root.hints = await nearby(self._evidence, change)

    async def injected(self, reference: Reference, *, until: int = 0) -> list[Step]:
        """For a fault of a simulated node or pod: the step that asked for it, if somebody did."""
        change = await injected(self._evidence, reference, until=until)
        if change is not None:
            return [await self.step(change)]
        fault = self._unwritten(reference, until)
        return [] if fault is None else [fault]

    async def _reasons(
        self, change: ObjectChange, cause: Cause | None, further: list[ObjectChange], seen: frozenset[int]
    ) -> list[_Candidate]:
        """``further`` and, of a change with a cause, what that names."""
        found: dict[tuple[Reference, int], _Candidate] = {}
        for each in further:
            described = summary(each, await self._evidence.before(each), await self._evidence.after(each))
            found[each.reference, each.revision] = _Candidate(each, described.text, SPEC)
        for trigger in cause.triggers if cause is not None else ():
            led = await self._change_of(trigger)
            if led is not None and led.type == "DELETED":
                led = await self._asked(led)
            if cause is not None and led is not None and led.revision not in seen and _may_follow(change, led):
                found.setdefault((led.reference, led.revision), await self._weighed(led, cause))
        intents = await self._intents(change, cause) if cause is not None else _Intents()
        for candidate in intents.candidates:
            if candidate.change.revision not in seen:
                found.setdefault((candidate.change.reference, candidate.change.revision), candidate)
        for outdated in intents.outdated:
            found.pop((outdated.reference, outdated.revision), None)
        ordered = sorted(found.values(), key=lambda each: (each.weight, each.change.revision), reverse=True)
        strong = [each for each in ordered if each.weight >= _BESIDES]
        return (strong or [each for each in ordered if each.weight > NOTHING][:1])[:_MOST_BRANCHES]

    async def _weighed(self, change: ObjectChange, cause: Cause) -> _Candidate:
        described = summary(change, await self._evidence.before(change), await self._evidence.after(change))
        if change.origin is not None and change.origin.subresource == "binding":
            return _Candidate(change, described.text, PHASE)
        made_by = change.cause
        if made_by is not None and (made_by.component, made_by.key) == (cause.component, cause.key):
            # Its own doing: what it did before led to it, and that has the same reason.
            return _Candidate(change, described.text, min(described.weight, 5))
        return _Candidate(change, described.text, described.weight)

    async def _change_of(self, trigger: Trigger) -> ObjectChange | None:
        """The change that an event showed. An object that was in the first list was written some time before."""
        if trigger.type in (RETRY, TIMER) or not trigger.name:
            return None
        reference = Reference(trigger.resource, trigger.namespace, trigger.name)
        return await self._evidence.change_at(reference, trigger.resource_version) if trigger.resource_version else None

    async def _asked(self, removed: ObjectChange) -> ObjectChange:
        """The request that began a deletion, for the change that completed it."""
        changes = [change for change in await self._evidence.changes(removed.reference) if change.uid == removed.uid]
        asked = await deletion_request(
            self._evidence, [change for change in changes if change.revision <= removed.revision]
        )
        return removed if asked is None else asked

    async def _intents(self, change: ObjectChange, cause: Cause) -> "_Intents":
        """The changes of the spec of the object that the component was working on, since the status last said that it
        was fulfilled; its creation, if there is none.

        What a later one has changed again is no reason any more: the last value of each field is.
        """
        found = _Intents()
        reference = key_reference(cause)
        if reference is None or cause.component in _STATUS_DRIVEN:
            return found
        changes = [each for each in await self._evidence.changes(reference) if each.revision < change.revision]
        if reference.resource in _WITHOUT_FULFILMENT:
            return await self._standing_intent(found, changes, keeps_records=_ends_record(change))
        # Those of the status among the last ones, too: they say when the spec was fulfilled.
        older = newest_of_spec(self._evidence, changes[:-_MOST_CHANGES])
        for each in reversed([*older, *changes[-_MOST_CHANGES:]]):
            before, after = await self._evidence.before(each), await self._evidence.after(each)
            if after is not None and is_fulfilled(reference.resource, after):
                break
            described = summary(each, before, after)
            candidate = _Candidate(each, described.text, described.weight)
            marks = _marks_deletion(each, before, after)
            if each.type == "ADDED" or described.weight == FAILED or marks:
                if not found.candidates or marks:
                    found.candidates.append(candidate)
                break
            if described.weight >= SPEC and self._acts(change, each, before, after):
                found.add(candidate, changed_paths(before, after))
                if after is None and not each.sent:
                    break  # what it has replaced of earlier ones is not known
        return found

    async def _standing_intent(
        self, found: "_Intents", changes: list[ObjectChange], *, keeps_records: bool
    ) -> "_Intents":
        """The deletion, the last change of the spec that still held, or the creation."""
        ended = next(
            (change for change in reversed(changes) if change.type == "DELETED" or asks_deletion(change)), None
        )
        if ended is not None and ended.uid == changes[-1].uid:
            described = summary(ended, await self._evidence.before(ended), await self._evidence.after(ended))
            found.candidates.append(_Candidate(ended, described.text, described.weight))
            return found
        made = next((change for change in reversed(changes) if change.type == "ADDED"), None)
        born = made.time if made is not None else ""
        alive = [change for change in changes if made is None or change.revision >= made.revision]
        request = await last_request(self._evidence, alive, born, keeps_records=keeps_records)
        if request is not None:
            found.candidates.append(_Candidate(request[0], request[1].text, request[1].weight))
        elif made is not None:
            found.candidates.append(_Candidate(made, "was created", CREATED))
        return found

    @staticmethod
    def _acts(change: ObjectChange, each: ObjectChange, before: Document | None, after: Document | None) -> bool:
        """Whether a change of a spec may have led to this one."""
        if before is None or after is None:
            return True
        return bool(acting_differences(each, before, after, keeps_records=_ends_record(change)))


def _ends_record(change: ObjectChange) -> bool:
    """Whether something is deleted that may be a record of the past: a finished Job, an old ReplicaSet."""
    return change.reference.resource != "pods" and (change.type == "DELETED" or asks_deletion(change))


def _may_follow(change: ObjectChange, led: ObjectChange) -> bool:
    """Whether one change may have led to another. Where a version is not known, the order is one of times, and a
    request that was sent later may have been recorded first."""
    return led.revision < change.revision or not (led.resource_version and change.resource_version)


def _lost(cause: Cause | None, root: str) -> list[str]:
    """The events that a write followed from, if history does not have their changes any more."""
    if cause is None or root != UNKNOWN:
        return []
    named = [trigger for trigger in cause.triggers if trigger.name]
    if not named:
        return []
    first = named[0]
    what = f"{first.type} {first.resource.partition('.')[0]}/{first.name} at resourceVersion {first.resource_version}"
    return [f"what led to it is not in the history: {what}"]


def _marks_deletion(change: ObjectChange, before: Document | None, after: Document | None) -> bool:
    if after is None:
        return asks_deletion(change)
    return bool(
        after
        and (after.get("metadata") or {}).get("deletionTimestamp")
        and not (before and (before.get("metadata") or {}).get("deletionTimestamp"))
    )


def key_reference(cause: Cause) -> Reference | None:
    """The object that a component was working on, if its keys name one."""
    resource = KEY_RESOURCES.get(cause.component)
    if resource is None:
        return None
    namespace, _slash, name = cause.key.rpartition("/")
    return Reference(resource, namespace, name) if name else None
