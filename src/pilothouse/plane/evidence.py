"""``StoreEvidence``: what a store has, as evidence for ``pilothouse.why``. It needs no server and no running loop, so a
failed simulation can be explained after its end."""

import datetime
import math
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.api.core import Event
from pilothouse.api.kinds import Kind
from pilothouse.apiserver.resources import ResourceTable, storage_prefix
from pilothouse.machinery.times import format_micro_time
from pilothouse.storage import Change, Compacted, FutureRevision, Store
from pilothouse.why.evidence import MAX_OBJECTS, Document, ObjectChange, Reference, change_at
from pilothouse.why.trust import trusted_cause

_event = msgspec.json.Decoder(Event).decode


class StoreEvidence:
    """``Evidence`` from the store of an API server."""

    def __init__(self, store: Store, table: ResourceTable, earlier: Sequence[Change] = ()) -> None:
        """``earlier`` are changes that may be older than the history of the store, oldest first."""
        self._store = store
        self._earlier = earlier
        self._kinds: dict[str, str] = {}
        self._by_kind: dict[tuple[str, str], str] = {}
        self.namespaced: list[str] = []
        for info in table:
            resource = f"{info.resource}.{info.group}" if info.group else info.resource
            if info.namespaced and "list" in info.verbs and resource not in self._kinds:
                self.namespaced.append(resource)
            self._kinds.setdefault(resource, info.kind.lower())
            self._by_kind.setdefault((info.group, info.kind), resource)
        self.unseen: dict[str, None] = {}
        self._by_revision: dict[int, Change] = {}

    def resource_of(self, api_version: str, kind: str) -> str:
        """The group resource that serves a kind; empty if none does."""
        return self._by_kind.get((api_version.rpartition("/")[0], kind), "")

    def kind_of(self, resource: str) -> str:
        """The kind of a group resource, in lower case."""
        return self._kinds.get(resource, resource)

    @property
    def is_complete(self) -> bool:
        """Always true: the store has every change since its compaction."""
        return True

    @property
    def has_writes_of_users(self) -> bool:
        """Always true."""
        return True

    @property
    def has_objects(self) -> bool:
        """Always true."""
        return True

    async def created_for(self, reference: Reference) -> list[Reference]:
        """None: objects are found by their owner references."""
        return []

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """All changes of the object that are known, oldest first."""
        key = _key(reference)
        return [self.described(change) for change in self._changes(_prefix(reference.resource)) if change.key == key]

    async def changes_of_all(self, resource: str, namespace: str) -> list[ObjectChange]:
        """All changes of a resource in a namespace that are known, oldest first."""
        below = _prefix(resource) + (f"{namespace}/" if namespace else "")
        changes = self._changes(_prefix(resource))
        return [self.described(change) for change in changes if change.key.startswith(below)]

    async def changes_between(self, resource: str, since: int, before: int) -> list[ObjectChange]:
        """The changes of a resource between two revisions, oldest first."""
        changes = self._changes(_prefix(resource))
        return [self.described(change) for change in changes if since < change.revision < before]

    def _changes(self, prefix: str) -> list[Change]:
        changes = self._store.changes(prefix)
        oldest = changes[0].revision if changes else math.inf
        earlier = [change for change in self._earlier if change.key.startswith(prefix) and change.revision < oldest]
        return [*earlier, *changes]

    async def change_at(self, reference: Reference, resource_version: str) -> ObjectChange | None:
        """The change that wrote a version of the object; None if it is unknown."""
        return change_at(await self.changes(reference), resource_version)

    def described(self, change: Change) -> ObjectChange:
        """A change of the store."""
        self._by_revision[change.revision] = change
        group, resource, *place = change.key.split("/")
        metadata = msgspec.json.decode(change.value).get("metadata") or {}
        time = ""
        if change.origin is not None:
            time = format_micro_time(datetime.datetime.fromtimestamp(change.origin.time, datetime.UTC))
        return ObjectChange(
            Reference(f"{resource}.{group}" if group else resource, place[0] if len(place) > 1 else "", place[-1]),
            change.type,
            change.revision,
            metadata.get("uid") or "",
            time,
            change.origin,
            trusted_cause(change.origin),
            str(change.revision),
        )

    async def before(self, change: ObjectChange) -> Document | None:
        """The object before a change; None if it did not exist or is unknown."""
        stored = self._by_revision.get(change.revision)
        return None if stored is None or stored.old_value is None else msgspec.json.decode(stored.old_value)

    async def after(self, change: ObjectChange) -> Document | None:
        """The object after a change; of a deletion, its last state."""
        stored = self._by_revision.get(change.revision)
        return None if stored is None else msgspec.json.decode(stored.value)

    async def get(self, reference: Reference) -> Document | None:
        """The current object; None if it does not exist."""
        record = self._store.get(_key(reference))
        return None if record is None else msgspec.json.decode(record.value)

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """The first ``MAX_OBJECTS`` of a namespace, or of the cluster, now or as they were at a revision."""
        prefix = _prefix(resource) + (f"{namespace}/" if namespace else "")
        try:
            page = self._store.list(prefix, limit=MAX_OBJECTS, revision=revision)
        except (Compacted, FutureRevision):
            self.unseen["states older than the history of the store"] = None
            return []
        return [msgspec.json.decode(record.value) for record in page.records]

    def is_unreadable(self, reference: Reference) -> bool:
        """Always false: the store has every object."""
        return False

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """The events about an object, oldest first."""
        kind = self.kind_of(reference.resource)
        prefix = f"/events/{reference.namespace}/" if reference.namespace else "/events/"
        events = [_event(record.value) for record in self._store.list(prefix).records]
        about = [
            event
            for event in events
            if (event.involved_object.kind.lower(), event.involved_object.name) == (kind, reference.name)
            and uid in ("", event.involved_object.uid)
        ]
        return sorted(about, key=lambda event: str(event.last_timestamp or event.first_timestamp or ""))


def reference(kind: Kind[Any], namespace: str, name: str) -> Reference:
    """An object of that kind."""
    return Reference(kind.group_resource, namespace if kind.namespaced else "", name)


def _prefix(resource: str) -> str:
    plural, _dot, group = resource.partition(".")
    return storage_prefix(group, plural)


def _key(reference: Reference) -> str:
    namespace = f"{reference.namespace}/" if reference.namespace else ""
    return f"{_prefix(reference.resource)}{namespace}{reference.name}"
