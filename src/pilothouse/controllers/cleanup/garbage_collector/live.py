"""The garbage collector's requests: live reads of metadata, deletions with preconditions, patches with a fallback."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client, merge_patch, strategic_merge_patch
from pilothouse.client.errors import Conflict, NotFound, UnsupportedMediaType
from pilothouse.controllers.cleanup.garbage_collector import patches
from pilothouse.controllers.cleanup.garbage_collector.patches import Body
from pilothouse.runtime.cache import Cached

FINALIZER_TRIES = 4
FINALIZER_PAUSE_SECONDS = 0.01
FINALIZER_PAUSE_FACTOR = 5.0
"""client-go ``retry.DefaultBackoff`` (v0.36)."""


class UnknownKind(Exception):
    """The server does not serve the kind, or discovery failed. Nothing can be concluded from that."""

    resource = ""
    """The resource whose path the server does not know, with its group."""


class UnservedKind(UnknownKind):
    """Discovery does not have that kind. Only a later discovery can change that."""

    def __init__(self, api_version: str, kind: str) -> None:
        super().__init__(f"unable to get REST mapping for {api_version}/{kind}.")
        self.api_version = api_version
        self.kind = kind


KindOf = Callable[[str, str], Kind[Object] | None]
"""The resource that serves objects of an apiVersion and kind, by the last discovery."""


class Located(msgspec.Struct, frozen=True):
    kind: Kind[Object]
    namespace: str
    name: str


class Live:
    def __init__(self, client: Client, kind_of: KindOf) -> None:
        self._client = client
        self._kind_of = kind_of
        self._unknown: set[str] = set()

    def is_first_report(self, unknown: UnknownKind) -> bool:
        """Whether this resource was not reported since the server last answered a read of it."""
        first = unknown.resource not in self._unknown
        self._unknown.add(unknown.resource)
        return first

    def kind_of(self, api_version: str, kind: str) -> Kind[Object]:
        """The resource that serves this kind, to be read as metadata only. Raises ``UnservedKind``."""
        resource = self._kind_of(api_version, kind)
        if resource is None:
            raise UnservedKind(api_version, kind)
        return resource

    async def get(self, located: Located) -> ObjectMeta | None:
        """The metadata of the live object, None if it certainly does not exist."""
        try:
            found: ObjectMeta | None = (await self._client.get(located.kind, located.name, located.namespace)).metadata
        except NotFound as error:
            _verify_not_found(error, located)
            found = None
        self._unknown.discard(located.kind.group_resource)
        return found

    async def delete(self, located: Located, observed: ObjectMeta, propagation_policy: str) -> bool:
        """Delete the object that was read, if it has not changed. False: it was deleted, or replaced by another one.

        If it has changed, but not its owners, the decision is still valid, and only the uid is a precondition. Raises
        ``Conflict`` if the owners changed.
        """
        try:
            await self._client.delete(
                located.kind,
                located.name,
                located.namespace,
                uid=observed.uid,
                resource_version=observed.resource_version,
                propagation_policy=propagation_policy,
            )
            return True
        except NotFound as error:
            _verify_not_found(error, located)
            return False
        except Conflict:
            latest = await self.get(located)
            if latest is None or latest.uid != observed.uid:
                return False
            if (
                latest.resource_version == observed.resource_version
                or latest.owner_references != observed.owner_references
            ):
                raise
        try:
            await self._client.delete(
                located.kind, located.name, located.namespace, uid=observed.uid, propagation_policy=propagation_policy
            )
        except NotFound as error:
            _verify_not_found(error, located)
            return False
        return True

    async def patch(
        self, located: Located, body: Body, json_merge_patch: Callable[[ObjectMeta], Body], cached: Cached | None
    ) -> bool:
        """Send the strategic merge patch or, if that is not supported, ``json_merge_patch``.

        The latter is based on ``cached``, or on a live read if there is none; it is a conflict if that is old. False:
        the object does not exist.
        """
        try:
            await self._client.patch(located.kind, located.name, strategic_merge_patch(body), located.namespace)
            return True
        except UnsupportedMediaType:
            pass
        except NotFound as error:
            _verify_not_found(error, located)
            return False
        source = cached.metadata if cached is not None else await self.get(located)
        if source is None:
            return False
        try:
            await self._client.patch(
                located.kind, located.name, merge_patch(json_merge_patch(source)), located.namespace
            )
        except NotFound as error:
            _verify_not_found(error, located)
            return False
        return True

    async def remove_finalizer(self, located: Located, uid: str, finalizer: str) -> None:
        """Remove the finalizer from the live object, if it is there. Raises ``Conflict`` if the object changes too
        often."""

        async def remove() -> None:
            latest = await self.get(located)
            if latest is None or latest.uid != uid or finalizer not in latest.finalizers:
                return
            patch = merge_patch(patches.remove_finalizer(latest, finalizer))
            try:
                await self._client.patch(located.kind, located.name, patch, located.namespace)
            except NotFound as error:
                _verify_not_found(error, located)

        await _retry_conflicts(remove)


async def _retry_conflicts(attempt: Callable[[], Awaitable[None]]) -> None:
    delay = FINALIZER_PAUSE_SECONDS
    for _ in range(FINALIZER_TRIES - 1):
        try:
            await attempt()
            return
        except Conflict:
            await asyncio.sleep(delay)
            delay *= FINALIZER_PAUSE_FACTOR
    await attempt()


def _verify_not_found(error: NotFound, located: Located) -> None:
    """A 404 proves that an object is absent only if it names the object.

    If the details do not have the name, the path is unknown: the resource is not served any more, or a proxy responds
    instead of the server. Objects must not be deleted because of that. Raises ``UnknownKind``.
    """
    details = error.status.details
    if details is None or details.name != located.name:
        unknown = UnknownKind(f"{located.kind.group_resource} {located.name}: {error}")
        unknown.resource = located.kind.group_resource
        raise unknown from error
