"""Keeps the rows of one resource up to date: lists in pages, watches, and starts again after errors.

Only the row of an object and one page of a list are kept, so that memory grows with rows, not with objects. A feed
never ends by itself: ``error`` has the current error for the user. A user who may not read all namespaces gets the
namespace of the kubeconfig's context.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Forbidden, Gone, NotFound, UndecodableObject
from pilothouse.env import Env

PAGE = 500
_ROWS_PER_TURN = 100
_FIRST_PAUSE, _LONGEST_PAUSE = 0.8, 30.0
_WATCH_SECONDS = 300
_SHORT_WATCH_SECONDS = 1.0

Put = Callable[[str, bytes], None]
"""Receives an object's key and its JSON."""


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    metadata: _Metadata


_named = msgspec.json.Decoder(_Named)


def prefix_of(kind: Kind[Any]) -> str:
    """The prefix of the keys of a resource: ``apps/deployments/``."""
    return f"{kind.group}/{kind.resource}/"


class Feed:
    """The rows of ``kind`` in ``namespace``, or in all namespaces if it is empty. ``put`` receives objects, ``drop``
    keys of deleted objects; ``changed`` is called after changes of ``error`` and ``synced``. ``fallback`` is read
    instead if all namespaces are forbidden. ``find`` returns the version of a resource that the API server serves."""

    def __init__(
        self,
        client: Client,
        env: Env,
        kind: Kind[Any],
        *,
        put: Put,
        drop: Callable[[str], None],
        changed: Callable[[], None],
        find: Callable[[Kind[Any]], Awaitable[Kind[Any] | None]],
        namespace: str = "",
        fallback: str = "",
    ) -> None:
        self.kind = kind
        self.namespace = namespace if kind.namespaced else ""
        self.error = ""
        self.synced = False
        self.restricted = False
        """Whether one namespace is read because all namespaces are forbidden."""
        self._client = client
        self._env = env
        self._put, self._drop, self._changed, self._find = put, drop, changed, find
        self._fallback = fallback
        self._keys: set[str] = set()  # only iterated in sorted order
        self._pause = _FIRST_PAUSE

    async def run(self) -> None:
        """List and watch until cancelled."""
        version = ""
        while True:
            try:
                if not version:
                    version = await self.read()
                version = await self._watch(version)
            except Gone:
                version = ""
                await self._wait("")
            except (ApiError, OSError, UndecodableObject, msgspec.MsgspecError) as error:
                if isinstance(error, NotFound) and await self._other_version():
                    continue
                if isinstance(error, Forbidden) and self._narrow():
                    continue
                if not isinstance(error, OSError):
                    version = ""
                await self._wait(str(error))

    async def read_once(self, revision: str) -> None:
        """List at a resourceVersion; on failure ``error`` is set."""
        try:
            try:
                await self.read(revision=revision)
            except NotFound:
                if not await self._other_version():
                    raise
                await self.read(revision=revision)
            except Forbidden:
                if not self._narrow():
                    raise
                await self.read(revision=revision)
        except (ApiError, OSError, UndecodableObject, msgspec.MsgspecError) as error:
            self.error = str(error)
            self._changed()

    async def read(self, *, revision: str = "") -> str:
        """List everything, at a resourceVersion if given. Returns the resourceVersion of the list."""
        uids: set[str] = set()
        token, kind = "", self.kind.raw
        exact = "Exact" if revision else ""
        while True:
            page = await self._client.list(
                kind,
                self.namespace,
                limit=PAGE,
                continue_=token,
                # A continue token implies it.
                resource_version="" if token else revision,
                resource_version_match="" if token else exact,
            )
            for count, raw in enumerate(page.items, 1):
                uids.add(self._take(bytes(raw)))
                if count % _ROWS_PER_TURN == 0:
                    await asyncio.sleep(0)
            token = page.metadata.continue_
            if not token:
                break
        for key in sorted(self._keys - uids):
            self._drop(key)
        self._keys = uids
        self._is_well()
        return page.metadata.resource_version

    def _take(self, raw: bytes) -> str:
        metadata = _named.decode(raw).metadata
        key = self._key(metadata)
        self._put(key, raw)
        return key

    def _key(self, metadata: _Metadata) -> str:
        full_name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        return prefix_of(self.kind) + full_name

    async def _watch(self, version: str) -> str:
        """Watch until the watch ends. Returns the last resourceVersion."""
        started = self._env.monotonic()
        watch = self._client.watch(
            self.kind.raw, self.namespace, resource_version=version, timeout_seconds=_WATCH_SECONDS
        )
        async with watch as batches:
            self._is_well()
            async for batch in batches:
                for count, event in enumerate(batch, 1):
                    raw = bytes(event.object)
                    metadata = _named.decode(raw).metadata
                    version = metadata.resource_version or version
                    if event.type == "DELETED":
                        key = self._key(metadata)
                        self._keys.discard(key)
                        self._drop(key)
                    elif event.type != "BOOKMARK":
                        self._keys.add(self._take(raw))
                    if count % _ROWS_PER_TURN == 0:
                        await asyncio.sleep(0)
        if self._env.monotonic() - started < _SHORT_WATCH_SECONDS:
            await self._wait("the API server ends watches at once")
        return version

    def _is_well(self) -> None:
        self._pause = _FIRST_PAUSE
        if self.error or not self.synced:
            self.error, self.synced = "", True
            self._changed()

    async def _wait(self, error: str) -> None:
        if error and error != self.error:
            self.error = error
            self._changed()
        pause, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        await asyncio.sleep(pause)

    def _narrow(self) -> bool:
        """Read one namespace instead of all."""
        if not self.kind.namespaced or self.namespace or not self._fallback:
            return False
        self.namespace, self.restricted = self._fallback, True
        return True

    async def _other_version(self) -> bool:
        try:
            served = await self._find(self.kind)
        except (ApiError, OSError):
            return False
        if served is None or served.version == self.kind.version:
            return False
        self.kind = served
        return True
