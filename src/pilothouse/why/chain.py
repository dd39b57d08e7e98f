"""Follows a change back to its root causes.

A change's origin names the component, the key it was syncing and the events that enqueued the key. Each event has an
object and resourceVersion, and the change that wrote that version has an origin of its own. Controllers are
level-driven, so the event is often only the occasion: during a rollout a Deployment's controller acts because of the
new template, although the event was that a pod became ready. So the last change of the spec of the key's object is a
candidate too, unless the status showed that it was fulfilled.
"""

from collections.abc import Callable, Sequence

import msgspec

from pilothouse.machinery.causes import RETRY, TIMER, Cause, Trigger
from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.why.actors import FAULTS, actor_with_command, root_kind
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
from pilothouse.why.evidence import Document, Evidence, ObjectChange, Reference, newest_spec_changes
from pilothouse.why.injected import injected, load_change
from pilothouse.why.nearby import nearby
from pilothouse.why.requests import last_request, relevant_differences
from pilothouse.why.steps import FAULT, PROGRAM, UNKNOWN, USER, Step
from pilothouse.why.unrecorded import is_evidence_of, unrecorded_write

UnrecordedFault = Callable[[Reference, int], Step | None]
"""Returns the last fault of an object before a revision (0: any) that is recorded in no object, since a simulation
caused it."""
_MAX_LINKS = 16
_MAX_SKEW = 2.0
_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
_MAX_BRANCHES = 3
_MAX_STEPS = 80
_MAX_CHANGES = 60
"""The last changes of an object of which status updates are read too."""
_MIN_WEIGHT = CREATED
"""Candidates below this weight are used only if there is no other."""

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
"""The resource of a component's keys."""


_AUTOSCALER = "horizontal-pod-autoscaler-controller"
_AUTOSCALERS = "horizontalpodautoscalers.autoscaling"
_EVICTION = "taint-eviction-controller"
_UNREACHABLE_TAINTS = ("node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready")
_STATUS_DRIVEN = frozenset({"node-lifecycle-controller"})
"""These components follow the status of objects, not the spec."""


_NO_FULFILMENT_STATUS = frozenset({"cronjobs.batch", "services"})
"""The status of these resources does not show whether the spec is fulfilled."""


class _Candidate(msgspec.Struct):
    change: ObjectChange
    text: str
    weight: int


class _SpecChanges:
    """Changes of a spec that are in effect, the last first, and those overwritten by later ones."""

    def __init__(self) -> None:
        self.candidates: list[_Candidate] = []
        self.overwritten: list[ObjectChange] = []
        self._paths: set[str] = set()

    def add(self, candidate: _Candidate, paths: set[str]) -> None:
        """Add a change older than those added before."""
        if paths and paths <= self._paths:
            self.overwritten.append(candidate.change)
        elif len(self.candidates) < _MAX_BRANCHES:
            self.candidates.append(candidate)
        self._paths |= paths


class Chain:
    """Builds the tree of causes. Create one for each explanation: it bounds the number of steps."""

    def __init__(self, evidence: Evidence, unrecorded: UnrecordedFault = lambda _reference, _until: None) -> None:
        self._evidence = evidence
        self._unrecorded = unrecorded
        self._steps = 0
        self._changes: dict[tuple[str, str, str], ObjectChange] = {}

    async def step(self, change: ObjectChange, *, text: str = "", observed: frozenset[int] = frozenset()) -> Step:
        """A change with its causes. ``text`` replaces the description of the change."""
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
            by=actor_with_command(change, text),
            decision=cause.decision if cause is not None else "",
        )
        self._changes[step.object, step.namespace, step.resource_version] = change
        more = await details(evidence, change)
        step.table = list(more.table)
        if change.inferred:
            step.table.append("the reason was not recorded")
        if cause is not None and len(observed) < _MAX_LINKS and self._steps < _MAX_STEPS:
            observed |= {change.revision}
            # A container does not exit because of an event that its kubelet received.
            own_fault = described.weight == FAILED and cause.component in FAULTS
            for reason in await self._reasons(change, None if own_fault else cause, more.further, observed):
                step.because.append(await self.step(reason.change, text=reason.text, observed=observed))
            if not step.because and root_kind(change) == FAULT:
                step.because = await self.injected(reference, until=change.revision)
                target = key_reference(cause)
                if not step.because and target is not None and target != reference:
                    step.because = await self.injected(target, until=change.revision)
        if cause is not None and cause.component == _AUTOSCALER and reference.resource != _AUTOSCALERS:
            # The newer one of the load and the autoscaler's spec.
            load = await load_change(evidence, reference, until=change.revision)
            if load is not None and all(int(reason.resource_version or 0) < load.revision for reason in step.because):
                step.because = [await self.step(load)]
        if not step.because:
            step.because = self._unreachable_fault(cause, change.revision)
        if not step.because and cause is not None and not evidence.has_writes_of_users:
            missing = await unrecorded_write(evidence, change, cause, key_reference(cause), described)
            step.because = [] if missing is None else [missing]
        if not step.because:
            step.root = root_kind(change)
            step.table += await self._missing_trigger(cause, step.root)
        return step

    def _unreachable_fault(self, cause: Cause | None, until: int) -> list[Step]:
        """The fault behind the taint of an unreachable node, if the taint is no longer recorded."""
        if (
            cause is None
            or cause.component != _EVICTION
            or not any(key in cause.decision for key in _UNREACHABLE_TAINTS)
        ):
            return []
        node_name = next((trigger.name for trigger in cause.triggers if trigger.resource == "nodes"), "")
        fault = self._unrecorded(Reference("nodes", "", node_name), until) if node_name else None
        return [] if fault is None else [fault]

    async def add_nearby(self, root: Step, tree: Sequence[Step]) -> None:
        """Add hints to a root cause of a tree: other writes of the same user at that time."""
        change = self._changes.get((root.object, root.namespace, root.resource_version))
        if change is not None and root.root in (USER, PROGRAM):
            root.hints = await nearby(self._evidence, change, tree)

    async def injected(self, reference: Reference, *, until: int = 0) -> list[Step]:
        """For a fault of a simulated node or pod: the change or scenario action that injected it."""
        change = await injected(self._evidence, reference, until=until)
        if change is not None:
            return [await self.step(change)]
        fault = self._unrecorded(reference, until)
        return [] if fault is None else [fault]

    async def _reasons(
        self, change: ObjectChange, cause: Cause | None, further: list[ObjectChange], observed: frozenset[int]
    ) -> list[_Candidate]:
        """The causes of a change: ``further``, the triggers of its recorded cause, and changes of the key's spec."""
        candidates: dict[tuple[Reference, int], _Candidate] = {}
        for further_change in further:
            described = summary(
                further_change, await self._evidence.before(further_change), await self._evidence.after(further_change)
            )
            candidates[further_change.reference, further_change.revision] = _Candidate(
                further_change, described.text, SPEC
            )
        for trigger in cause.triggers if cause is not None else ():
            cause_change = await self._change_of(trigger)
            if cause_change is not None and (cause_change.type == "DELETED" or await self._ends(cause_change)):
                cause_change = await self._deletion_request_of(cause_change)
            if (
                cause is not None
                and cause_change is not None
                and cause_change.revision not in observed
                and _may_be_caused_by(change, cause_change)
            ):
                candidates.setdefault(
                    (cause_change.reference, cause_change.revision), await self._candidate(cause_change, cause)
                )
        spec_changes = await self._spec_changes(change, cause) if cause is not None else _SpecChanges()
        for candidate in spec_changes.candidates:
            if candidate.change.revision not in observed:
                candidates.setdefault((candidate.change.reference, candidate.change.revision), candidate)
        for overwritten in spec_changes.overwritten:
            candidates.pop((overwritten.reference, overwritten.revision), None)
        ordered = sorted(
            candidates.values(), key=lambda candidate: (candidate.weight, candidate.change.revision), reverse=True
        )
        likely = [candidate for candidate in ordered if candidate.weight >= _MIN_WEIGHT]
        if likely or not self._evidence.has_writes_of_users:
            return likely[:_MAX_BRANCHES]
        # A trigger that changed nothing of weight passes on the cause of its writer, such as the annotation with which
        # the volume binder requests a volume.
        return [candidate for candidate in ordered if candidate.weight > NOTHING or candidate.change.cause][:1]

    async def _candidate(self, change: ObjectChange, cause: Cause) -> _Candidate:
        described = summary(change, await self._evidence.before(change), await self._evidence.after(change))
        if change.origin is not None and change.origin.subresource == "binding":
            return _Candidate(change, described.text, PHASE)
        written_by = change.cause
        if written_by is not None and (written_by.component, written_by.key) == (cause.component, cause.key):
            # An earlier write of the same sync, which has the same cause.
            return _Candidate(change, described.text, min(described.weight, 5))
        return _Candidate(change, described.text, described.weight)

    async def _change_of(self, trigger: Trigger) -> ObjectChange | None:
        """The change that wrote the version in an event; older ones, from the first list, may not be recorded."""
        if trigger.type in (RETRY, TIMER) or not trigger.name:
            return None
        reference = Reference(trigger.resource, trigger.namespace, trigger.name)
        if not trigger.resource_version:
            return None
        change = await self._evidence.change_at(reference, trigger.resource_version)
        if change is None and trigger.type == "DELETED":
            return await self._removed_definition(trigger.resource)
        if change is None or self._evidence.has_writes_of_users or is_evidence_of(trigger, change):
            return change
        return None

    async def _removed_definition(self, resource: str) -> ObjectChange | None:
        """The removal of a definition, and of all its objects with it: nothing serves their changes any more."""
        changes = await self._evidence.changes(Reference(_DEFINITIONS, "", resource)) if "." in resource else []
        return changes[-1] if changes and changes[-1].type == "DELETED" else None

    async def _missing_trigger(self, cause: Cause | None, root: str) -> list[str]:
        """The first trigger of a write, if the change behind it is no longer recorded."""
        if cause is None or root != UNKNOWN:
            return []
        first = next((trigger for trigger in cause.triggers if trigger.name), None)
        if first is None or await self._change_of(first) is not None:
            return []
        text = (
            f"{first.type} {first.resource.partition('.')[0]}/{first.name} at resourceVersion {first.resource_version}"
        )
        return [f"what led to it is not in the history: {text}"]

    async def _ends(self, change: ObjectChange) -> bool:
        """Whether a change is a part of a deletion that was requested before: the last phase of a pod."""
        before = await self._evidence.before(change) if change.type == "MODIFIED" else None
        return bool(before and (before.get("metadata") or {}).get("deletionTimestamp"))

    async def _deletion_request_of(self, removed: ObjectChange) -> ObjectChange:
        """The delete request, for the change that removed the object."""
        changes = [change for change in await self._evidence.changes(removed.reference) if change.uid == removed.uid]
        request = await deletion_request(
            self._evidence, [change for change in changes if change.revision <= removed.revision]
        )
        return removed if request is None else request

    async def _spec_changes(self, change: ObjectChange, cause: Cause) -> "_SpecChanges":
        """The changes of the spec of the key's object since the status last showed it as fulfilled; otherwise its
        creation. Changes overwritten by later ones are no candidates."""
        result = _SpecChanges()
        reference = key_reference(cause)
        if reference is None or cause.component in _STATUS_DRIVEN:
            return result
        changes = [earlier for earlier in await self._evidence.changes(reference) if earlier.revision < change.revision]
        if reference.resource in _NO_FULFILMENT_STATUS:
            return await self._effective_spec_change(result, changes, keeps_records=_may_prune_history(change))
        # The last ones include status updates, which show when the spec was fulfilled.
        older = newest_spec_changes(self._evidence, changes[:-_MAX_CHANGES])
        for earlier in reversed([*older, *changes[-_MAX_CHANGES:]]):
            old, new = await self._evidence.before(earlier), await self._evidence.after(earlier)
            if new is not None and is_fulfilled(reference.resource, new):
                break
            described = summary(earlier, old, new)
            candidate = _Candidate(earlier, described.text, described.weight)
            marks = _marks_deletion(earlier, old, new)
            if earlier.type == "ADDED" or described.weight == FAILED or marks:
                if not result.candidates or marks:
                    result.candidates.append(candidate)
                break
            if described.weight >= SPEC and self._acts(change, earlier, old, new):
                result.add(candidate, changed_paths(old, new))
                if new is None and not earlier.sent:
                    break  # it is unknown which earlier changes it overwrote
        return result

    async def _effective_spec_change(
        self, result: "_SpecChanges", changes: list[ObjectChange], *, keeps_records: bool
    ) -> "_SpecChanges":
        """The deletion, the last spec change that was not reverted, or the creation."""
        deletion = next(
            (change for change in reversed(changes) if change.type == "DELETED" or asks_deletion(change)), None
        )
        if deletion is not None and deletion.uid == changes[-1].uid:
            described = summary(deletion, await self._evidence.before(deletion), await self._evidence.after(deletion))
            result.candidates.append(_Candidate(deletion, described.text, described.weight))
            return result
        creation = next((change for change in reversed(changes) if change.type == "ADDED"), None)
        created_at = creation.time if creation is not None else ""
        current = [change for change in changes if creation is None or change.revision >= creation.revision]
        request = await last_request(self._evidence, current, created_at, keeps_records=keeps_records)
        if request is not None:
            result.candidates.append(_Candidate(request[0], request[1].text, request[1].weight))
        elif creation is not None:
            result.candidates.append(_Candidate(creation, "was created", CREATED))
        return result

    @staticmethod
    def _acts(change: ObjectChange, spec_change: ObjectChange, old: Document | None, new: Document | None) -> bool:
        """Whether the controller acts on a field that ``spec_change`` changed."""
        if old is None or new is None:
            return True
        changed = relevant_differences(spec_change, old, new, keeps_records=_may_prune_history(change))
        if change.type == "ADDED" and _had_ordinal(change.reference, spec_change.reference, old):
            changed = [difference for difference in changed if difference.path != "spec.replicas"]
        return bool(changed)


def _had_ordinal(pod: Reference, owner: Reference, old: Document) -> bool:
    """Whether a StatefulSet had a pod of this ordinal before it was scaled: its creation replaces that pod."""
    ordinal = pod.name.removeprefix(f"{owner.name}-")
    if pod.resource != "pods" or owner.resource != "statefulsets.apps" or not ordinal.isdecimal():
        return False
    spec = old.get("spec") or {}
    start = int((spec.get("ordinals") or {}).get("start") or 0)
    return start <= int(ordinal) < start + int(spec.get("replicas", 1))


def _may_prune_history(change: ObjectChange) -> bool:
    """Whether a change deletes an object that may be subject to a history limit: a finished Job, an old ReplicaSet."""
    return change.reference.resource != "pods" and (change.type == "DELETED" or asks_deletion(change))


def _may_be_caused_by(change: ObjectChange, other: ObjectChange) -> bool:
    """Whether one change may have caused another. Without resourceVersions changes are ordered by time, and a later
    request may be recorded up to two seconds before."""
    if other.revision < change.revision:
        return True
    return not (other.resource_version and change.resource_version) and _seconds_after(other, change) <= _MAX_SKEW


def _seconds_after(other: ObjectChange, change: ObjectChange) -> float:
    """How long after a change another one was recorded; 0 if a time is unknown."""
    try:
        return (parse_time(other.time) - parse_time(change.time)).total_seconds()
    except TimeError:
        return 0.0


def _marks_deletion(change: ObjectChange, old: Document | None, new: Document | None) -> bool:
    if new is None:
        return asks_deletion(change)
    return bool(
        new
        and (new.get("metadata") or {}).get("deletionTimestamp")
        and not (old and (old.get("metadata") or {}).get("deletionTimestamp"))
    )


def key_reference(cause: Cause) -> Reference | None:
    """The object of a cause's key; None if the component's keys name no object."""
    resource = KEY_RESOURCES.get(cause.component)
    if resource is None:
        return None
    namespace, _slash, name = cause.key.rpartition("/")
    return Reference(resource, namespace, name) if name else None
