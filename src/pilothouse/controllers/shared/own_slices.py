"""The slices that one controller manages: which there are for a service, and which events show a foreign change.

Used by both controllers of slices, which share one cache. Upstream: v1.36
``pkg/controller/endpointslice/endpointslice_controller.go`` and
``pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go``.
"""

from collections.abc import Callable

from pilothouse.api.discovery import ENDPOINT_SLICES, EndpointSlice, PartialEndpointSlice
from pilothouse.controllers.shared.cached_json import CachedJson, cached_json
from pilothouse.controllers.shared.slice_tracker import SliceTracker
from pilothouse.controllers.shared.slices import manager_of, service_key_of
from pilothouse.runtime import Cache, SharedInformer

OWN_INDEX = "managedFor"
"""Slices by their labels: the controller that manages them, and the service that they are of."""


def index_by_manager(endpoint_slice: PartialEndpointSlice) -> tuple[str, ...]:
    key = service_key_of(endpoint_slice)
    return (f"{manager_of(endpoint_slice)} {key}",) if key else ()


class OwnSlices:
    """``enqueue`` is called with the key of each Service if a slice that the controller manages or managed has
    changed."""

    def __init__(
        self,
        slices: SharedInformer[PartialEndpointSlice],
        manager: str,
        tracker: SliceTracker,
        enqueue: Callable[[str], None],
    ) -> None:
        self._cache: Cache[PartialEndpointSlice] = slices.cache
        self._manager = manager
        self._tracker = tracker
        self._enqueue_key = enqueue
        self._cache.add_index(OWN_INDEX, index_by_manager)
        slices.add_handler(self._on_add, self._on_update, self._on_delete)

    def of(self, key: str) -> list[PartialEndpointSlice]:
        """The managed slices of the Service with that key, without their endpoints, sorted by name."""
        return self._cache.by_index(OWN_INDEX, f"{self._manager} {key}")

    def with_endpoints(self, endpoint_slice: PartialEndpointSlice) -> CachedJson[EndpointSlice]:
        """A slice of ``of`` with its endpoints."""
        return cached_json(self._cache, endpoint_slice.metadata, ENDPOINT_SLICES)

    def _is_own(self, endpoint_slice: PartialEndpointSlice) -> bool:
        return manager_of(endpoint_slice) == self._manager

    def _enqueue(self, endpoint_slice: PartialEndpointSlice) -> None:
        key = service_key_of(endpoint_slice)
        if key:
            self._enqueue_key(key)

    def _on_add(self, endpoint_slice: PartialEndpointSlice, _initial: bool) -> None:
        if self._is_own(endpoint_slice) and self._tracker.is_foreign_change(
            service_key_of(endpoint_slice), endpoint_slice
        ):
            self._enqueue(endpoint_slice)

    def _on_update(self, old: PartialEndpointSlice, new: PartialEndpointSlice) -> None:
        if self._is_own(old) and not (self._is_own(new) and service_key_of(old) == service_key_of(new)):
            self._tracker.release(service_key_of(old), old)
        if service_key_of(old) != service_key_of(new):
            self._enqueue(old)
            self._enqueue(new)
        elif self._is_own(old) != self._is_own(new) or (
            self._is_own(new) and self._tracker.is_foreign_change(service_key_of(new), new)
        ):
            self._enqueue(new)

    def _on_delete(self, endpoint_slice: PartialEndpointSlice, _unknown: bool) -> None:
        if self._is_own(endpoint_slice) and self._tracker.handle_deletion(
            service_key_of(endpoint_slice), endpoint_slice
        ):
            self._enqueue(endpoint_slice)
