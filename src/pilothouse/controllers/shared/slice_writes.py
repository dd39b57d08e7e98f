"""Creates, updates and deletes EndpointSlices, for the EndpointSlice and EndpointSliceMirroring controllers."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from pilothouse.api.discovery import ENDPOINT_SLICES, EndpointSlice
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, NotFound, has_cause
from pilothouse.controllers.shared.slice_tracker import SliceTracker
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.metrics import CounterFamily
from pilothouse.machinery.splice import replace_fields
from pilothouse.semantics.services import TRIGGER_TIME

_encode = msgspec.json.encode


def triggered(each: EndpointSlice, trigger_time: str) -> EndpointSlice:
    """The slice with the annotation ``endpoints.kubernetes.io/last-change-trigger-time``; an empty time removes it."""
    annotations = {key: value for key, value in each.metadata.annotations.items() if key != TRIGGER_TIME}
    if trigger_time:
        annotations[TRIGGER_TIME] = trigger_time
    return replace(each, metadata=replace(each.metadata, annotations=annotations))


def new_body(each: EndpointSlice) -> bytes:
    """The request body of a create."""
    return _encode(
        {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": each.metadata,
            "addressType": each.address_type,
            "endpoints": each.endpoints,
            "ports": each.ports,
        }
    )


def changed_body(raw: bytes, each: EndpointSlice) -> bytes:
    """The request body of an update: the JSON of the cached slice with the fields that the controllers set."""
    annotations = each.metadata.annotations
    return replace_fields(
        raw,
        {
            "metadata.labels": _encode(each.metadata.labels),
            "metadata.annotations": _encode(annotations) if annotations else None,
            "endpoints": _encode(each.endpoints),
        },
    )


class NotWritten(Exception):
    """A request for a slice failed. ``doing`` names it as in upstream's error, such as ``create EndpointSlice``."""

    def __init__(self, doing: str, error: ApiError | OSError) -> None:
        super().__init__(f"failed to {doing}: {error}")
        self.doing = doing
        self.error = error


class SliceWrites:
    """The writes of one controller. ``key`` is that of the Service or Endpoints. ``changes`` counts successful
    writes."""

    def __init__(self, client: Client, tracker: SliceTracker, changes: CounterFamily) -> None:
        self._client = client
        self._tracker = tracker
        self._changes = changes

    async def apply(
        self,
        key: str,
        creates: Iterable[EndpointSlice],
        updates: Iterable[tuple[EndpointSlice, bytes]],
        deletes: Iterable[EndpointSlice],
        *,
        why: str,
    ) -> bool:
        """Create, then update (with the request bodies), then delete slices, until the first failure. ``why`` is the
        reason that is recorded with each write. Returns False if the namespace is terminating. Raises
        ``NotWritten``."""
        for each in creates:
            record_decision(f"a slice for {len(each.endpoints or ())} {each.address_type} endpoints is created: {why}")
            try:
                await self._create(key, each)
            except (ApiError, OSError) as error:
                if isinstance(error, ApiError) and has_cause(error, "NamespaceTerminating"):
                    return False
                raise NotWritten("create EndpointSlice", error) from error
        for each, body in updates:
            name, number = each.metadata.name, len(each.endpoints or ())
            record_decision(f"{name} gets {number} {each.address_type} endpoints: {why}")
            try:
                await self._update(key, each, body)
            except (ApiError, OSError) as error:
                raise NotWritten(f"update {each.metadata.name} EndpointSlice", error) from error
        for each in deletes:
            record_decision(f"{each.metadata.name} is left without endpoints and deleted: {why}")
            try:
                await self.delete(key, each)
            except (ApiError, OSError) as error:
                raise NotWritten(f"delete {each.metadata.name} EndpointSlice", error) from error
        return True

    async def _create(self, key: str, each: EndpointSlice) -> None:
        namespace = each.metadata.namespace
        self._tracker.wrote(key, await self._client.create(ENDPOINT_SLICES, new_body(each), namespace))
        self._changes.labels("create").inc()

    async def _update(self, key: str, each: EndpointSlice, body: bytes) -> None:
        meta = each.metadata
        self._tracker.wrote(key, await self._client.update(ENDPOINT_SLICES, meta.name, body, meta.namespace))
        self._changes.labels("update").inc()

    async def delete(self, key: str, each: EndpointSlice, *, counted: bool = True) -> None:
        """Delete a slice. A slice that does not exist is not an error, and is not counted."""
        try:
            await self._client.delete(ENDPOINT_SLICES, each.metadata.name, each.metadata.namespace)
        except NotFound:
            return
        self._tracker.deleted(key, each)
        if counted:
            self._changes.labels("delete").inc()
