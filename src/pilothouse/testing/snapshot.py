"""``Snapshot``: the objects of a plane, and how to restore them.

The store's records are immutable, so a snapshot costs a dictionary. It is restored by requests of a client: watches see
every step, and controllers react.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.apiserver.objects import stage_deletion
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.client import Client, merge_patch
from pilothouse.client.errors import AlreadyExists, Conflict, Invalid, NotFound
from pilothouse.plane import Plane
from pilothouse.storage import Mismatch, Record

_LEFT_ALONE = ("coordination.k8s.io/leases/", "/events/")
"""Objects that programs renew or that expire: their current state need not be restored."""
_IN_EVERY_NAMESPACE = (("/serviceaccounts/", "/configmaps/"), ("/default", "/kube-root-ca.crt"))
"""The ServiceAccount and the CA ConfigMap that controllers create in each namespace."""
_NAMESPACES = "/namespaces/"
_ADMISSION = "admissionregistration.k8s.io/"
DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions/"
_NO_GRACE = 0
_PAUSE = 0.01


class Snapshot:
    """The objects of a plane at the time of construction: all, or those whose keys start with ``prefix``."""

    def __init__(self, plane: Plane, prefix: str = "") -> None:
        self._plane = plane
        self._prefix = prefix
        self._records = self._now()

    def remains(self) -> list[str]:
        """The keys of objects created since."""
        return [record.key for record in self._created()]

    async def restore(self) -> None:
        """Delete objects created since, and restore changed and deleted ones. Returns when all are gone."""
        client = self._plane.client(agent="pilothouse-testing")
        while created := self._created():
            for record in sorted(created, key=_rank):
                await self._remove(client, record)
            # Controllers and nodes observe the deletions, and may have created more objects in the meantime.
            await asyncio.sleep(_PAUSE)
        now = self._now()
        for key, record in self._records.items():
            if key.startswith(_LEFT_ALONE):
                continue
            current = now.get(key)
            if current is None or (current.revision != record.revision and _wanted(current) != _wanted(record)):
                await self._write_back(client, record)

    def _now(self) -> dict[str, Record]:
        return self._stored(self._prefix)

    def _stored(self, prefix: str) -> dict[str, Record]:
        return {record.key: record for record in self._plane.server.store.list(prefix).records}

    def _created(self) -> list[Record]:
        return [record for key, record in self._now().items() if key not in self._records and not self._comes_back(key)]

    def _comes_back(self, key: str) -> bool:
        """Whether programs of the plane create it, possibly a moment later: as long as its Node or its namespace
        exists, it is always recreated."""
        if key.startswith(("coordination.k8s.io/leases/kube-node-lease/", "/serviceaccounts/kube-system/")):
            return True
        return key.startswith(_IN_EVERY_NAMESPACE[0]) and key.endswith(_IN_EVERY_NAMESPACE[1])

    async def _remove(self, client: Client, record: Record) -> None:
        info = self._info(record)
        if info is None:
            return  # its definition was deleted, and it with it
        kind, obj = _kind(info), msgspec.json.decode(record.value)
        meta = obj["metadata"]
        name, namespace = meta["name"], meta.get("namespace", "")
        try:
            if record.key.startswith(_NAMESPACES):
                await self._end_namespace(client, kind, obj)
                return
            if record.key.startswith(DEFINITIONS):
                await self._end_definition(client, kind, obj)
                return
            if meta.get("finalizers"):
                try:
                    await client.patch(kind, name, merge_patch({"metadata": {"finalizers": None}}), namespace)
                except Invalid:
                    # It does not meet rules that are newer than it, so no request can remove its finalizers.
                    core = self._plane.server.core
                    await core.commit(stage_deletion(core.store, record))
                    return
            await client.delete(kind, name, namespace, grace_period_seconds=_NO_GRACE, propagation_policy="Background")
        except (NotFound, Conflict, Mismatch):
            pass  # a concurrent write; the next round processes the rest

    async def _end_namespace(self, client: Client, kind: Kind[msgspec.Raw], obj: dict[str, Any]) -> None:
        """As the namespace controller does, but without its patience of five seconds."""
        name = obj["metadata"]["name"]
        await client.delete(kind, name)
        for key, record in self._stored("").items():
            if key.count("/") == 3 and key.split("/")[2] == name:
                await self._remove(client, record)
        obj["spec"] = {"finalizers": []}
        obj["metadata"].pop("resourceVersion")
        await client.update(kind, name, msgspec.json.encode(obj), subresource="finalize")

    async def _end_definition(self, client: Client, kind: Kind[msgspec.Raw], obj: dict[str, Any]) -> None:
        """Its own finalizer is kept: the API server removes it after it has deleted the custom resources, and waits for
        their finalizers."""
        name = obj["metadata"]["name"]
        if obj["spec"].get("conversion", {}).get("strategy") == "Webhook":
            # The program that converts has ended; a deletion needs no conversion.
            unconverted = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
            await client.patch(kind, name, merge_patch(unconverted))
        if "deletionTimestamp" not in obj["metadata"]:
            await client.delete(kind, name)
        for record in self._stored(f"{obj['spec']['group']}/{obj['spec']['names']['plural']}/").values():
            await self._remove(client, record)

    async def _write_back(self, client: Client, record: Record) -> None:
        info = self._info(record)
        if info is None:
            return
        kind, obj = _kind(info), _wanted(record)
        name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
        while True:
            current = self._plane.server.store.get(record.key)
            try:
                if current is None:
                    await client.create(kind, msgspec.Raw(msgspec.json.encode(obj)), namespace)
                else:
                    # Some kinds, as CustomResourceDefinitions, are only updated at a version.
                    obj["metadata"]["resourceVersion"] = str(current.revision)
                    await client.update(kind, name, msgspec.json.encode(obj), namespace)
            except AlreadyExists:
                return  # a controller or a node has created it again
            except (Conflict, NotFound):
                continue  # it was changed concurrently
            return

    def _info(self, record: Record) -> ResourceInfo | None:
        return next((info for info in self._infos() if record.key.startswith(info.prefix)), None)

    def _infos(self) -> Iterator[ResourceInfo]:
        return (info for info in self._plane.server.core.table if "delete" in info.verbs)


def _rank(record: Record) -> tuple[bool, bool, bool]:
    """Policies and webhooks are deleted first, because they may deny other deletions; then definitions, with their
    objects. The content of a namespace is deleted before it."""
    key = record.key
    return key.startswith(_NAMESPACES), not key.startswith(_ADMISSION), not key.startswith(DEFINITIONS)


def _kind(info: ResourceInfo) -> Kind[msgspec.Raw]:
    return Kind(info.group, info.version, info.resource, info.kind, info.namespaced, msgspec.Raw)


def _wanted(record: Record) -> dict[str, Any]:
    """The object without fields that the server or its controllers set."""
    obj: dict[str, Any] = msgspec.json.decode(record.value)
    obj.pop("status", None)
    for name in ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink"):
        obj["metadata"].pop(name, None)
    return obj
