"""``LogEvidence``: ``Evidence`` from decision and audit logs, events and current objects, for API servers that do not
record origins."""

import datetime
from collections.abc import Collection

import msgspec

from pilothouse.api.core import Event
from pilothouse.machinery.causes import Cause
from pilothouse.machinery.times import format_time
from pilothouse.why.chain import key_reference
from pilothouse.why.evidence import NO_ORIGINS, Document, ObjectChange, Reference, ServerEvidence
from pilothouse.why.logs.changes import SHIFT, Timeline, Write, build_timeline, deletes, join_records, version_before
from pilothouse.why.logs.documents import names_in, scaled_to, sent_fields, with_replicas, written_object
from pilothouse.why.logs.index import Located, LogIndex
from pilothouse.why.logs.inference import Reported, component_of, inferred_cause, reported_by
from pilothouse.why.logs.lines import AUDIT, DECISIONS, Bodies, Record, read_bodies
from pilothouse.why.logs.without_server import NoServer
from pilothouse.why.trust import trusted_cause

_EVENTS = "events"
_MAX_VERSIONS_TRIED = 3
_WITH_BODIES = frozenset({"Request", "RequestResponse"})


class LogEvidence:
    """``Evidence`` from logs and an API server. Create a new one for each explanation."""

    def __init__(
        self, server: ServerEvidence | NoServer, index: LogIndex, *, trusted_users: Collection[str] = ()
    ) -> None:
        self._server = server
        self._index = index
        self._trusted_users = frozenset(trusted_users)
        self.unseen = server.unseen
        self.unseen.update(index.unseen)
        self._timelines: dict[Reference, Timeline] = {}
        self._documents: dict[tuple[Reference, int], Document | None] = {}
        self._has_audit_log = AUDIT in index.kinds
        if not index.kinds:
            self.unseen["the logs: there are no writes in them"] = None
        if index.kinds == {AUDIT} and not index.levels & _WITH_BODIES:
            self.unseen["what writes changed: the audit log has the level Metadata, and no objects"] = None
        if index.kinds == {DECISIONS}:
            self.unseen["writes of users and of other programs: there is no audit log"] = None

    def resource_of(self, api_version: str, kind: str) -> str:
        """The group resource that serves a kind; empty if none does."""
        return self._server.resource_of(api_version, kind)

    def kind_of(self, resource: str) -> str:
        """The kind of a group resource, in lower case."""
        return self._server.kind_of(resource)

    @property
    def namespaced(self) -> list[str]:
        """All namespaced group resources that can be listed."""
        return self._server.namespaced

    @property
    def is_complete(self) -> bool:
        """Always false: an audit policy may leave out changes, and decision logs have those of some programs."""
        return False

    @property
    def has_writes_of_users(self) -> bool:
        """Whether there is an audit log, or a history in the API server."""
        return self._has_audit_log or self._server.has_writes_of_users

    @property
    def has_objects(self) -> bool:
        """Whether there is an API server."""
        return self._server.has_objects

    async def created_for(self, reference: Reference) -> list[Reference]:
        """The objects whose creation is in a decision log with this one as the key, the newest first."""
        records = [located.record for located in self._index.created_for(f"{reference.namespace}/{reference.name}")]
        created = [
            Reference(record.resource, record.namespace, record.name)
            for record in reversed(records)
            if record.cause is not None and key_reference(record.cause) == reference
        ]
        return list(dict.fromkeys(created))

    async def get(self, reference: Reference) -> Document | None:
        """The object now; None if it does not exist."""
        return await self._server.get(reference)

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """The first ``MAX_OBJECTS`` of a namespace, or of the cluster, now or at a position."""
        return await self._server.objects(resource, namespace, revision=version_before(revision) if revision else 0)

    def is_unreadable(self, reference: Reference) -> bool:
        """Whether reading the object, or without a name listing the resource, failed."""
        return self._server.is_unreadable(reference)

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """The events that regard an object, oldest first."""
        return await self._server.events(reference, uid)

    # Changes

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """All recorded changes of the object, oldest first."""
        recorded = await self._server.changes(reference)
        self.unseen.pop(NO_ORIGINS, None)
        changes = (await self._timeline(reference)).changes
        if not recorded:
            return list(changes)
        # An API server with a limited history: earlier entries of the logs are added.
        return [change for change in changes if version_before(change.revision) < recorded[0].revision] + [
            msgspec.structs.replace(change, revision=change.revision << SHIFT) for change in recorded
        ]

    async def changes_of_all(self, resource: str, namespace: str) -> list[ObjectChange]:
        """All recorded changes of a resource in a namespace, oldest first."""
        names = {change.record.name for change in self._index.of_collection(resource, namespace)}
        changes: list[ObjectChange] = []
        for name in sorted(names):
            changes += await self.changes(Reference(resource, namespace, name))
        return sorted(changes, key=lambda change: change.revision)

    async def changes_between(self, resource: str, since: int, before: int) -> list[ObjectChange]:
        """Always empty: positions in logs are no resourceVersions."""
        return []

    async def change_at(self, reference: Reference, resource_version: str) -> ObjectChange | None:
        """The change that wrote a version. If the version is not in the logs, the nearest change without a version."""
        changes = (await self._timeline(reference)).changes
        exact = next((change for change in changes if change.resource_version == resource_version), None)
        if exact is not None or not resource_version.isascii() or not resource_version.isdecimal():
            return exact
        version = int(resource_version[:19])
        unknown = [change for change in changes if not change.resource_version]
        if not unknown or any(
            version_before(change.revision) == version for change in changes if change.resource_version
        ):
            return None
        return min(unknown, key=lambda change: abs(version_before(change.revision) - version))

    async def rejected_evictions(self, reference: Reference) -> list[Record]:
        """Evictions of a pod that were rejected because of a budget, oldest first."""
        return [located.record for located in self._index.of_object(reference) if located.record.is_rejected]

    async def _timeline(self, reference: Reference) -> Timeline:
        if reference not in self._timelines:
            self._timelines[reference] = await self._build_timeline(reference)
        return self._timelines[reference]

    async def _build_timeline(self, reference: Reference) -> Timeline:
        now = await self.get(reference)
        metadata = (now or {}).get("metadata") or {}
        created = str(metadata.get("creationTimestamp") or "")
        live = None if now is None else (str(metadata.get("uid") or ""), created)
        index = self._index
        records = [located for located in index.of_object(reference) if not located.record.is_rejected]
        records += self._unnamed_writes(reference, records, created)
        writes = join_records(records, index.of_request)
        if not any(deletes(write.record) for write in writes):
            writes += await self._writes_from_events(reference, writes, deleted=now is None)
        result = build_timeline(reference, writes, index.version_at, live)
        return Timeline(tuple([await self._with_cause(change, result) for change in result.changes]), result.writes)

    def _unnamed_writes(self, reference: Reference, named_records: list[Located], created: str) -> list[Located]:
        """Deletecollection requests that included the object; also, if no create names it, a create with generateName
        in the second of its creationTimestamp."""
        unnamed = self._index.of_object(Reference(reference.resource, reference.namespace, ""))
        first = named_records[0].record.at if named_records else 0
        matching = []
        for located in unnamed:
            record = located.record
            if record.verb == "deletecollection" and record.at >= first and not record.is_rejected:
                names = names_in(self._bodies_at(located.location))
                if reference.name in names if names is not None else not record.has_selector:
                    matching.append(located)
        if created and not any(
            located.record.verb == "create" and not located.record.subresource for located in named_records
        ):
            same_second = [
                located
                for located in unnamed
                if located.record.verb == "create" and located.record.time[:19] == created[:19]
            ]
            if len({located.record.user for located in same_second}) == 1:
                matching.append(same_second[0])
        return matching

    async def _writes_from_events(self, reference: Reference, writes: list[Write], *, deleted: bool) -> list[Write]:
        """Writes that are recorded only by events."""
        kind = self.kind_of(reference.resource)
        if kind not in ("pod", "replicaset", "job"):
            return []
        recorded_types = {"ADDED"} if any(write.record.verb == "create" for write in writes) else set()
        result = []
        for event in await self._server.events_of_namespace(reference.namespace):
            reported = reported_by(event, kind, reference.name)
            last = event.last_timestamp or event.first_timestamp
            if (
                reported is None
                or last is None
                or reported.type in recorded_types
                or (reported.type == "DELETED" and not deleted)
            ):
                continue
            recorded_types.add(reported.type)
            result.append(_reported_write(reference, reported, last))
        return result

    async def _with_cause(self, change: ObjectChange, timeline: Timeline) -> ObjectChange:
        """Add the trusted cause, or one derived from the user and User-Agent."""
        record = timeline.writes[change.revision].record
        if change.cause is not None:
            return change
        cause = trusted_cause(change.origin, self._trusted_users)
        if cause is not None:
            return msgspec.structs.replace(change, cause=cause)
        fields = self._sent(record, timeline.writes[change.revision])
        component = component_of(record.user, record.user_agent)
        if not component:
            return msgspec.structs.replace(change, sent=fields)
        cause = inferred_cause(component, record.verb, change.reference, await self._any_document(change, timeline))
        program = record.user_agent.partition(" ")[0]
        self.unseen[f"why {component} ({program}) wrote: no decision log has it"] = None
        return msgspec.structs.replace(change, cause=cause, inferred=True, sent=fields)

    # Documents

    def _bodies_at(self, location: int) -> Bodies:
        return read_bodies(self._index.line(location))

    def _sent(self, record: Record, write: Write) -> Document:
        if not write.locations or not (record.verb == "patch" or record.subresource == "scale"):
            return {}
        return sent_fields(record, self._bodies_at(write.locations[0]))

    async def _any_document(self, change: ObjectChange, timeline: Timeline) -> Document | None:
        """Any version of the object, for its owner references."""
        now = await self.get(change.reference)
        if now is not None and (now.get("metadata") or {}).get("uid") == change.uid:
            return now
        same_object = [version for version in timeline.changes if version.uid == change.uid]
        for version in (change, *same_object[:_MAX_VERSIONS_TRIED]):
            document = await self._document(version, timeline)
            if document is not None:
                return document
        return None

    async def before(self, change: ObjectChange) -> Document | None:
        """The object before a change; None if it did not exist or that version is not available."""
        if change.type == "ADDED":
            return None
        if change.resource_version:
            document = await self._server.object_at(change.reference, int(change.resource_version) - 1)
            if document is not None:
                return document
        timeline = await self._timeline(change.reference)
        return await self._last_before(change, timeline)

    async def after(self, change: ObjectChange) -> Document | None:
        """The object after a change; for a deletion, its last state."""
        timeline = await self._timeline(change.reference)
        if change.type == "DELETED":
            document = await self._document(change, timeline)
            return document if document is not None else await self.before(change)
        return await self._document(change, timeline)

    async def _last_before(self, change: ObjectChange, timeline: Timeline) -> Document | None:
        earlier = [
            version for version in timeline.changes if version.revision < change.revision and version.uid == change.uid
        ]
        for version in reversed(earlier):
            document = await self._document(version, timeline)
            if document is not None:
                return document
        return None

    async def _document(self, change: ObjectChange, timeline: Timeline) -> Document | None:
        key = (change.reference, change.revision)
        if key not in self._documents:
            self._documents[key] = None  # ends a recursion by _last_before
            self._documents[key] = await self._find_document(change, timeline)
        return self._documents[key]

    async def _find_document(self, change: ObjectChange, timeline: Timeline) -> Document | None:
        write = timeline.writes.get(change.revision)  # None if only the API server has the change
        if write is not None and write.locations:
            bodies = self._bodies_at(write.locations[0])
            document = written_object(write.record, bodies)
            if document is not None:
                return document
            replicas = scaled_to(write.record, bodies)
            if replicas is not None:
                earlier = await self._last_before(change, timeline)
                if earlier is not None:
                    return with_replicas(earlier, replicas)
        if change.resource_version:
            return await self._server.object_at(change.reference, int(change.resource_version))
        return None


_VERBS = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


def _reported_write(reference: Reference, reported: Reported, at: datetime.datetime) -> Write:
    record = Record(
        source=_EVENTS,
        time=format_time(at),
        at=int(at.timestamp() * 1_000_000),
        verb=_VERBS[reported.type],
        resource=reference.resource,
        namespace=reference.namespace,
        name=reference.name,
        cause=Cause(reported.component, reported.key, f"an event says: {reported.decision}"),
    )
    return Write(record, decided=True)
