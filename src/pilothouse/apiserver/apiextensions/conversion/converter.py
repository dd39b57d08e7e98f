"""``Converter``: converts objects of one definition between its versions, by its webhook.

Reads follow the storage codec of apiextensions ``pkg/apiserver/customresource_handler.go`` (v0.36): an object is pruned
and defaulted by the schema of the version that it is stored in, converted, and pruned by the schema of the requested
version. Written objects are converted, and pruned by the schema of the storage version. The objects of a list are sent
in batches of up to ``_MAX_BATCH_BYTES`` and ``_MAX_BATCH_OBJECTS``; upstream's cache calls the webhook for each object.
"""

import asyncio
from collections.abc import Iterator, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.apiextensions.conversion.cache import ConversionCache
from pilothouse.apiserver.apiextensions.conversion.reviews import truncate
from pilothouse.apiserver.apiextensions.conversion.webhook_converter import WebhookConverter
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, decode, encode, encode_object
from pilothouse.apiserver.registry.generic.managed_fields import with_decoded_managed_fields
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.bodies import DecodeError

_MAX_BATCH_BYTES = 1 << 20
_MAX_BATCH_OBJECTS = 1000
_Converted = dict[bytes, bytes]
"""Stored bytes → the object in the requested version."""


class Converter:
    """Converts by webhook. ``versions`` are all versions of the definition by API version, served or not; they are
    added by the creator."""

    def __init__(self, core: Core, webhook: WebhookConverter, cache: ConversionCache) -> None:
        self.versions: dict[str, ResourceInfo] = {}
        self.webhook = webhook
        self._core = core
        self._cache = cache
        self._pending: dict[tuple[str, ResourceInfo, bytes], asyncio.Future[_Converted | StatusError | None]] = {}
        """Pending calls by caller and object; requests for the same object wait for the same call. The result None
        means that the call was cancelled and has to be repeated."""

    # Reading

    async def from_storage(
        self, target: ResourceInfo, values: Sequence[bytes], *, bypass_cache: bool = False
    ) -> list[bytes]:
        """Convert stored objects to the version of ``target``. ``bypass_cache``: call the webhook even if the
        conversion is cached.

        Raises ``StatusError`` if one of them cannot be converted.
        """
        converted: _Converted = {}
        remaining: list[bytes] = []
        for value in dict.fromkeys(values):
            if value.startswith(target.head):
                converted[value] = self._core.from_storage_nowait(target, value)
            else:
                remaining.append(value)
        if remaining:
            converted |= (
                await self._convert_batches(target, remaining)
                if bypass_cache
                else await self._convert_with_cache(target, remaining)
            )
        return [converted[value] for value in values]

    async def _convert_with_cache(self, target: ResourceInfo, values: Sequence[bytes]) -> _Converted:
        """Convert with the cache, with pending calls, and with a call of its own for the remaining objects."""
        converted: _Converted = {}
        caller = self._core.webhook_caller()
        while len(converted) < len(values):
            remaining: list[bytes] = []
            pending_calls: dict[asyncio.Future[_Converted | StatusError | None], None] = {}
            for value in values:
                if value in converted:
                    continue
                cached = self._cache.get(target, value)
                if cached is not None:
                    converted[value] = cached
                elif (call := self._pending.get((caller, target, value))) is not None:
                    pending_calls[call] = None
                else:
                    remaining.append(value)
            if remaining:
                converted |= await self._convert_for_all_waiters(caller, target, remaining)
            for call in pending_calls:
                await asyncio.wait([call])
                result = call.result()
                if isinstance(result, StatusError):
                    raise result
                converted |= {value: result[value] for value in values if value in result} if result else {}
        return converted

    async def _convert_for_all_waiters(self, caller: str, target: ResourceInfo, values: Sequence[bytes]) -> _Converted:
        call: asyncio.Future[_Converted | StatusError | None] = asyncio.get_running_loop().create_future()
        for value in values:
            self._pending[caller, target, value] = call
        result: _Converted | StatusError | None = None
        try:
            result = await self._convert_batches(target, values)
        except StatusError as error:
            result = error
            raise
        finally:
            for value in values:
                del self._pending[caller, target, value]
            call.set_result(result)
        return result

    async def _convert_batches(self, target: ResourceInfo, values: Sequence[bytes]) -> _Converted:
        result: _Converted = {}
        work = self._core.long_work
        for batch in _batches(values):
            size = sum(map(len, batch))
            objects = await work.run(size, self._read, batch)
            # Upstream converts what is stored in etcd, before it sets the resource version.
            versions = [obj["metadata"].pop("resourceVersion", None) for obj in objects]
            converted = await self.webhook.convert(objects, target.api_version, size)
            for obj, version in zip(converted, versions, strict=True):
                if version is not None:
                    obj["metadata"]["resourceVersion"] = version
            encoded = await work.run(size, self._write, target, converted)
            for value, text in zip(batch, encoded, strict=True):
                result[value] = text
                self._cache.put(target, value, text)
        return result

    def _read(self, values: Sequence[bytes]) -> list[Object]:
        objects = []
        for position, value in enumerate(values):
            obj = decode(value)
            stored_as = self.versions.get(obj.get("apiVersion") or "")
            if stored_as is None:
                api_version = truncate(str(obj.get("apiVersion") or ""))
                if len(values) == 1:
                    raise errors.plain(f"request to convert CR from an invalid group/version: {api_version}")
                detail = f"list index {position} has invalid group/version: {api_version}"
                raise errors.plain(f"request to convert CR list failed, {detail}")
            stored_as.custom.prune_and_default(obj)
            objects.append(obj)
        return objects

    def _write(self, target: ResourceInfo, objects: Sequence[Object]) -> list[bytes]:
        strategy = target.custom.strategy
        return [encode_object(target, strategy.to_storage(strategy.storage, _pruned(target, obj))) for obj in objects]

    # Writing

    async def to_storage(self, source: ResourceInfo, obj: Object) -> Object:
        """An object in the version of ``source``, converted to the storage version; ``obj`` is not changed."""
        storage: ResourceInfo = source.custom.strategy.storage
        converted = await self.convert({**obj, "kind": source.kind, "apiVersion": source.api_version}, storage)
        result: Object = source.custom.strategy.to_storage(storage, converted)
        owners = obj["metadata"].get("managedFields")
        if owners is not None:
            # Webhooks must not change managed fields; they stay encoded.
            result["metadata"] = {**result["metadata"], "managedFields": owners}
        return result

    async def convert(self, obj: Object, target: ResourceInfo, *, pruned: bool = True) -> Object:
        """Convert an object to the version of ``target``, which differs from its own. ``pruned``: remove fields that
        the schema does not specify. Raises ``StatusError``."""
        decoded = with_decoded_managed_fields(obj)
        if decoded.keys() <= {"kind", "apiVersion"}:
            return {**decoded, "apiVersion": target.api_version}  # upstream calls no webhook for an empty object
        (converted,) = await self.webhook.convert([decoded], target.api_version, len(encode(decoded)))
        return _pruned(target, converted) if pruned else converted


def _pruned(target: ResourceInfo, obj: Object) -> Object:
    try:
        target.custom.prune_converted(obj)
    except DecodeError as error:
        raise errors.plain(str(error)) from None
    return obj


def _batches(values: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The objects by webhook call; an object larger than the limit has a call of its own."""
    batch: list[bytes] = []
    size = 0
    for value in values:
        if batch and (size + len(value) > _MAX_BATCH_BYTES or len(batch) == _MAX_BATCH_OBJECTS):
            yield batch
            batch, size = [], 0
        batch.append(value)
        size += len(value)
    if batch:
        yield batch
