"""Which events describe the cluster as it is: an event outlives its reason, its object, and the revision of its object.

``CurrentEvents`` reads what is there now once, for one explanation; ``explain`` makes lines of the events it returns.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pilothouse.api.core import EVENTS, Event, ObjectReference
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, Object, ObjectMeta, View
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import NotFound
from pilothouse.machinery.owners import controller_of

_MAX_EVENTS = 200
_MAX_OWNERS = 5
_FAILED_SCHEDULING = "FailedScheduling"
_FAILED_CREATE = "FailedCreate"
_CLAIM = "PersistentVolumeClaim"
_UNBOUND = frozenset({"ExternalProvisioning", "FailedBinding"})
"""Why a claim is not bound, in events that are no warnings (v1.36 ``pkg/controller/volume/events``)."""
_REVISION = "deployment.kubernetes.io/revision"
_NO_ATTEMPT = ("", "")
_LONG_AGO = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class _ClaimSource(View, frozen=True):
    claim_name: str = ""


class _Volume(View, frozen=True):
    name: str = ""
    persistent_volume_claim: _ClaimSource | None = None
    ephemeral: msgspec.Raw | None = None


class _PodSpec(View, frozen=True):
    node_name: str = ""
    volumes: tuple[_Volume, ...] = ()


class _ContainerStatus(View, frozen=True):
    restart_count: int = 0


class _PodStatus(View, frozen=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _Pod(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class _ClaimStatus(View, frozen=True):
    phase: str = ""


class _Claim(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _ClaimStatus = _ClaimStatus()


class _ReplicaSetSpec(View, frozen=True):
    replicas: int = 1


class _ReplicaSetStatus(View, frozen=True):
    replicas: int = 0


class _ReplicaSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: _ReplicaSetSpec = _ReplicaSetSpec()
    status: _ReplicaSetStatus = _ReplicaSetStatus()


class _DeploymentStatus(View, frozen=True):
    observed_generation: int = 0


class _Deployment(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _DeploymentStatus = _DeploymentStatus()


_PODS = Kind("", "v1", "pods", "Pod", True, _Pod)
_CLAIMS = Kind("", "v1", "persistentvolumeclaims", _CLAIM, True, _Claim)
_VIEWS: dict[tuple[str, str], type[_ReplicaSet | _Deployment]] = {
    ("apps/v1", "ReplicaSet"): _ReplicaSet,
    ("apps/v1", "Deployment"): _Deployment,
}
"""The kinds of which more than the metadata is read."""

_Current = _Pod | _Claim | _ReplicaSet | _Deployment | Object


class CurrentEvents:
    """The events of one namespace that explain an object. Everything is read once: create a new one for each state of
    the cluster."""

    def __init__(self, client: Client, mapper: RestMapper, namespace: str) -> None:
        self._client = client
        self._mapper = mapper
        self._namespace = namespace
        self._events: list[Event] | None = None
        self._pods: dict[str, _Pod] | None = None
        self._claims: dict[str, _Claim] | None = None
        self._objects: dict[tuple[str, str, str], _Current | None] = {}

    async def about(self, target: ObjectReference) -> list[Event]:
        """The warnings about an object and its dependents, the newest first, after the events that say why the claims
        of its pods are not bound: the scheduler only reports that the pods wait for them."""
        events = await self._listed_events()
        newest = _newest(events)
        of_claims = {name: event for (kind, name), event in newest.items() if kind == _CLAIM and _says_unbound(event)}
        warnings = [event for event in events if event.type == "Warning" and _is_last_attempt(event, newest)]
        causes = await self._unbound(of_claims, target) if of_claims else []
        related = [event for event in warnings[:_MAX_EVENTS] if await self._is_about(event, target)]
        return causes + [event for event in related if event not in causes]

    async def _is_about(self, event: Event, target: ObjectReference) -> bool:
        if not target.uid and target.name in event.message:
            return True
        return await self._leads_to(event.involved_object, target, event)

    async def _leads_to(self, about: ObjectReference, target: ObjectReference, event: Event | None = None) -> bool:
        """Whether an object is the target or one of its dependents that still matter. ``event`` is about the object."""
        for _owner in range(_MAX_OWNERS):
            if (about.kind, about.name) == (target.kind, target.name):
                # Events of nodes and the like have no meaningful uid, but their names are unique.
                return not target.uid or not self._namespace or about.uid in ("", target.uid)
            current = await self._get(about)
            if current is None or about.uid not in ("", current.metadata.uid):
                return False
            if event is not None and _is_over(event, current):
                return False
            owner = controller_of(current.metadata)
            if owner is None:
                return False
            about = ObjectReference(api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid)
            if isinstance(current, _ReplicaSet) and _is_past(current, await self._get(about)):
                return False
            event = None
        return False

    async def _unbound(self, of_claims: dict[str, Event], target: ObjectReference) -> list[Event]:
        """The events about the target, if it is a claim, or about the claims of pods that are not scheduled."""
        names = {target.name: None} if target.kind == _CLAIM and target.name in of_claims else {}
        for pod in (await self._listed_pods()).values():
            waits_for = [name for name in _claim_names(pod) if name in of_claims]
            if not pod.spec.node_name and waits_for and await self._leads_to(_reference(pod), target):
                names.update(dict.fromkeys(waits_for))
        claims = await self._listed_claims() if names else {}
        return [of_claims[name] for name in names if name in claims and _is_unbound(of_claims[name], claims[name])]

    async def _get(self, about: ObjectReference) -> _Current | None:
        if (about.api_version, about.kind) == ("v1", "Pod"):
            return (await self._listed_pods()).get(about.name)
        key = (about.api_version, about.kind, about.name)
        if key not in self._objects:
            self._objects[key] = await self._read(about)
        return self._objects[key]

    async def _read(self, about: ObjectReference) -> _Current | None:
        kind = await self._mapper.kind_for(about.api_version, about.kind)
        if kind is None:
            return None
        view: type[_Current] = _VIEWS.get((about.api_version, about.kind), Object)
        try:
            return await self._client.get(kind.read_as(view), about.name, self._namespace if kind.namespaced else "")
        except NotFound:
            return None

    async def _listed_events(self) -> list[Event]:
        """The newest first."""
        if self._events is None:
            events = (await self._client.list(EVENTS, self._namespace)).items
            self._events = sorted(events, key=last_seen, reverse=True)
        return self._events

    async def _listed_pods(self) -> dict[str, _Pod]:
        if self._pods is None:
            pods = (await self._client.list(_PODS, self._namespace)).items if self._namespace else ()
            self._pods = {pod.metadata.name: pod for pod in pods}
        return self._pods

    async def _listed_claims(self) -> dict[str, _Claim]:
        if self._claims is None:
            claims = (await self._client.list(_CLAIMS, self._namespace)).items
            self._claims = {claim.metadata.name: claim for claim in claims}
        return self._claims


def last_seen(event: Event) -> tuple[datetime.datetime, int]:
    """When an event was last observed. Times are whole seconds: those of one second are in the order in which they were
    written."""
    version = event.metadata.resource_version
    return _last_time(event), int(version) if version.isdecimal() else 0


def _last_time(event: Event) -> datetime.datetime:
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or _LONG_AGO


def _newest(newest_first: Iterable[Event]) -> dict[tuple[str, str], Event]:
    """The last of the events that repeat an attempt, by its object."""
    last: dict[tuple[str, str], Event] = {}
    for event in newest_first:
        last.setdefault(_attempt(event), event)
    return last


def _attempt(event: Event) -> tuple[str, str]:
    """Kind and name of the claim to be bound, or of the pod to be scheduled, that an event is about: the results of
    earlier attempts are past. Empty for other events."""
    about = event.involved_object
    is_attempt = about.kind == _CLAIM or event.reason == _FAILED_SCHEDULING
    return (about.kind, about.name) if is_attempt else _NO_ATTEMPT


def _is_last_attempt(event: Event, last: Mapping[tuple[str, str], Event]) -> bool:
    return _attempt(event) == _NO_ATTEMPT or last[_attempt(event)] is event


def _says_unbound(event: Event) -> bool:
    return event.type == "Warning" or event.reason in _UNBOUND


def _claim_names(pod: _Pod) -> Iterator[str]:
    """The claims of a pod, also those of its ephemeral volumes."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield f"{pod.metadata.name}-{volume.name}"


def _is_unbound(event: Event, claim: _Claim) -> bool:
    return claim.status.phase != "Bound" and event.involved_object.uid in ("", claim.metadata.uid)


def _reference(pod: _Pod) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)


def _is_over(event: Event, about: _Current) -> bool:
    """Whether the reason of a warning about this object no longer exists: the deletion of the object was requested
    later, its pods have been created, it has been scheduled, or it is ready."""
    deletion = about.metadata.deletion_timestamp
    if deletion is not None:
        grace = datetime.timedelta(seconds=about.metadata.deletion_grace_period_seconds or 0)
        return _last_time(event) <= deletion - grace
    if isinstance(about, _ReplicaSet):
        return event.reason == _FAILED_CREATE and about.status.replicas >= about.spec.replicas
    if isinstance(about, _Pod):
        return _has_started(about) or (event.reason == _FAILED_SCHEDULING and bool(about.spec.node_name))
    return False


def _has_started(pod: _Pod) -> bool:
    """Whether a pod is ready, and not between the failures of its containers."""
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
    return ready and not any(container.restart_count for container in pod.status.container_statuses)


def _is_past(replica_set: _ReplicaSet, owner: _Current | None) -> bool:
    """Whether a ReplicaSet is of an earlier template of its Deployment, or scaled to zero: why its pods failed does not
    matter any more. Before the controller has observed the template, no ReplicaSet has it."""
    if not replica_set.spec.replicas:
        return True
    if not isinstance(owner, _Deployment):
        return False
    if owner.status.observed_generation < owner.metadata.generation:
        return True
    revision, own = (metadata.annotations.get(_REVISION, "") for metadata in (owner.metadata, replica_set.metadata))
    return revision != own
