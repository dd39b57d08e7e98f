"""``LogEvidence``: ``Evidence`` from decision and audit logs, events and what the API server has now. For clusters
whose API server keeps no record of who wrote."""

import datetime
from collections.abc import Collection

import msgspec

from pilothouse.api.core import Event
from pilothouse.machinery.causes import Cause
from pilothouse.machinery.times import format_time
from pilothouse.why.evidence import NO_ORIGINS, Document, ObjectChange, Reference, ServerEvidence
from pilothouse.why.logs.changes import SHIFT, Timeline, Write, deletes, joined, timeline, version_before
from pilothouse.why.logs.documents import names_in, scaled_to, sent_fields, with_replicas, written_object
from pilothouse.why.logs.index import Located, LogIndex
from pilothouse.why.logs.inference import Reported, component_of, inferred_cause, reported_by
from pilothouse.why.logs.lines import AUDIT, DECISIONS, Bodies, Record, read_bodies
from pilothouse.why.trust import believed_cause

_EVENTS = "events"
_MOST_TRIED = 3
_WITH_BODIES = frozenset({"Request", "RequestResponse"})


class LogEvidence:
    """Logs in front of an API server. Make a new one for each explanation."""

    def __init__(self, server: ServerEvidence, index: LogIndex, *, trusted_users: Collection[str] = ()) -> None:
        self._server = server
        self._index = index
        self._trusted_users = frozenset(trusted_users)
        self.unseen = server.unseen
        self.unseen.update(index.unseen)
        self._timelines: dict[Reference, Timeline] = {}
        self._live: dict[Reference, Document | None] = {}
        self._documents: dict[tuple[Reference, int], Document | None] = {}
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
        """All group resources of namespaces that can be listed."""
        return self._server.namespaced

    async def get(self, reference: Reference) -> Document | None:
        """The object now; None if it is not there."""
        if reference not in self._live:
            self._live[reference] = await self._server.get(reference)
        return self._live[reference]

    async def objects(self, resource: str, namespace: str, *, revision: int = 0) -> list[Document]:
        """The first ``MOST_OBJECTS`` of a namespace, or of the cluster, now or as they were at a position."""
        return await self._server.objects(resource, namespace, revision=version_before(revision) if revision else 0)

    async def events(self, reference: Reference, uid: str = "") -> list[Event]:
        """The events about an object, oldest first."""
        return await self._server.events(reference, uid)

    # Changes

    async def changes(self, reference: Reference) -> list[ObjectChange]:
        """All changes of the object that are known, oldest first."""
        recorded = await self._server.changes(reference)
        self.unseen.pop(NO_ORIGINS, None)
        changes = (await self._timeline(reference)).changes
        if not recorded:
            return list(changes)
        # An API server with a limited history: earlier entries of the logs are added.
        return [change for change in changes if version_before(change.revision) < recorded[0].revision] + [
            msgspec.structs.replace(each, revision=each.revision << SHIFT) for each in recorded
        ]

    async def changes_of_all(self, resource: str, namespace: str) -> list[ObjectChange]:
        """All changes of a resource in a namespace that are known, oldest first."""
        names = {each.record.name for each in self._index.of_collection(resource, namespace)}
        found: list[ObjectChange] = []
        for name in sorted(names):
            found += await self.changes(Reference(resource, namespace, name))
        return sorted(found, key=lambda each: each.revision)

    async def changes_between(self, resource: str, since: int, before: int) -> list[ObjectChange]:
        """None: positions in logs are no resourceVersions."""
        return []

    async def change_at(self, reference: Reference, resource_version: str) -> ObjectChange | None:
        """The change that made a version. If its version is not in the logs, the one without a version that is nearest
        to where it must be."""
        changes = (await self._timeline(reference)).changes
        exact = next((change for change in changes if change.resource_version == resource_version), None)
        if exact is not None or not resource_version.isascii() or not resource_version.isdecimal():
            return exact
        wanted = int(resource_version[:19])
        unknown = [change for change in changes if not change.resource_version]
        if not unknown or any(
            version_before(change.revision) == wanted for change in changes if change.resource_version
        ):
            return None
        return min(unknown, key=lambda each: abs(version_before(each.revision) - wanted))

    async def rejected_evictions(self, reference: Reference) -> list[Record]:
        """Evictions of a pod that a budget did not allow, oldest first."""
        return [each.record for each in self._index.of_object(reference) if each.record.is_rejected]

    async def _timeline(self, reference: Reference) -> Timeline:
        if reference not in self._timelines:
            self._timelines[reference] = await self._read(reference)
        return self._timelines[reference]

    async def _read(self, reference: Reference) -> Timeline:
        now = await self.get(reference)
        metadata = (now or {}).get("metadata") or {}
        created = str(metadata.get("creationTimestamp") or "")
        live = None if now is None else (str(metadata.get("uid") or ""), created)
        index = self._index
        found = [each for each in index.of_object(reference) if not each.record.is_rejected]
        found += self._of_collection(reference, found, created)
        writes = joined(found, index.of_request)
        if not any(deletes(write.record) for write in writes):
            writes += await self._reported(reference, writes, gone=now is None)
        read = timeline(reference, writes, index.version_at, live)
        return Timeline(tuple([await self._explained(change, read) for change in read.changes]), read.writes)

    def _of_collection(self, reference: Reference, own: list[Located], created: str) -> list[Located]:
        """Deletions of the whole collection that met the object; if the creation is not in the log by name, one that
        may be it."""
        unnamed = self._index.of_object(Reference(reference.resource, reference.namespace, ""))
        first = own[0].record.at if own else 0
        found = []
        for each in unnamed:
            record = each.record
            if record.verb == "deletecollection" and record.at >= first and not record.is_rejected:
                names = names_in(self._bodies_at(each.location))
                if reference.name in names if names is not None else not record.selects:
                    found.append(each)
        if created and not any(each.record.verb == "create" and not each.record.subresource for each in own):
            at_once = [
                each for each in unnamed if each.record.verb == "create" and each.record.time[:19] == created[:19]
            ]
            if len({each.record.user for each in at_once}) == 1:
                found.append(at_once[0])
        return found

    async def _reported(self, reference: Reference, known: list[Write], *, gone: bool) -> list[Write]:
        """Writes that only events tell of."""
        kind = self.kind_of(reference.resource)
        if kind not in ("pod", "replicaset", "job"):
            return []
        has = {"ADDED"} if any(each.record.verb == "create" for each in known) else set()
        found = []
        for event in await self._server.events_of_namespace(reference.namespace):
            reported = reported_by(event, kind, reference.name)
            last = event.last_timestamp or event.first_timestamp
            if reported is None or last is None or reported.type in has or (reported.type == "DELETED" and not gone):
                continue
            has.add(reported.type)
            found.append(_reported_write(reference, reported, last))
        return found

    async def _explained(self, change: ObjectChange, read: Timeline) -> ObjectChange:
        """With the trusted cause, or the one that is derived from the writer."""
        record = read.writes[change.revision].record
        if change.cause is not None:
            return change
        believed = believed_cause(change.origin, self._trusted_users)
        if believed is not None:
            return msgspec.structs.replace(change, cause=believed)
        fields = self._sent(record, read.writes[change.revision])
        component = component_of(record.user, record.user_agent)
        if not component:
            return msgspec.structs.replace(change, sent=fields)
        cause = inferred_cause(component, record.verb, change.reference, await self._any_document(change, read))
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

    async def _any_document(self, change: ObjectChange, read: Timeline) -> Document | None:
        """The object at some time of its life: who owns it does not change."""
        now = await self.get(change.reference)
        if now is not None and (now.get("metadata") or {}).get("uid") == change.uid:
            return now
        alike = [each for each in read.changes if each.uid == change.uid]
        for each in (change, *alike[:_MOST_TRIED]):
            found = await self._document(each, read)
            if found is not None:
                return found
        return None

    async def before(self, change: ObjectChange) -> Document | None:
        """The object before a change; None if it was not there, or is not known."""
        if change.type == "ADDED":
            return None
        if change.resource_version:
            found = await self._server.object_at(change.reference, int(change.resource_version) - 1)
            if found is not None:
                return found
        read = await self._timeline(change.reference)
        return await self._last_before(change, read)

    async def after(self, change: ObjectChange) -> Document | None:
        """The object after a change; of a deletion, its last state."""
        read = await self._timeline(change.reference)
        if change.type == "DELETED":
            found = await self._document(change, read)
            return found if found is not None else await self.before(change)
        return await self._document(change, read)

    async def _last_before(self, change: ObjectChange, read: Timeline) -> Document | None:
        earlier = [each for each in read.changes if each.revision < change.revision and each.uid == change.uid]
        for each in reversed(earlier):
            found = await self._document(each, read)
            if found is not None:
                return found
        return None

    async def _document(self, change: ObjectChange, read: Timeline) -> Document | None:
        key = (change.reference, change.revision)
        if key not in self._documents:
            self._documents[key] = None  # what is asked for again on the way is not known
            self._documents[key] = await self._find_document(change, read)
        return self._documents[key]

    async def _find_document(self, change: ObjectChange, read: Timeline) -> Document | None:
        write = read.writes.get(change.revision)  # none, if only the API server has the change
        if write is not None and write.locations:
            bodies = self._bodies_at(write.locations[0])
            found = written_object(write.record, bodies)
            if found is not None:
                return found
            replicas = scaled_to(write.record, bodies)
            if replicas is not None:
                earlier = await self._last_before(change, read)
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
