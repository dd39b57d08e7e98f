"""From a change back to what began it.

The origin of a change names the component, the key that it was working on and the events that had enqueued the key.
Each event shows an object at a resourceVersion, and the change that had that one has an origin of its own. Controllers
are driven by levels, so the event is often only the occasion: what a Deployment's controller does in the middle of a
rollout follows from the new template, although the news was that a pod became ready. So the last change of the spec of
the key's own object is considered too, unless the status said that it was fulfilled.
"""

import msgspec

from pilothouse.machinery.causes import RETRY, TIMER, Cause, Trigger
from pilothouse.why.changes import CREATED, FAILED, NOTHING, PHASE, SPEC, is_fulfilled, summary
from pilothouse.why.details import details
from pilothouse.why.evidence import Document, Evidence, ObjectChange, Origin, Reference, newest_of_spec
from pilothouse.why.steps import FAULT, PROGRAM, TIME, UNKNOWN, USER, Step

_MOST_LINKS = 16
_MOST_BRANCHES = 3
_MOST_STEPS = 80
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

_FAULTS = frozenset({"kubelet", "node-lifecycle-controller"})
"""What these do without an event that led to it, they do because of something outside of the cluster's objects."""


_STATUS_DRIVEN = frozenset({"node-lifecycle-controller"})
"""These follow what an object's status says: nothing that they do is due to its spec."""


class _Candidate(msgspec.Struct):
    change: ObjectChange
    text: str
    weight: int


class Chain:
    """Follows changes back. One for each explanation: it bounds how much is described."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._steps = 0

    async def step(self, change: ObjectChange, *, text: str = "", seen: frozenset[int] = frozenset()) -> Step:
        """A change, and what led to it. ``text`` replaces what is said of the change itself."""
        self._steps += 1
        evidence = self._evidence
        described = summary(change, await evidence.before(change), await evidence.after(change))
        text = text or described.text
        reference = change.reference
        name = f"{evidence.kind_of(reference.resource)}/{reference.name}"
        origin = change.origin
        cause = origin.believed if origin is not None else None
        step = Step(
            text=f"{name} {text}",
            object=name,
            namespace=reference.namespace,
            resource_version=str(change.revision),
            time=change.time,
            by=act(origin, text),
            decision=cause.decision if cause is not None else "",
        )
        more = await details(evidence, change)
        step.table = list(more.table)
        if cause is not None and len(seen) < _MOST_LINKS and self._steps < _MOST_STEPS:
            seen |= {change.revision}
            # What a kubelet was told is no reason for the end of a container.
            own_fault = described.weight == FAILED and cause.component in _FAULTS
            for each in await self._reasons(change, None if own_fault else cause, more.further, seen):
                step.because.append(await self.step(each.change, text=each.text, seen=seen))
        if not step.because:
            step.root = root_of(origin)
        return step

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
            if cause is not None and led is not None and led.revision not in seen and led.revision < change.revision:
                found.setdefault((led.reference, led.revision), await self._weighed(led, cause))
        intent = await self._intent(change, cause) if cause is not None else None
        if intent is not None and intent.change.revision not in seen:
            found.setdefault((intent.change.reference, intent.change.revision), intent)
        ordered = sorted(found.values(), key=lambda each: (each.weight, each.change.revision), reverse=True)
        strong = [each for each in ordered if each.weight >= _BESIDES]
        return (strong or [each for each in ordered if each.weight > NOTHING][:1])[:_MOST_BRANCHES]

    async def _weighed(self, change: ObjectChange, cause: Cause) -> _Candidate:
        described = summary(change, await self._evidence.before(change), await self._evidence.after(change))
        if change.origin is not None and change.origin.subresource == "binding":
            return _Candidate(change, described.text, PHASE)
        made_by = change.origin.believed if change.origin is not None else None
        if made_by is not None and (made_by.component, made_by.key) == (cause.component, cause.key):
            # Its own doing: what it did before led to it, and that has the same reason.
            return _Candidate(change, described.text, min(described.weight, 5))
        return _Candidate(change, described.text, described.weight)

    async def _change_of(self, trigger: Trigger) -> ObjectChange | None:
        """The change that an event showed. An object that was in the first list was written some time before."""
        if trigger.type in (RETRY, TIMER) or not trigger.name:
            return None
        reference = Reference(trigger.resource, trigger.namespace, trigger.name)
        wanted = int(trigger.resource_version) if trigger.resource_version.isdecimal() else 0
        changes = await self._evidence.changes(reference)
        return next((each for each in reversed(changes) if each.revision == wanted), None)

    async def _intent(self, change: ObjectChange, cause: Cause) -> _Candidate | None:
        """The last change of the spec of the object that the component was working on, or its creation."""
        reference = key_reference(cause)
        if reference is None or cause.component in _STATUS_DRIVEN:
            return None
        changes = [each for each in await self._evidence.changes(reference) if each.revision < change.revision]
        if changes and await self._was_fulfilled(reference, changes[-1]):
            return None
        for each in reversed(newest_of_spec(self._evidence, changes)):
            before, after = await self._evidence.before(each), await self._evidence.after(each)
            described = summary(each, before, after)
            if (
                each.type == "ADDED"
                or described.weight >= SPEC
                or described.weight == FAILED
                or _marks_deletion(before, after)
            ):
                return _Candidate(each, described.text, described.weight)
        return None

    async def _was_fulfilled(self, reference: Reference, last: ObjectChange) -> bool:
        document = await self._evidence.after(last)
        return document is not None and is_fulfilled(reference.resource, document)


def _marks_deletion(before: Document | None, after: Document | None) -> bool:
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


def who(origin: Origin | None) -> str:
    """Who made a change, as people say it: ``jane with kubectl scale``, ``replicaset-controller``."""
    if origin is None:
        return ""
    if origin.believed is not None:
        return _component(origin.believed.component, origin.user)
    program = origin.user_agent.partition("/")[0].rpartition("/")[2]
    manager = origin.field_manager
    if program == "kubectl" and manager.startswith("kubectl-"):
        tool = f"kubectl {manager.removeprefix('kubectl-').replace('client-side-apply', 'apply')}"
    elif program == "kubectl" and origin.subresource == "eviction":
        tool = "kubectl drain (an eviction)"
    elif program == "kubectl" and origin.verb.startswith("delete"):
        tool = "kubectl delete"
    else:
        tool = program or manager
    if program == "kubectl" and origin.subresource == "scale":
        tool = "kubectl scale"
    elif origin.subresource and "eviction" not in tool and origin.subresource != "status":
        tool = f"{tool} ({origin.subresource})" if tool else f"the subresource {origin.subresource}"
    claims = f", who claims to be {origin.cause.component}" if origin.cause is not None else ""
    return (f"{origin.user} with {tool}" if tool else origin.user) + claims


def _component(name: str, user: str) -> str:
    """A component of Kubernetes is known by its name, a program of somebody else by its user as well."""
    if user.startswith("system:serviceaccount:") and not user.startswith("system:serviceaccount:kube-system:"):
        return f"{name} as {user}"
    return name


_BY_CHANGE = {
    "spec.unschedulable added (true)": "cordon or drain",
    "spec.unschedulable removed": "uncordon",
    "spec.paused added (true)": "rollout pause",
    "spec.paused removed": "rollout resume",
    "kubectl.kubernetes.io/restartedAt": "rollout restart",
    "spec.taints": "taint",
}
"""What the commands change that give no name of their own as field manager (those of older releases)."""


def act(origin: Origin | None, text: str) -> str:
    """``who``, with the command of kubectl that makes a change like this one."""
    found = who(origin)
    if found.endswith(" with kubectl"):
        for part, command in _BY_CHANGE.items():
            if part in text:
                return f"{found} {command}"
    return found


def root_of(origin: Origin | None) -> str:
    """What kind of beginning a change is that nothing known led to."""
    if origin is None:
        return UNKNOWN
    cause = origin.believed
    if cause is None:
        return PROGRAM if origin.user.startswith("system:") else USER
    if cause.component in _FAULTS:
        return FAULT
    if any(each.type == TIMER for each in cause.triggers):
        return TIME
    return UNKNOWN
