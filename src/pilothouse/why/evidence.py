"""What is known of the past: the changes of objects, who made them and why, and objects as they were.

pilothouse's API server answers ``/debug/history/changes``. Other API servers keep earlier versions for some minutes and
tell nothing of their origin.
"""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import msgspec

from pilothouse.api.core import EVENTS, Event
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Gone, NotFound
from pilothouse.client.history import RecordedChange, recorded_changes
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.machinery.causes import Cause, Origin
from pilothouse.why.trust import believed_cause

Document = dict[str, Any]

NO_ORIGINS = "who changed what: this API server keeps no record of it"
"""What ``unseen`` says in front of another API server."""
_TOO_LARGE = 504
_MOST_CHANGES = 2000
"""Of one object."""
_MOST_BETWEEN = 250
_MOST_READ = 200
"""Of so many changes of an object its states before and after are read."""
MOST_OBJECTS = 5000
"""So many objects of a kind are looked at."""


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
    """That of the origin, if it is trusted."""
    resource_version: str = ""
    """As the object had it then; empty if that is not known. ``revision`` only says what came before what."""
    inferred: bool = False
    """The cause follows from who wrote: no decision was recorded."""
    sent: Document = {}
    """The fields that the request named, where the object before or after it may not be known."""


class Evidence(Protocol):
    """What an explanation rests on. What can't be read is named in ``unseen``, and is empty."""

    unseen: dict[str, None]
    """What could not be looked at, each once."""

    def resource_of(self, api_version: str, kind: str) -> str:
        """The group resource that serves a kind; empty if none does."""
        ...

    def kind_of(self, resource: str) -> str:
        """The kind of a group resource, in lower case."""
        ...

    @property
    def namespaced(self) -> list[str]:
        """All group resources of namespaces that can be listed."""
        ...

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """All changes of the object that are known, oldest first."""
        ...

    async def changes_of_all(self, resource: str, namespace: str) -> list[ObjectChange]:
        """All changes of a resource in a namespace that are known, oldest first."""
        ...

    async def changes_between(self, resource: str, since: int, before: int) -> list[ObjectChange]:
        """The newest changes of a resource between two revisions, oldest first; none where that is not known."""
        ...

    async def change_at(self, reference: Reference, resource_version: str) -> ObjectChange | None:
        """The change that made a version of the object; None if it is not known."""
        ...

    async def before(self, change: ObjectChange) -> Document | None:
        """The object before a change; None if it was not there, or is not known."""
        ...

    async def after(self, change: ObjectChange) -> Document | None:
        """The object after a change; of a deletion, its last state."""
        ...

    async def get(self, reference: Reference) -> Document | None:
        """The object now; None if it is not there."""
        ...

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """The first ``MOST_OBJECTS`` of a namespace, or of the cluster, now or as they were at a revision."""
        ...

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """The events about an object, oldest first."""
        ...


def change_at(changes: Sequence[ObjectChange], resource_version: str) -> ObjectChange | None:
    """The change of these that made a version."""
    return next((change for change in reversed(changes) if change.resource_version == resource_version), None)


def newest_of_spec(evidence: Evidence, changes: Sequence[ObjectChange]) -> list[ObjectChange]:
    """The newest of the changes that may be of more than the status, oldest first: what each of them changed takes two
    reads. What is left out is named in ``unseen``."""
    found = [change for change in changes if change.origin is None or change.origin.subresource != "status"]
    if len(found) > _MOST_READ:
        evidence.unseen[f"what was changed before the last {_MOST_READ} changes of an object"] = None
    return found[-_MOST_READ:]


class ServerEvidence:
    """``Evidence`` from an API server. It remembers what it has read: make a new one for each explanation."""

    def __init__(
        self, client: Client, discovery: Discovery, *, trusted_users: Collection[str] = (), at: int = 0
    ) -> None:
        """Causes are trusted if they are from Kubernetes' components or ``trusted_users``. With ``at`` all is as it was
        at that resourceVersion, and of what came later nothing is known."""
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
        self._lists: dict[tuple[str, str, int], list[Document]] = {}
        self._events: dict[str, Sequence[Event]] = {}
        self._tells_origins = True
        self._gone_up_to = 0
        self._unknown_from = 2**63

    def resource_of(self, api_version: str, kind: str) -> str:
        """The group resource that serves a kind; empty if none does."""
        return self._by_kind.get((api_version.rpartition("/")[0], kind), "")

    def kind_of(self, resource: str) -> str:
        """The kind of a group resource, in lower case."""
        found = self._resources.get(resource)
        return found.kind.lower() if found is not None else resource.partition(".")[0].removesuffix("s")

    @property
    def namespaced(self) -> list[str]:
        """All group resources of namespaces that can be listed."""
        return [name for name, each in self._resources.items() if each.namespaced and each.supports("list")]

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """All changes of the object that are known, oldest first."""
        return await self._read_changes(reference.resource, reference.namespace, reference.name)

    async def changes_of_all(self, resource: str, namespace: str, *, since: int = 0) -> list[ObjectChange]:
        """All changes of a resource in a namespace that are known, oldest first; those after a resourceVersion."""
        if since:
            asked = self._tells_origins and resource in self._resources
            return await self._ask_changes(resource, namespace, "", since) if asked else []
        return await self._read_changes(resource, namespace, "")

    async def _read_changes(self, resource: str, namespace: str, name: str) -> list[ObjectChange]:
        key = (resource, namespace, name)
        if key not in self._changes:
            # The names of resources come out of causes, which hold what a client claims.
            asked = self._tells_origins and resource in self._resources
            self._changes[key] = await self._ask_changes(*key) if asked else []
        return self._changes[key]

    async def _ask_changes(self, resource: str, namespace: str, name: str, since: int = 0) -> list[ObjectChange]:
        plural, _dot, group = resource.partition(".")
        most = _MOST_CHANGES if name else MOST_OBJECTS
        try:
            found = await recorded_changes(self._client, group, plural, namespace, name, most=most, since=since)
        except NotFound:
            self._tells_origins = False
            self.unseen[NO_ORIGINS] = None
            return []
        except ApiError as error:
            self._tells_origins = False
            self.unseen[f"who changed what: {error}"] = None
            return []
        return [self._change(resource, each) for each in found if not 0 < self._at < int(each.resource_version)]

    def _change(self, resource: str, recorded: RecordedChange) -> ObjectChange:
        return ObjectChange(
            Reference(resource, recorded.namespace, recorded.name),
            recorded.type,
            int(recorded.resource_version),
            recorded.uid,
            recorded.time,
            recorded.origin,
            believed_cause(recorded.origin, self._trusted_users),
            recorded.resource_version,
        )

    async def changes_between(self, resource: str, since: int, before: int) -> list[ObjectChange]:
        """The newest changes of a resource between two revisions, oldest first; none where that is not known."""
        if not self._tells_origins or resource not in self._resources:
            return []
        plural, _dot, group = resource.partition(".")
        before = min(before, self._at + 1) if self._at else before
        try:
            found = await recorded_changes(
                self._client, group, plural, most=_MOST_BETWEEN, since=max(since, 0), before=before
            )
        except ApiError as error:
            self.unseen[f"who changed {resource}: {error}"] = None
            return []
        return [self._change(resource, each) for each in found]

    async def change_at(self, reference: Reference, resource_version: str) -> ObjectChange | None:
        """The change that made a version of the object; None if it is not known."""
        return change_at(await self.changes(reference), resource_version)

    async def before(self, change: ObjectChange) -> Document | None:
        """The object before a change; None if it was not there, or is not known."""
        if change.type == "ADDED":
            return None
        return await self.object_at(change.reference, change.revision - 1)

    async def after(self, change: ObjectChange) -> Document | None:
        """The object after a change; of a deletion, its last state."""
        revision = change.revision - 1 if change.type == "DELETED" else change.revision
        return await self.object_at(change.reference, revision)

    async def object_at(self, reference: Reference, revision: int) -> Document | None:
        """The object as it was at a resourceVersion; None if it was not there, or the API server does not say."""
        key = (reference, revision)
        if key not in self._objects:
            self._objects[key] = await self._ask_object(reference, revision)
        return self._objects[key]

    async def _ask_object(self, reference: Reference, revision: int) -> Document | None:
        resource = self._resources.get(reference.resource)
        if resource is None or not self._gone_up_to < revision < self._unknown_from:
            return None
        try:
            found = await self._client.list(
                resource.as_kind().raw,
                reference.namespace,
                field_selector=f"metadata.name={reference.name}",
                resource_version=str(revision),
                resource_version_match="Exact",
            )
        except Gone:
            self._gone_up_to = revision
            self.unseen["states older than the API server's history"] = None
            return None
        except ApiError as error:
            if error.code == _TOO_LARGE:  # it has waited some seconds for that version to come
                self._unknown_from = revision
                self.unseen["states of versions that this API server has not reached"] = None
                return None
            self.unseen[f"earlier states of {reference.resource}: {error}"] = None
            return None
        return msgspec.json.decode(found.items[0]) if found.items else None

    async def get(self, reference: Reference) -> Document | None:
        """The object now; None if it is not there."""
        resource = self._resources.get(reference.resource)
        if resource is None:
            return None
        if self._at:
            return await self.object_at(reference, self._at)
        try:
            raw = await self._client.get(resource.as_kind().raw, reference.name, reference.namespace)
        except NotFound:
            return None
        except ApiError as error:
            self.unseen[f"{reference.resource} {reference.name}: {error}"] = None
            return None
        found: Document = msgspec.json.decode(raw)
        return found

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """The first ``MOST_OBJECTS`` of a namespace, or of the cluster, now or as they were at a revision."""
        key = (resource, namespace, revision or self._at)
        if key not in self._lists:
            self._lists[key] = await self._ask_list(*key)
        return self._lists[key]

    async def _ask_list(self, resource: str, namespace: str, revision: int) -> list[Document]:
        served = self._resources.get(resource)
        if served is None:
            return []
        try:
            found = await self._client.list(
                served.as_kind().raw,
                namespace if served.namespaced else "",
                limit=MOST_OBJECTS,
                resource_version=str(revision) if revision else "",
                resource_version_match="Exact" if revision else "",
            )
        except Gone:
            self.unseen["states older than the API server's history"] = None
            return []
        except ApiError as error:
            self.unseen[f"{resource}: {error}"] = None
            return []
        if found.metadata.continue_:
            self.unseen[f"{resource} beyond the first {MOST_OBJECTS}"] = None
        return [msgspec.json.decode(item) for item in found.items]

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """The events about an object, oldest first."""
        kind = self.kind_of(reference.resource)
        about = [
            each
            for each in await self.events_of_namespace(reference.namespace)
            if each.involved_object.kind.lower() == kind
            and each.involved_object.name == reference.name
            and (not uid or each.involved_object.uid in ("", uid))
        ]
        return sorted(about, key=_time_of)

    async def events_of_namespace(self, namespace: str) -> Sequence[Event]:
        """All events of a namespace; those of the cluster's objects, if the name is empty."""
        if namespace not in self._events:
            try:
                found = await self._client.list(
                    EVENTS,
                    namespace,
                    limit=MOST_OBJECTS,
                    resource_version=str(self._at or ""),
                    resource_version_match="Exact" if self._at else "",
                )
                self._events[namespace] = found.items
                if found.metadata.continue_:
                    self.unseen[f"events beyond the first {MOST_OBJECTS}"] = None
            except ApiError as error:
                self.unseen[f"events: {error}"] = None
                self._events[namespace] = ()
        return self._events[namespace]


def _time_of(event: Event) -> str:
    last = event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp
    return last.isoformat() if last is not None else ""
