"""Reads the history of objects: their changes with origin and cause, and their earlier versions.

pilothouse's API server serves both. Other API servers only have versions of the last minutes, without their origin.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from pilothouse.api.core import EVENTS, Event
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Gone, NotFound
from pilothouse.client.history import RecordedChange, recorded_changes
from pilothouse.client.requests import invalid_name
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.machinery.causes import Cause, Origin
from pilothouse.why.trust import trusted_cause

Document = dict[str, Any]

NO_ORIGINS = "who changed what: this API server keeps no record of it"
"""The entry of ``unseen`` for API servers without ``/debug/history/changes``."""
OTHER_SERVERS = "who made some of the changes: they are recorded by the API server that received the request"
"""The entry of ``unseen`` for changes without an origin: another API server on the same etcd wrote them."""
_TIMEOUT = 504
_MAX_CHANGES = 2000
"""Changes read of one object."""
_MAX_BETWEEN = 250
_MAX_READ = 200
"""Changes of an object of which the versions before and after are read."""
MAX_OBJECTS = 5000
"""Objects read of one resource."""


class Reference(msgspec.Struct, frozen=True):
    """An object by its name. ``resource`` is a group resource: ``replicasets.apps``."""

    resource: str
    namespace: str
    name: str

    @property
    def plural(self) -> str:
        """``replicasets``."""
        return self.resource.partition(".")[0]

    @property
    def group(self) -> str:
        """``apps``."""
        return self.resource.partition(".")[2]


class ObjectChange(msgspec.Struct, frozen=True):
    """One change of one object."""

    reference: Reference
    type: str
    revision: int
    uid: str = ""
    time: str = ""
    origin: Origin | None = None
    cause: Cause | None = None
    """The cause of the origin, if its user is trusted (``trusted_cause``)."""
    resource_version: str = ""
    """The object's resourceVersion after the change; empty if unknown. ``revision`` only orders changes."""
    inferred: bool = False
    """Whether the cause is derived from the user and User-Agent, since no decision was recorded."""
    sent: Document = {}
    """The fields in the request body, for changes whose objects before and after are not available."""


class Evidence(Protocol):
    """The data of an explanation. Reads that fail return nothing and are listed in ``unseen``."""

    unseen: dict[str, None]
    """What could not be read, each once."""

    def resource_of(self, api_version: str, kind: str) -> str:
        """The group resource that serves a kind; empty if none does."""
        ...

    def kind_of(self, resource: str) -> str:
        """The kind of a group resource, in lower case."""
        ...

    @property
    def namespaced(self) -> list[str]:
        """All namespaced group resources that can be listed."""
        ...

    @property
    def is_complete(self) -> bool:
        """Whether every change is recorded, as far back as the history goes. False if there is no history."""
        ...

    @property
    def has_writes_of_users(self) -> bool:
        """Whether writes of users are recorded, too. Decision logs only have those of pilothouse's programs."""
        ...

    @property
    def has_objects(self) -> bool:
        """Whether objects can be read. Without a cluster only their recorded changes are known."""
        ...

    async def created_for(self, reference: Reference) -> list[Reference]:
        """The objects whose creation is recorded as one for this object, the newest first, if ``has_objects`` is
        false: the pods of a ReplicaSet."""
        ...

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """All recorded changes of the object, oldest first."""
        ...

    async def changes_of_all(self, resource: str, namespace: str) -> list[ObjectChange]:
        """All recorded changes of a resource in a namespace, oldest first."""
        ...

    async def changes_between(self, resource: str, since: int, before: int) -> list[ObjectChange]:
        """The newest changes of a resource between two revisions, oldest first; empty if not recorded."""
        ...

    async def change_at(self, reference: Reference, resource_version: str) -> ObjectChange | None:
        """The change that wrote a version of the object; None if it is not recorded."""
        ...

    async def before(self, change: ObjectChange) -> Document | None:
        """The object before a change; None if it did not exist or that version is not available."""
        ...

    async def after(self, change: ObjectChange) -> Document | None:
        """The object after a change; for a deletion, its last state."""
        ...

    async def get(self, reference: Reference) -> Document | None:
        """The object now; None if it does not exist."""
        ...

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """The first ``MAX_OBJECTS`` of a namespace, or of the cluster, now or at a revision."""
        ...

    def is_unreadable(self, reference: Reference) -> bool:
        """Whether reading the object failed, for example because the user lacks the permission: it may exist. Without
        a name: whether listing the resource failed."""
        ...

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """The events that regard an object, oldest first."""
        ...


def change_at(changes: Sequence[ObjectChange], resource_version: str) -> ObjectChange | None:
    """The change that wrote a version; None if it is not among them."""
    return next((change for change in reversed(changes) if change.resource_version == resource_version), None)


def newest_spec_changes(evidence: Evidence, changes: Sequence[ObjectChange]) -> list[ObjectChange]:
    """The newest changes other than status updates, oldest first. At most ``_MAX_READ``, since each takes two reads;
    older ones are mentioned in ``unseen``."""
    spec_changes = [change for change in changes if change.origin is None or change.origin.subresource != "status"]
    if len(spec_changes) > _MAX_READ:
        evidence.unseen[f"what was changed before the last {_MAX_READ} changes of an object"] = None
    return spec_changes[-_MAX_READ:]


class ServerEvidence:
    """``Evidence`` from an API server. It caches all reads: create a new one for each explanation."""

    def __init__(
        self, client: Client, discovery: Discovery, *, trusted_users: Collection[str] = (), at: int = 0
    ) -> None:
        """Causes are trusted if written by Kubernetes' components or ``trusted_users``. With ``at`` everything is read
        as of that resourceVersion."""
        self._client = client
        self._at = at
        self._trusted_users = frozenset(trusted_users)
        self._resources: dict[str, Resource] = {}
        self._by_kind: dict[tuple[str, str], str] = {}
        for resource in discovery.preferred_resources():
            self._resources.setdefault(resource.group_resource, resource)
        for resource in discovery.resources():
            self._by_kind.setdefault((resource.group, resource.kind), resource.group_resource)
        self.unseen: dict[str, None] = {}
        self._changes: dict[tuple[str, str, str], list[ObjectChange]] = {}
        self._objects: dict[tuple[Reference, int], Document | None] = {}
        self._live: dict[Reference, Document | None] = {}
        self._lists: dict[tuple[str, str, int], list[Document]] = {}
        self._unreadable: set[Reference] = set()
        self._events: dict[str, Sequence[Event]] = {}
        self._has_origins = True
        self._compacted_up_to: dict[str, int] = {}
        """By resource: the server may keep less history of those that change often, such as Leases."""
        self._unavailable_from = 2**63

    def resource_of(self, api_version: str, kind: str) -> str:
        """The group resource that serves a kind; empty if none does."""
        return self._by_kind.get((api_version.rpartition("/")[0], kind), "")

    def kind_of(self, resource: str) -> str:
        """The kind of a group resource, in lower case."""
        served = self._resources.get(resource)
        return served.kind.lower() if served is not None else resource.partition(".")[0].removesuffix("s")

    @property
    def namespaced(self) -> list[str]:
        """All namespaced group resources that can be listed."""
        return [name for name, resource in self._resources.items() if resource.namespaced and resource.supports("list")]

    @property
    def is_complete(self) -> bool:
        """Whether the API server records who changed what, as far as is known: False after a failed read."""
        return self._has_origins

    @property
    def has_writes_of_users(self) -> bool:
        """As ``is_complete``: the history has the writes of all clients."""
        return self._has_origins

    @property
    def has_objects(self) -> bool:
        """Always true."""
        return True

    async def created_for(self, reference: Reference) -> list[Reference]:
        """None: objects are found by their owner references."""
        return []

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """All recorded changes of the object, oldest first."""
        return await self._read_changes(reference.resource, reference.namespace, reference.name)

    async def changes_of_all(self, resource: str, namespace: str, *, since: int = 0) -> list[ObjectChange]:
        """All recorded changes of a resource in a namespace, oldest first; with ``since``, those after a
        resourceVersion."""
        if since:
            available = self._has_origins and resource in self._resources
            return await self._fetch_changes(resource, namespace, "", since) if available else []
        return await self._read_changes(resource, namespace, "")

    async def _read_changes(self, resource: str, namespace: str, name: str) -> list[ObjectChange]:
        key = (resource, namespace, name)
        if key not in self._changes:
            # Resource names may come from causes, which any client can send.
            available = self._has_origins and resource in self._resources
            self._changes[key] = await self._fetch_changes(*key) if available else []
        return self._changes[key]

    async def _fetch_changes(self, resource: str, namespace: str, name: str, since: int = 0) -> list[ObjectChange]:
        plural, _dot, group = resource.partition(".")
        limit = _MAX_CHANGES if name else MAX_OBJECTS
        try:
            recorded = await recorded_changes(self._client, group, plural, namespace, name, most=limit, since=since)
        except NotFound:
            self._has_origins = False
            self.unseen[NO_ORIGINS] = None
            return []
        except ApiError as error:
            self._has_origins = False
            self.unseen[f"who changed what: {error}"] = None
            return []
        return [
            self._change(resource, change) for change in recorded if not 0 < self._at < int(change.resource_version)
        ]

    def _change(self, resource: str, recorded: RecordedChange) -> ObjectChange:
        if recorded.origin is None:
            self.unseen[OTHER_SERVERS] = None
        return ObjectChange(
            Reference(resource, recorded.namespace, recorded.name),
            recorded.type,
            int(recorded.resource_version),
            recorded.uid,
            recorded.time,
            recorded.origin,
            trusted_cause(recorded.origin, self._trusted_users),
            recorded.resource_version,
        )

    async def changes_between(self, resource: str, since: int, before: int) -> list[ObjectChange]:
        """The newest changes of a resource between two revisions, oldest first; empty if not recorded."""
        if not self._has_origins or resource not in self._resources:
            return []
        plural, _dot, group = resource.partition(".")
        before = min(before, self._at + 1) if self._at else before
        try:
            recorded = await recorded_changes(
                self._client, group, plural, most=_MAX_BETWEEN, since=max(since, 0), before=before
            )
        except ApiError as error:
            self.unseen[f"who changed {resource}: {error}"] = None
            return []
        return [self._change(resource, change) for change in recorded]

    async def change_at(self, reference: Reference, resource_version: str) -> ObjectChange | None:
        """The change that wrote a version of the object; None if it is not recorded."""
        return change_at(await self.changes(reference), resource_version)

    async def before(self, change: ObjectChange) -> Document | None:
        """The object before a change; None if it did not exist or that version is not available."""
        if change.type == "ADDED":
            return None
        return await self.object_at(change.reference, change.revision - 1)

    async def after(self, change: ObjectChange) -> Document | None:
        """The object after a change; for a deletion, its last state."""
        revision = change.revision - 1 if change.type == "DELETED" else change.revision
        return await self.object_at(change.reference, revision)

    async def object_at(self, reference: Reference, revision: int) -> Document | None:
        """The object at a resourceVersion; None if it did not exist or the version is not available."""
        key = (reference, revision)
        if key not in self._objects:
            self._objects[key] = await self._fetch_object(reference, revision)
        return self._objects[key]

    async def _fetch_object(self, reference: Reference, revision: int) -> Document | None:
        resource = self._resources.get(reference.resource)
        oldest = self._compacted_up_to.get(reference.resource, 0)
        if resource is None or not oldest < revision < self._unavailable_from:
            return None
        try:
            result = await self._client.list(
                resource.as_kind().raw,
                reference.namespace,
                field_selector=f"metadata.name={reference.name}",
                resource_version=str(revision),
                resource_version_match="Exact",
            )
        except Gone:
            self._compacted_up_to[reference.resource] = revision
            self.unseen["states older than the API server's history"] = None
            return None
        except ApiError as error:
            if error.code == _TIMEOUT:  # timed out waiting for that version
                self._unavailable_from = revision
                self.unseen["states of versions that this API server has not reached"] = None
                return None
            self.unseen[f"earlier states of {reference.resource}: {error}"] = None
            if revision == self._at:
                self._unreadable.add(reference)
            return None
        return msgspec.json.decode(result.items[0]) if result.items else None

    async def get(self, reference: Reference) -> Document | None:
        """The object now; None if it does not exist."""
        resource = self._resources.get(reference.resource)
        if resource is None or not _may_exist(reference, resource):
            return None
        if self._at:
            return await self.object_at(reference, self._at)
        if reference not in self._live:
            self._live[reference] = await self._fetch_live(reference, resource)
        return self._live[reference]

    async def _fetch_live(self, reference: Reference, resource: Resource) -> Document | None:
        try:
            raw = await self._client.get(resource.as_kind().raw, reference.name, reference.namespace)
        except NotFound:
            return None
        except ApiError as error:
            self.unseen[f"{reference.resource} {reference.name}: {error}"] = None
            self._unreadable.add(reference)
            return None
        document: Document = msgspec.json.decode(raw)
        return document

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """The first ``MAX_OBJECTS`` of a namespace, or of the cluster, now or at a revision."""
        key = (resource, namespace, revision or self._at)
        if key not in self._lists:
            self._lists[key] = await self._fetch_list(*key)
        return self._lists[key]

    async def _fetch_list(self, resource: str, namespace: str, revision: int) -> list[Document]:
        served = self._resources.get(resource)
        if served is None:
            return []
        try:
            result = await self._client.list(
                served.as_kind().raw,
                namespace if served.namespaced else "",
                limit=MAX_OBJECTS,
                resource_version=str(revision) if revision else "",
                resource_version_match="Exact" if revision else "",
            )
        except Gone:
            self.unseen["states older than the API server's history"] = None
            if revision == self._at:
                self._unreadable.add(Reference(resource, namespace, ""))
            return []
        except ApiError as error:
            self.unseen[f"{resource}: {error}"] = None
            self._unreadable.add(Reference(resource, namespace, ""))
            return []
        if result.metadata.continue_:
            self.unseen[f"{resource} beyond the first {MAX_OBJECTS}"] = None
        return [msgspec.json.decode(item) for item in result.items]

    def is_unreadable(self, reference: Reference) -> bool:
        """Whether reading the object, or without a name listing the resource, failed."""
        return reference in self._unreadable

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """The events that regard an object, oldest first."""
        kind = self.kind_of(reference.resource)
        regarding = [
            event
            for event in await self.events_of_namespace(reference.namespace)
            if event.involved_object.kind.lower() == kind
            and event.involved_object.name == reference.name
            and (not uid or event.involved_object.uid in ("", uid))
        ]
        return sorted(regarding, key=_last_seen)

    async def events_of_namespace(self, namespace: str) -> Sequence[Event]:
        """All events of a namespace; with an empty name, those of cluster-scoped objects."""
        if namespace not in self._events:
            try:
                result = await self._client.list(
                    EVENTS,
                    namespace,
                    limit=MAX_OBJECTS,
                    resource_version=str(self._at or ""),
                    resource_version_match="Exact" if self._at else "",
                )
                self._events[namespace] = result.items
                if result.metadata.continue_:
                    self.unseen[f"events beyond the first {MAX_OBJECTS}"] = None
            except ApiError as error:
                self.unseen[f"events: {error}"] = None
                self._events[namespace] = ()
        return self._events[namespace]


def _may_exist(reference: Reference, resource: Resource) -> bool:
    """Whether an object can have this name and namespace, which may come from any field of another object."""
    if not reference.name or (resource.namespaced and not reference.namespace):
        return False
    return not invalid_name(reference.name) and not invalid_name(reference.namespace)


def mapping_of(document: Document | None, field: str) -> dict[str, Any]:
    """A field that is a mapping, such as the status; empty if there is none. In custom resources it may have any
    type."""
    value = (document or {}).get(field)
    return value if isinstance(value, dict) else {}


def conditions_of(document: Document | None) -> list[dict[str, Any]]:
    """The conditions in the status of an object, without what a custom resource may have in their place."""
    entries = mapping_of(document, "status").get("conditions")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _last_seen(event: Event) -> str:
    last = event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp
    return last.isoformat() if last is not None else ""
