"""The garbage collector's requests: live reads of metadata, deletions with preconditions, patches with a fallback.

``attempts.py`` decides when; nothing here knows the graph.
"""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client, merge_patch, strategic_merge_patch
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import Conflict, NotFound, UnsupportedMediaType
from pilothouse.controllers.cleanup.garbage_collector import patches
from pilothouse.controllers.cleanup.garbage_collector.patches import Body

FINALIZER_TRIES = 4
FINALIZER_PAUSE_SECONDS = 0.01
FINALIZER_PAUSE_FACTOR = 5.0
"""client-go ``retry.DefaultBackoff`` (v0.36)."""


class UnknownKind(Exception):
    """The server serves no such kind, or could not say. Nothing may be concluded from that."""


class Located(msgspec.Struct, frozen=True):
    """An object's address on the server."""

    kind: Kind[Object]
    namespace: str
    name: str


class Live:
    """Reads and writes of one client."""

    def __init__(self, client: Client, mapper: RestMapper) -> None:
        self._client = client
        self._mapper = mapper

    async def kind_of(self, api_version: str, kind: str) -> Kind[Object]:
        """The resource that serves this kind, to be read as metadata only. Raises ``UnknownKind``."""
        try:
            found = await self._mapper.kind_for(api_version, kind)
        except LookupError as error:
            raise UnknownKind(str(error)) from error
        if found is None:
            raise UnknownKind(f"unable to get REST mapping for {api_version}/{kind}.")
        return found.metadata

    async def get(self, where: Located) -> ObjectMeta | None:
        """The metadata of what is there now."""
        try:
            return (await self._client.get(where.kind, where.name, where.namespace)).metadata
        except NotFound:
            return None

    async def delete(self, where: Located, seen: ObjectMeta, propagation_policy: str) -> bool:
        """Delete the object that was seen, as it was seen. False: it is gone, or another one is in its place.

        If it changed meanwhile but not its owners, the decision to delete it still holds, and only its uid must be the
        same. Raises ``Conflict`` when the owners changed.
        """
        try:
            await self._client.delete(
                where.kind,
                where.name,
                where.namespace,
                uid=seen.uid,
                resource_version=seen.resource_version,
                propagation_policy=propagation_policy,
            )
            return True
        except NotFound:
            return False
        except Conflict:
            latest = await self.get(where)
            if latest is None or latest.uid != seen.uid:
                return False
            if latest.resource_version == seen.resource_version or latest.owner_references != seen.owner_references:
                raise
        try:
            await self._client.delete(
                where.kind, where.name, where.namespace, uid=seen.uid, propagation_policy=propagation_policy
            )
        except NotFound:
            return False
        return True

    async def patch(
        self, where: Located, body: Body, whole: Callable[[ObjectMeta], Body], cached: Object | None
    ) -> None:
        """Send the strategic merge patch, or, where that is not taken, the JSON merge patch made by ``whole``.

        That one is made from ``cached``, or from a live read when there is none; the server answers with a conflict if
        it is out of date. An object that is gone raises ``NotFound``.
        """
        try:
            await self._client.patch(where.kind, where.name, strategic_merge_patch(body), where.namespace)
            return
        except UnsupportedMediaType:
            pass
        source = cached if cached is not None else await self._client.get(where.kind, where.name, where.namespace)
        await self._client.patch(where.kind, where.name, merge_patch(whole(source.metadata)), where.namespace)

    async def remove_finalizer(self, where: Located, uid: str, finalizer: str) -> None:
        """Take the finalizer away from what is there now. Done already, or the object gone, is fine.

        Raises ``Conflict`` when the object changes too often.
        """

        async def remove() -> None:
            latest = await self.get(where)
            if latest is None or latest.uid != uid or finalizer not in latest.finalizers:
                return
            patch = merge_patch(patches.remove_finalizer(latest, finalizer))
            try:
                await self._client.patch(where.kind, where.name, patch, where.namespace)
            except NotFound:
                pass

        await _retry_conflicts(remove)


async def _retry_conflicts(attempt: Callable[[], Awaitable[None]]) -> None:
    pause = FINALIZER_PAUSE_SECONDS
    for _ in range(FINALIZER_TRIES - 1):
        try:
            await attempt()
            return
        except Conflict:
            await asyncio.sleep(pause)
            pause *= FINALIZER_PAUSE_FACTOR
    await attempt()
