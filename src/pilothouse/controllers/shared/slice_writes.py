"""Sending slices: what is written, and that the server's answer is remembered. Used by both controllers of slices."""

import msgspec
from msgspec.structs import replace

from pilothouse.api.discovery import ENDPOINT_SLICES, EndpointSlice
from pilothouse.client import Client
from pilothouse.client.errors import NotFound
from pilothouse.controllers.shared.slice_tracker import SliceTracker
from pilothouse.machinery.splice import replace_fields
from pilothouse.semantics.services import TRIGGER_TIME

_encode = msgspec.json.encode


def triggered(each: EndpointSlice, trigger_time: str) -> EndpointSlice:
    """The slice with the annotation that tells what it is written for; without it if nothing has a time."""
    annotations = {key: value for key, value in each.metadata.annotations.items() if key != TRIGGER_TIME}
    if trigger_time:
        annotations[TRIGGER_TIME] = trigger_time
    return replace(each, metadata=replace(each.metadata, annotations=annotations))


def new_body(each: EndpointSlice) -> bytes:
    """A slice that is made, or takes another's place: all of it is ours."""
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
    """The slice as it was read, with what this program decides put in."""
    annotations = each.metadata.annotations
    return replace_fields(
        raw,
        {
            "metadata.labels": _encode(each.metadata.labels),
            "metadata.annotations": _encode(annotations) if annotations else None,
            "endpoints": _encode(each.endpoints),
        },
    )


class SliceWrites:
    """The three writes of one controller, each for the key of a service (or Endpoints)."""

    def __init__(self, client: Client, tracker: SliceTracker) -> None:
        self._client = client
        self._tracker = tracker

    async def create(self, key: str, each: EndpointSlice) -> None:
        """A new slice."""
        namespace = each.metadata.namespace
        self._tracker.wrote(key, await self._client.create(ENDPOINT_SLICES, new_body(each), namespace))

    async def update(self, key: str, each: EndpointSlice, body: bytes) -> None:
        """A slice that is there."""
        meta = each.metadata
        self._tracker.wrote(key, await self._client.update(ENDPOINT_SLICES, meta.name, body, meta.namespace))

    async def delete(self, key: str, each: EndpointSlice) -> bool:
        """A slice is to go; whether it was there."""
        try:
            await self._client.delete(ENDPOINT_SLICES, each.metadata.name, each.metadata.namespace)
        except NotFound:
            return False
        self._tracker.deleted(key, each)
        return True
