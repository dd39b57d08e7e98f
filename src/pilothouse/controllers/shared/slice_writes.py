"""Creates, updates and deletes EndpointSlices, for the EndpointSlice and EndpointSliceMirroring controllers."""

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from pilothouse.api.discovery import ENDPOINT_SLICES, PARTIAL_ENDPOINT_SLICES, EndpointSlice, PartialEndpointSlice
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, NotFound, has_cause
from pilothouse.controllers.shared.slice_tracker import SliceTracker
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.metrics import CounterFamily
from pilothouse.machinery.splice import replace_fields
from pilothouse.semantics.services import TRIGGER_TIME

_encode = msgspec.json.encode


def triggered(endpoint_slice: EndpointSlice, trigger_time: str) -> EndpointSlice:
    """The slice with the annotation ``endpoints.kubernetes.io/last-change-trigger-time``; an empty time removes it."""
    annotations = {key: value for key, value in endpoint_slice.metadata.annotations.items() if key != TRIGGER_TIME}
    if trigger_time:
        annotations[TRIGGER_TIME] = trigger_time
    return replace(endpoint_slice, metadata=replace(endpoint_slice.metadata, annotations=annotations))


def new_body(endpoint_slice: EndpointSlice) -> bytes:
    """The request body of a create. Empty lists are null, as in upstream's protobuf, which has no empty lists:
    they have no field in managedFields."""
    return _encode(
        {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": endpoint_slice.metadata,
            "addressType": endpoint_slice.address_type,
            "endpoints": endpoint_slice.endpoints or None,
            "ports": endpoint_slice.ports or None,
        }
    )


def changed_body(raw: bytes, endpoint_slice: EndpointSlice) -> bytes:
    """The request body of an update: the JSON of the cached slice with the fields that the controllers set."""
    annotations = endpoint_slice.metadata.annotations
    return replace_fields(
        raw,
        {
            "metadata.labels": _encode(endpoint_slice.metadata.labels),
            "metadata.annotations": _encode(annotations) if annotations else None,
            "endpoints": _encode(endpoint_slice.endpoints or None),
        },
    )


class NotWritten(Exception):
    """A request for a slice failed. ``operation`` names it as in upstream's error, such as ``create EndpointSlice``."""

    def __init__(self, operation: str, error: ApiError | OSError) -> None:
        super().__init__(f"failed to {operation}: {error}")
        self.operation = operation
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
        deletes: Iterable[PartialEndpointSlice],
        *,
        reason: str,
    ) -> bool:
        """Create, then update (with the request bodies), then delete slices, until the first failure. ``reason`` is the
        reason that is recorded with each write. Returns False if the namespace is terminating. Raises
        ``NotWritten``."""
        for endpoint_slice in creates:
            record_decision(
                f"a slice for {len(endpoint_slice.endpoints or ())} {endpoint_slice.address_type} endpoints "
                f"is created: {reason}"
            )
            try:
                await self._create(key, endpoint_slice)
            except (ApiError, OSError) as error:
                if isinstance(error, ApiError) and has_cause(error, "NamespaceTerminating"):
                    return False
                raise NotWritten("create EndpointSlice", error) from error
        for endpoint_slice, body in updates:
            name, number = endpoint_slice.metadata.name, len(endpoint_slice.endpoints or ())
            record_decision(f"{name} gets {number} {endpoint_slice.address_type} endpoints: {reason}")
            try:
                await self._update(key, endpoint_slice, body)
            except (ApiError, OSError) as error:
                raise NotWritten(f"update {endpoint_slice.metadata.name} EndpointSlice", error) from error
        for unused in deletes:
            record_decision(f"{unused.metadata.name} is left without endpoints and deleted: {reason}")
            try:
                await self.delete(key, unused)
            except (ApiError, OSError) as error:
                raise NotWritten(f"delete {unused.metadata.name} EndpointSlice", error) from error
        return True

    async def _create(self, key: str, endpoint_slice: EndpointSlice) -> None:
        body, namespace = new_body(endpoint_slice), endpoint_slice.metadata.namespace
        self._tracker.update(key, await self._client.create(PARTIAL_ENDPOINT_SLICES, body, namespace))
        self._changes.labels("create").inc()

    async def _update(self, key: str, endpoint_slice: EndpointSlice, body: bytes) -> None:
        meta = endpoint_slice.metadata
        self._tracker.update(key, await self._client.update(PARTIAL_ENDPOINT_SLICES, meta.name, body, meta.namespace))
        self._changes.labels("update").inc()

    async def delete(self, key: str, endpoint_slice: PartialEndpointSlice, *, counted: bool = True) -> None:
        """Delete a slice. A slice that does not exist is not an error, and is not counted."""
        try:
            await self._client.delete(ENDPOINT_SLICES, endpoint_slice.metadata.name, endpoint_slice.metadata.namespace)
        except NotFound:
            return
        self._tracker.deleted(key, endpoint_slice)
        if counted:
            self._changes.labels("delete").inc()
