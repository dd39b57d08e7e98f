"""``Context``: the interface for one sync of one object."""

import builtins
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client, apply_patch, merge_patch
from pilothouse.client.decode import decoders_of
from pilothouse.client.errors import AlreadyExists, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.names import object_key
from pilothouse.machinery.nulls import without_nulls
from pilothouse.machinery.owners import is_controlled_by, new_controller_reference, object_reference
from pilothouse.operator import applied as applying
from pilothouse.operator.applied import Applied
from pilothouse.operator.bodies import as_json, with_secret_data
from pilothouse.operator.custom_resource import Resource, kind_of
from pilothouse.operator.declaration import Declaration
from pilothouse.operator.status import OBSERVED, changes, condition_status, set_condition
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.consistency import ConsistencyStore
from pilothouse.runtime.errors import RetryLater, TerminalError
from pilothouse.runtime.events import EventRecorder
from pilothouse.runtime.informer import SharedInformer

T = TypeVar("T", bound=Cached)
U = TypeVar("U", bound=Cached)
KindKey = tuple[str, str]
"""apiVersion and kind."""


class UndeclaredKind(TerminalError):
    """A controller reads a kind that it does not declare, or writes one that it does not own."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The state that all syncs of one controller share."""

    declaration: Declaration
    client: Client
    env: Env
    log: Log
    informers: dict[KindKey, SharedInformer[Any]]
    recorder: EventRecorder
    written: ConsistencyStore
    applied: dict[str, dict[tuple[KindKey, str], Applied]]
    """By key of the primary object: the applies of each of its objects, by kind and key."""
    uncertain: set[str]
    """Keys of objects whose last write of the status has failed. It may have been carried out nevertheless, so a status
    that seems correct in the cache is written again, with the cached version: if that is old, the response is a
    conflict."""


class Context(Generic[T]):
    """One sync of one object.

    ``status`` is the object's status as JSON; changes by a sync are written at its end, also if the sync failed, and
    only if something differs. None counts as missing. Reads come from caches that have all writes of earlier syncs of
    this object except deletions; a cache may still lack the writes of others.
    """

    def __init__(self, parts: Parts, obj: T, raw: bytes) -> None:
        self._parts = parts
        self.object = obj
        """The synced object, as it is in the cache."""
        self.key: str = object_key(obj.metadata)
        """``NAMESPACE/NAME``, or only the name of a cluster-scoped object."""
        self.client: Client = parts.client
        """The client, for requests without a method here. Its writes are not tracked."""
        self.env: Env = parts.env
        """The time (``now()``) and random numbers (``stream(name)``), also in virtual time."""
        self.log: Log = parts.log
        """The controller's log: ``ctx.log.info(text, key=value)``."""
        self._old_status: dict[str, Any] = msgspec.json.decode(raw, type=_Status).status or {}
        self._version = obj.metadata.resource_version
        self.status: dict[str, Any] = msgspec.json.decode(raw, type=_Status).status or {}
        """The status, with its JSON names; changes are written at the end of the sync."""

    # Reading

    def get(self, kind: Resource[U], name: str, namespace: str | None = None) -> U | None:
        """An object from the cache; without ``namespace`` from that of the synced object. Raises ``TerminalError`` for
        a namespace that is not watched."""
        informer = self._informer(kind)
        return cast("U | None", informer.cache.get(self._key(informer, name, namespace)))

    def list(
        self, kind: Resource[U], *, index: str = "", value: str = "", namespace: str | None = None
    ) -> "builtins.list[U]":
        """Objects from the cache, sorted by key: all, those of a namespace, or those that an index has at ``value``.
        Raises ``TerminalError`` for an index that is not declared."""
        informer = self._informer(kind)
        if not index:
            return cast("builtins.list[U]", informer.cache.list(namespace))
        declaration = self._parts.declaration
        names = [
            other.name for other in declaration.indexes if _kind_key(kind_of(other.kind)) == _kind_key(informer.kind)
        ]
        if index not in names:
            raise TerminalError(
                f"controller {declaration.name} has no index {index!r} of {informer.kind.group_resource}; it has "
                f"{', '.join(names) or 'none'}: declare it with indexes="
            )
        objects = self._at(informer, declaration.index_name(index), value)
        return [obj for obj in objects if namespace is None or obj.metadata.namespace == namespace]

    def owned(self, kind: Resource[U]) -> "builtins.list[U]":
        """The objects of a kind in ``owns`` in the cache that the synced object controls, sorted by key."""
        uid = self.object.metadata.uid
        objects: builtins.list[U] = self._at(self._owned_informer(*_kind_key(kind_of(kind))), OWNER_INDEX, uid)
        return [obj for obj in objects if is_controlled_by(obj.metadata, uid)]

    @staticmethod
    def _at(informer: SharedInformer[Any], index: str, value: str) -> "builtins.list[Any]":
        return informer.cache.by_index(index, value)

    async def check_current(self) -> None:
        """Read the object from the API server, and raise ``RetryLater`` unless it is as this sync has it.

        For external resources, for which a sync of an old object would recreate what was deleted: a process that has
        just started may read from a stale API server, and the writes of another process may not be in this cache yet.
        Writes to the API server do not need it.
        """
        kind, meta = self._parts.declaration.kind, self.object.metadata
        try:
            live = await self.client.get(kind, meta.name, meta.namespace)
        except NotFound:
            raise RetryLater(f"{kind.kind} {self.key} has been deleted") from None
        if (live.metadata.uid, live.metadata.resource_version) != (meta.uid, self._version):
            raise RetryLater(f"{kind.kind} {self.key} is not yet in the cache as it is now")

    # Writing

    async def apply(self, body: Any, *, owned: bool = True, force: bool = True) -> Any:
        """Server-side apply, with the controller's field manager, unless the object already equals the result. Returns
        the object, as the view of its kind: the cached one if nothing was sent, else the response.

        ``body`` has apiVersion, kind and name, and gets the namespace of the synced object and, with ``owned``, a
        controller reference to it. ``force`` takes over fields of other managers. An existing object with that name is
        adopted, unless it has another controller. Raises ``UndeclaredKind`` for a kind that is not in ``owns``, the API
        server's errors, and ``UndecodableObject`` for a response that does not fit the view.
        """
        wanted = with_secret_data(as_json(body))
        informer, key = self._prepare(wanted, owned=owned)
        kind, meta = informer.kind, wanted["metadata"]
        records = self._records()
        place = (_kind_key(kind), key)
        cached = informer.cache.get(key)
        version = cached.metadata.resource_version if cached is not None else ""
        if applying.is_current(records.get(place), wanted, version, informer.cache.raw(key)):
            return cached
        answer = await self.client.patch(
            kind.raw,
            meta["name"],
            apply_patch(wanted),
            meta.get("namespace", ""),
            field_manager=self._parts.declaration.field_manager,
            force=force,
        )
        version = self._wrote(kind, answer)
        if self._parts.applied.get(self.key) is records:  # the object may have been deleted in the meantime
            records[place] = Applied(applying.digest(wanted), version, applying.fingerprint(bytes(answer), wanted))
        return decoders_of(kind.view).one(bytes(answer), lambda: f"{kind.group_resource} {key}")

    async def create_once(self, body: Any, *, owned: bool = True) -> bool:
        """Create an object unless one with that name exists; it is not changed later. Returns whether it was
        created."""
        wanted = as_json(body)
        informer, key = self._prepare(wanted, owned=owned)
        if informer.cache.get(key) is not None:
            return False
        try:
            answer = await self.client.create(
                informer.kind.raw,
                wanted,
                wanted["metadata"].get("namespace", ""),
                field_manager=self._parts.declaration.field_manager,
            )
        except AlreadyExists:
            return False
        self._wrote(informer.kind, answer)
        return True

    async def delete(
        self,
        kind: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        propagation_policy: str = "Background",
    ) -> bool:
        """Delete an object of a kind in ``owns`` that is in the cache and not being deleted yet. Whether it was there.

        Its dependents are deleted, too. The API server's own default is to orphan the Pods of Jobs.
        """
        informer = self._owned_informer(*_kind_key(kind_of(kind)))
        cached = informer.cache.get(self._key(informer, name, namespace))
        if cached is None or cached.metadata.deletion_timestamp is not None:
            return False
        meta: ObjectMeta = cached.metadata
        try:
            await self.client.delete(
                informer.kind, name, meta.namespace, uid=meta.uid, propagation_policy=propagation_policy
            )
        except NotFound:
            return False
        return True

    # Reporting

    def event(self, type_: str, reason: str, message: str) -> None:
        """Record an event about the synced object. ``type_`` is ``Normal`` or ``Warning``."""
        about = object_reference(self._parts.declaration.kind, self.object.metadata)
        self._parts.recorder.event(about, type_, reason, message)

    def condition(
        self,
        type_: str,
        status: bool | Literal["True", "False", "Unknown"] | None,
        *,
        reason: str,
        message: str = "",
    ) -> None:
        """Set a condition of the status, with ``observedGeneration``; None is ``Unknown``. Its transition time only
        changes with its status.

        ``reason`` is a word in CamelCase. Raises ``ValueError`` for a field that is invalid in a ``metav1.Condition``,
        ``TypeError`` for one of another type.
        """
        shown = condition_status(type_, status, reason, message)
        self.status["conditions"] = set_condition(
            self.status.get("conditions") or [],
            type_,
            shown,
            reason,
            message,
            self.object.metadata.generation,
            self.env.now(),
        )

    async def write_status(self, *, synced: bool = False) -> None:
        """Write the status now, if the sync has changed it; otherwise it is written at the end of the sync.

        ``synced``: the sync has succeeded, so ``observedGeneration`` is written, too. Raises ``TerminalError`` for a
        field that the class of a ``CustomResource`` does not have, ``Conflict`` if the object has changed since it was
        read: lists are replaced as a whole, and entries of others must not be lost.
        """
        status: dict[str, Any] = without_nulls(msgspec.json.decode(msgspec.json.encode(self.status)))
        declaration, meta = self._parts.declaration, self.object.metadata
        fields = declaration.status_fields
        if fields is not None:
            unknown = sorted(status.keys() - fields - self._old_status.keys())
            if unknown and not fields:
                raise TerminalError(
                    f"a {declaration.kind.kind} has no status: its class needs the field status, with "
                    f"{', '.join(unknown)}"
                )
            if unknown:
                raise TerminalError(
                    f"the status of a {declaration.kind.kind} has no field {', '.join(unknown)}; it has "
                    f"{', '.join(sorted(fields))}"
                )
            if OBSERVED in fields and (status != self._old_status or (synced and status)):
                status[OBSERVED] = meta.generation
        uncertain = self._parts.uncertain
        if status == self._old_status and self.key not in uncertain:
            return
        if self._is_current():
            uncertain.add(self.key)
        await self._patch({"status": changes(self._old_status, status)}, "status")
        uncertain.discard(self.key)
        self._old_status = status

    async def add_finalizer(self) -> None:
        """Add the controller's finalizer. Raises ``Conflict`` if the object has changed since it was read."""
        finalizers = [*self.object.metadata.finalizers, self._parts.declaration.finalizer]
        await self._patch({"metadata": {"finalizers": finalizers}})

    # Parts

    async def _patch(self, changed: dict[str, Any], subresource: str = "") -> None:
        """Patch the synced object as it was last read or written. The resourceVersion also replaces the uid as
        precondition, which API servers do not check in a patch of the status of a custom resource."""
        kind, meta = self._parts.declaration.kind, self.object.metadata
        versioned = {**changed, "metadata": {**changed.get("metadata", {}), "resourceVersion": self._version}}
        answer = await self.client.patch(
            kind.raw,
            meta.name,
            merge_patch(versioned),
            meta.namespace,
            subresource=subresource,
            field_manager=self._parts.declaration.field_manager,
        )
        self._version = self._wrote(kind, answer)

    def _records(self) -> dict[tuple[KindKey, str], Applied]:
        """The applies of the object; new ones are not stored for an object that was deleted in the meantime."""
        records = self._parts.applied.get(self.key)
        if records is None:
            records = {}
            if self._is_current():
                self._parts.applied[self.key] = records
        return records

    def _is_current(self) -> bool:
        """Whether state may be stored for the object: it was not deleted in the meantime."""
        return self._informer(self._parts.declaration.kind).cache.still_has(self.object.metadata)

    def _informer(self, resource: Resource[Any]) -> SharedInformer[Any]:
        kind = kind_of(resource)
        informer = self._parts.informers.get(_kind_key(kind))
        if informer is None:
            raise UndeclaredKind(
                f"controller {self._parts.declaration.name} uses {kind.group_resource} and does not declare it: add "
                "its kind to owns=, references= or reads="
            )
        return informer

    def _owned_informer(self, api_version: str, kind: str) -> SharedInformer[Any]:
        """That of a kind which the controller may write."""
        if (api_version, kind) not in map(_kind_key, self._parts.declaration.owned_kinds):
            raise UndeclaredKind(
                f"controller {self._parts.declaration.name} writes {kind} ({api_version}) and does not declare it: add "
                "its kind to owns="
            )
        return self._parts.informers[api_version, kind]

    def _key(self, informer: SharedInformer[Any], name: str, namespace: str | None) -> str:
        if not informer.kind.namespaced:
            return name
        place = self.object.metadata.namespace if namespace is None else namespace
        if informer.namespace and place != informer.namespace:
            raise TerminalError(f"{informer.kind.kind} {place}/{name} is outside of the watched {informer.namespace}")
        return f"{place}/{name}"

    def _prepare(self, body: dict[str, Any], *, owned: bool) -> tuple[SharedInformer[Any], str]:
        """Complete a body; the informer of its kind, and the key of the object."""
        missing = " and ".join(f"no {name}" for name in ("apiVersion", "kind") if not body.get(name))
        if missing:
            of_kind = f" of a {body['kind']}" if body.get("kind") else ""
            raise TerminalError(f"the body{of_kind} has {missing}: a body has both, as a manifest")
        informer = self._owned_informer(body["apiVersion"], body["kind"])
        kind, owner = informer.kind, self.object.metadata
        meta: dict[str, Any] = body.setdefault("metadata", {})
        if not meta.get("name"):
            raise TerminalError(f"metadata.name of a {kind.kind} is missing")
        if kind.namespaced:
            meta.setdefault("namespace", owner.namespace)
            if not meta["namespace"]:
                raise TerminalError(f"metadata.namespace of {kind.kind} {meta['name']} is missing")
        watched = informer.namespace
        if watched and meta.get("namespace") != watched:
            raise TerminalError(f"{kind.kind} {meta['name']} is outside of the namespace {watched}, which is watched")
        own = self._parts.declaration.kind
        is_itself = (kind.group_resource, meta["name"]) == (own.group_resource, owner.name) and (
            meta.get("namespace", "") == owner.namespace
        )
        if owned and not is_itself:  # An object that owns itself is never deleted in the foreground.
            if owner.namespace and meta.get("namespace") != owner.namespace:
                raise TerminalError(
                    f"{self._parts.declaration.kind.kind} {self.key} cannot own {kind.kind} {meta['name']}: owners are "
                    "in the namespace of what they own, or in none; use owned=False"
                )
            reference = new_controller_reference(owner, self._parts.declaration.kind)
            meta["ownerReferences"] = [*(meta.get("ownerReferences") or ()), msgspec.to_builtins(reference)]
        return informer, self._key(informer, meta["name"], meta.get("namespace"))

    def _wrote(self, kind: Kind[Any], answer: msgspec.Raw) -> str:
        version = msgspec.json.decode(answer, type=_Versioned).metadata.resource_version
        if self._is_current():
            self._parts.written.wrote_at(self.key, self.object.metadata.uid, kind.group_resource, version)
        return version


OWNER_INDEX = "pilothouse.operator/owner"
"""Index of owned objects by the uid of their controller."""


class _Versioned(msgspec.Struct):
    metadata: ObjectMeta


class _Status(msgspec.Struct):
    status: dict[str, Any] | None = None


def _kind_key(kind: Kind[Any]) -> KindKey:
    return kind.api_version, kind.kind
