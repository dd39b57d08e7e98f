"""``Context``: what one sync of one object may do."""

import builtins
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client, apply_patch, merge_patch
from pilothouse.client.errors import AlreadyExists, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.names import object_key
from pilothouse.machinery.owners import is_controlled_by, new_controller_reference, object_reference
from pilothouse.operator import applied as applying
from pilothouse.operator.applied import Applied
from pilothouse.operator.bodies import as_json
from pilothouse.operator.declaration import Declaration
from pilothouse.operator.status import OBSERVED, changes, set_condition
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.consistency import ConsistencyStore
from pilothouse.runtime.errors import TerminalError
from pilothouse.runtime.events import EventRecorder
from pilothouse.runtime.informer import SharedInformer

T = TypeVar("T", bound=Cached)
U = TypeVar("U", bound=Cached)
_UNTOUCHED: dict[str, Any] = {}


class UndeclaredKind(TerminalError):
    """A controller reads or writes a kind that it does not declare."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What all syncs of one controller share."""

    app: str
    declaration: Declaration
    client: Client
    env: Env
    log: Log
    informers: dict[tuple[str, str], SharedInformer[Any]]
    """By apiVersion and kind."""
    recorder: EventRecorder
    written: ConsistencyStore
    applied: dict[str, dict[tuple[str, str], Applied]]
    """By key of the primary object: what was applied to each of its objects, by group resource and key."""


class Context(Generic[T]):
    """One sync of one object.

    ``status`` is the object's status as JSON; what a sync changes in it is written at its end, also when the sync
    failed, and only if something differs. Reads come from caches that have seen all writes of earlier syncs of this
    object; a cache may still be behind everybody else's.
    """

    def __init__(self, parts: Parts, obj: T, raw: bytes) -> None:
        self._parts = parts
        self.object = obj
        self.key = object_key(obj.metadata)
        self.client = parts.client
        """For everything that has no method here. Its writes are not tracked."""
        self.env = parts.env
        self.log = parts.log
        self._before: dict[str, Any] = msgspec.json.decode(raw).get("status") or {}
        self.status: dict[str, Any] = msgspec.json.decode(raw).get("status") or {}

    # Reading

    def get(self, kind: Kind[U], name: str, namespace: str | None = None) -> U | None:
        """An object from the cache; without ``namespace`` from that of the synced object."""
        return cast("U | None", self._informer(kind).cache.get(self._key(kind, name, namespace)))

    def list(
        self, kind: Kind[U], *, index: str = "", value: str = "", namespace: str | None = None
    ) -> "builtins.list[U]":
        """Objects from the cache, sorted by key: all, those of a namespace, or those that an index has at ``value``."""
        cache = self._informer(kind).cache
        if not index:
            return cast("builtins.list[U]", cache.list(namespace))
        found = cast("builtins.list[U]", cache.by_index(index, value))
        return [each for each in found if namespace is None or each.metadata.namespace == namespace]

    def owned(self, kind: Kind[U]) -> "builtins.list[U]":
        """The objects of a declared kind in the cache that the synced object controls, sorted by key."""
        uid = self.object.metadata.uid
        return [each for each in self.list(kind, index=OWNER_INDEX, value=uid) if is_controlled_by(each.metadata, uid)]

    # Writing

    async def apply(self, body: Any, *, owned: bool = True, force: bool = True) -> None:
        """Server-side apply, with the app's name as field manager, if the object is not what it would make of it.

        ``body`` has apiVersion, kind and name, and gets the namespace of the synced object and, with ``owned``, a
        controller reference to it. ``force`` takes fields over that other managers own. Raises ``UndeclaredKind`` for a
        kind that is not in ``owns``, ``references`` or ``reads``, and what the API server answers.
        """
        wanted = as_json(body)
        informer, key = self._prepare(wanted, owned=owned)
        kind, meta = informer.kind, wanted["metadata"]
        records = self._records()
        place, digest = (kind.group_resource, key), applying.digest(wanted)
        cached = informer.cache.get(key)
        version = cached.metadata.resource_version if cached is not None else ""
        if applying.is_current(records.get(place), digest, version, informer.cache.raw(key)):
            return
        answer = await self.client.patch(
            kind.raw,
            meta["name"],
            apply_patch(wanted),
            meta.get("namespace", ""),
            field_manager=self._parts.app,
            force=force,
        )
        version = self._wrote(kind, answer)
        if self._parts.applied.get(self.key) is records:  # the object may have gone meanwhile
            records[place] = Applied(digest, version, applying.fingerprint(bytes(answer)))

    async def create_once(self, body: Any, *, owned: bool = True) -> bool:
        """Create an object unless there is one of that name; it is left alone from then on. Whether it was created."""
        wanted = as_json(body)
        informer, key = self._prepare(wanted, owned=owned)
        if informer.cache.get(key) is not None:
            return False
        try:
            answer = await self.client.create(
                informer.kind.raw, wanted, wanted["metadata"].get("namespace", ""), field_manager=self._parts.app
            )
        except AlreadyExists:
            return False
        self._wrote(informer.kind, answer)
        return True

    async def delete(self, kind: Kind[Any], name: str, namespace: str | None = None) -> bool:
        """Delete an object that is in the cache and not being deleted yet. Whether it was there."""
        found = self.get(kind, name, namespace)
        if found is None or found.metadata.deletion_timestamp is not None:
            return False
        meta: ObjectMeta = found.metadata
        try:
            await self.client.delete(kind, name, meta.namespace, uid=meta.uid)
        except NotFound:
            return False
        return True

    # Reporting

    def event(self, type_: str, reason: str, message: str) -> None:
        """Record an event about the synced object. ``type_`` is ``Normal`` or ``Warning``."""
        about = object_reference(self._parts.declaration.kind, self.object.metadata)
        self._parts.recorder.event(about, type_, reason, message)

    def condition(self, type_: str, status: bool | None, *, reason: str, message: str = "") -> None:
        """Set a condition of the status, with ``observedGeneration``; None is ``Unknown``. Its transition time changes
        with its status only."""
        shown = "Unknown" if status is None else str(status)
        self.status["conditions"] = set_condition(
            self.status.get("conditions") or [],
            type_,
            shown,
            reason,
            message,
            self.object.metadata.generation,
            self.env.now(),
        )

    async def write_status(self) -> None:
        """Write the status now, if the sync has changed it; otherwise this happens at its end."""
        if self.status == self._before:
            return
        meta = self.object.metadata
        if OBSERVED in self._before or OBSERVED in _fields(self._parts.declaration.kind):
            self.status[OBSERVED] = meta.generation
        changed = changes(self._before, self.status)
        patch = merge_patch({"metadata": {"uid": meta.uid}, "status": changed})
        kind = self._parts.declaration.kind
        answer = await self.client.patch(
            kind.raw, meta.name, patch, meta.namespace, subresource="status", field_manager=self._parts.app
        )
        self._wrote(kind, answer)
        self._before = msgspec.json.decode(msgspec.json.encode(self.status))

    # Parts

    def _records(self) -> dict[tuple[str, str], Applied]:
        """What was applied for the object; new ones are not kept for an object that has gone meanwhile."""
        records = self._parts.applied.get(self.key)
        if records is None:
            records = {}
            if self._informer(self._parts.declaration.kind).cache.still_has(self.object.metadata):
                self._parts.applied[self.key] = records
        return records

    def _informer(self, kind: Kind[Any]) -> SharedInformer[Any]:
        informer = self._parts.informers.get((kind.api_version, kind.kind))
        if informer is None:
            raise UndeclaredKind(
                f"controller {self._parts.declaration.name} uses {kind.group_resource} and does not declare it: add "
                "its kind to owns=, references= or reads="
            )
        return informer

    def _key(self, kind: Kind[Any], name: str, namespace: str | None) -> str:
        if not kind.namespaced:
            return name
        return f"{self.object.metadata.namespace if namespace is None else namespace}/{name}"

    def _prepare(self, body: dict[str, Any], *, owned: bool) -> tuple[SharedInformer[Any], str]:
        """Complete a body; the informer of its kind, and the key of the object."""
        api_version, kind_name = body.get("apiVersion") or "", body.get("kind") or ""
        informer = self._parts.informers.get((api_version, kind_name))
        if informer is None:
            raise UndeclaredKind(
                f"controller {self._parts.declaration.name} writes {kind_name or 'an object without a kind'} "
                f"({api_version or 'no apiVersion'}) and does not declare it: add its kind to owns="
            )
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
        if owned:
            if owner.namespace and meta.get("namespace") != owner.namespace:
                raise TerminalError(
                    f"{self._parts.declaration.kind.kind} {self.key} cannot own {kind.kind} {meta['name']}: owners are "
                    "in the namespace of what they own, or in none; use owned=False"
                )
            reference = new_controller_reference(owner, self._parts.declaration.kind)
            meta["ownerReferences"] = [*(meta.get("ownerReferences") or ()), msgspec.to_builtins(reference)]
        return informer, self._key(kind, meta["name"], meta.get("namespace"))

    def _wrote(self, kind: Kind[Any], answer: msgspec.Raw) -> str:
        version = msgspec.json.decode(answer, type=_Versioned).metadata.resource_version
        self._parts.written.wrote_at(self.key, self.object.metadata.uid, kind.group_resource, version)
        return version


OWNER_INDEX = "pilothouse.operator/owner"
"""Index of owned objects by the uid of their controller."""


class _Versioned(msgspec.Struct):
    metadata: ObjectMeta


def _fields(kind: Kind[Any]) -> Mapping[str, Any]:
    """The fields of the status view on the wire, if the kind has one."""
    for field in msgspec.structs.fields(kind.view):
        if field.encode_name == "status" and isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            return {each.encode_name: each.type for each in msgspec.structs.fields(field.type)}
    return _UNTOUCHED
