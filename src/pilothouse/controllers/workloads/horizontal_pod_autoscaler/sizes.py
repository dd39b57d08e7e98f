"""The size of the target: found by discovery, read and written through its subresource ``scale``.

Upstream: ``scaleForResourceMappings`` of v1.36 ``pkg/controller/podautoscaler/horizontal.go``, and client-go's
``scale``.
"""

from typing import Any

import msgspec

from pilothouse.api.autoscaling import CrossVersionObjectReference, Scale
from pilothouse.api.kinds import Kind
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError, UndecodableObject
from pilothouse.controllers.shared.conflicts import RETRY, retry_on_conflict
from pilothouse.env import Log
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.splice import replace_fields

PASSING = (ApiError, OSError, UndecodableObject)
"""Errors of the server or the connection."""


class ScaleTargetNotFound(Exception):
    """The target does not exist. ``by_spec``: the reference is invalid."""

    def __init__(self, text: str, *, by_spec: bool = False) -> None:
        super().__init__(text)
        self.by_spec = by_spec


class Target(msgspec.Struct, frozen=True):
    """A scale, decoded and as JSON."""

    kind: Kind[Any]
    scale: Scale
    raw: msgspec.Raw


class ScaleClient:
    def __init__(self, client: Client, mapper: RestMapper, log: Log) -> None:
        self._client = client
        self._log = log
        self._mapper = mapper

    async def read(self, reference: CrossVersionObjectReference, namespace: str) -> Target:
        """The scale of the target, in the server's preferred version, whatever version the reference has. Raises
        ``ScaleTargetNotFound`` and the client's errors."""
        first: Exception | None = None
        for kind in await self._kinds(reference):
            try:
                return await self._read(kind, reference.name, namespace)
            except PASSING as error:
                first = first or error
        raise first or ScaleTargetNotFound("unrecognized resource")

    async def set(self, target: Target, replicas: int) -> None:
        """Set the size, also after a conflict. Raises the client's errors."""
        meta = target.scale.metadata
        raw = target.raw

        async def write(attempt: int) -> None:
            nonlocal raw
            if attempt:
                try:
                    raw = (await self._read(target.kind, meta.name, meta.namespace)).raw
                except PASSING as error:
                    reference = f"{meta.namespace}/{meta.name}"
                    self._log.error("Error getting latest scale during conflict retry", error=error, scale=reference)
            body = replace_fields(raw, {"spec.replicas": b"%d" % replicas})
            await self._client.update(target.kind.raw, meta.name, body, meta.namespace, subresource="scale")

        await retry_on_conflict(write, RETRY)

    async def _read(self, kind: Kind[Any], name: str, namespace: str) -> Target:
        raw = await self._client.get(kind.raw, name, namespace, subresource="scale")
        try:
            return Target(kind, msgspec.json.decode(raw, type=Scale), raw)
        except msgspec.MsgspecError as error:
            raise UndecodableObject(
                f"the scale of {kind.group_resource} {namespace}/{name}", str(error), raw
            ) from error

    async def _kinds(self, reference: CrossVersionObjectReference) -> list[Kind[Any]]:
        group = _group_of(reference.api_version)
        discovery = await self._mapper.discovery()
        kinds = [resource.as_kind() for resource in discovery.preferred_for(group, reference.kind)]
        if not kinds:
            raise ScaleTargetNotFound(f"no matches for kind {quote(reference.kind)} in group {quote(group)}")
        return kinds


def _group_of(api_version: str) -> str:
    """``apps`` of ``apps/v1``, empty for ``v1``."""
    if api_version.count("/") > 1:
        raise ScaleTargetNotFound(f"unexpected GroupVersion string: {api_version}", by_spec=True)
    return api_version.rpartition("/")[0]
