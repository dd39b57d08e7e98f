"""Reading and writing the revisions of one owner. Decisions are in ``revisions`` and with the owner's controller."""

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, ControllerRevision
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.client import Client
from pilothouse.controllers.shared.history.revisions import new_revision
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import Cache, Claims, controller_index_key, object_key
from pilothouse.runtime.claims import CONTROLLER_INDEX


class History:
    """The revisions of owners of one kind. ``revisions`` is a cache that keeps the JSON and has the index
    ``CONTROLLER_INDEX``."""

    def __init__(self, client: Client, revisions: Cache[ControllerRevision]) -> None:
        self._client = client
        self._revisions = revisions

    async def claim(
        self,
        owner: ObjectMeta,
        reference: OwnerReference,
        selector: Selector,
        read_live: Callable[[], Awaitable[ObjectMeta]],
        *,
        releasing: bool = True,
    ) -> list[ControllerRevision]:
        """The revisions that belong to the owner, after adopting and releasing what must be. By name.

        Without ``releasing``, own ones that no longer match are left alone and left out.
        """
        index = controller_index_key(owner.namespace, reference.kind, owner.name, owner.uid)
        own = self._revisions.by_index(CONTROLLER_INDEX, index)
        matches = selector.matches
        orphans = self._revisions.by_index(CONTROLLER_INDEX, owner.namespace)
        kept = [revision for revision in own if matches(revision.metadata.labels)]
        doubtful = [revision for revision in own if releasing and not matches(revision.metadata.labels)]
        doubtful += [revision for revision in orphans if matches(revision.metadata.labels)]
        if not doubtful:
            return kept
        claims = Claims(self._client, CONTROLLER_REVISIONS, owner, reference, selector, read_live=read_live)
        return kept + await claims.claim(doubtful)

    async def create(
        self,
        namespace: str,
        *,
        name: str,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        owner: OwnerReference,
        data: bytes,
        number: int,
    ) -> ControllerRevision:
        """Make a revision. ``AlreadyExists`` is the caller's to settle."""
        body = new_revision(
            namespace=namespace,
            name=name,
            labels=labels,
            annotations=annotations,
            owner=owner,
            data=data,
            number=number,
        )
        return await self._client.create(CONTROLLER_REVISIONS, body, namespace)

    async def read(self, namespace: str, name: str) -> ControllerRevision:
        return await self._client.get(CONTROLLER_REVISIONS, name, namespace)

    async def renumber(self, revision: ControllerRevision, number: int) -> ControllerRevision:
        return await self._put(revision, {"revision": msgspec.json.encode(number)})

    async def relabel(self, revision: ControllerRevision, labels: Mapping[str, str]) -> ControllerRevision:
        return await self._put(revision, {"metadata.labels": msgspec.json.encode(dict(labels))})

    async def delete(self, revision: ControllerRevision) -> None:
        """Delete the revision, without preconditions."""
        await self._client.delete(CONTROLLER_REVISIONS, revision.metadata.name, revision.metadata.namespace)

    async def _put(self, revision: ControllerRevision, changes: Mapping[str, bytes]) -> ControllerRevision:
        meta = revision.metadata
        key = object_key(meta)
        cached, raw = self._revisions.get(key), self._revisions.raw(key)
        if raw is None or cached is None or cached.metadata.resource_version != meta.resource_version:
            # It was written or read live in this sync: what is written back is what the server has.
            live = await self._client.get(CONTROLLER_REVISIONS.raw, meta.name, meta.namespace)
            raw = bytes(live)
        whole = replace_fields(raw, {**changes, "metadata.managedFields": None})
        return await self._client.update(CONTROLLER_REVISIONS, meta.name, whole, meta.namespace)
