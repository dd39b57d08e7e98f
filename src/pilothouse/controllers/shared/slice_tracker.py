"""Which slices this process has written, so that a sync of an older cache changes nothing.

Without it a slice that is not in the cache yet would be created twice (kubernetes#93374, #100033). Upstream: v1.36
``staging/src/k8s.io/endpointslice/util/endpointslice_tracker.go``. Used by both controllers of slices.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from pilothouse.api.discovery import PartialEndpointSlice
from pilothouse.machinery.resource_versions import compare
from pilothouse.runtime import RetryLater

_DELETED = -1


class StaleSlices(RetryLater):
    """The cache of slices is older than the controller's own writes. The key is retried with backoff."""

    def __init__(self) -> None:
        super().__init__("EndpointSlice informer cache is out of date")


class _Written(NamedTuple):
    """The last write of a slice: its uid and version."""

    generation: int
    version: str


class SliceTracker:
    """The controller's writes of slices, by the key of their Service (or Endpoints) and their uid. ``read_version``
    returns the version that the cache of slices has reached.

    Another client may delete a slice, and the event may arrive, before the response to the controller's own write: if
    the cache is newer than that write and does not have the slice, it was deleted. Upstream waits for such a slice
    until its Service is deleted.
    """

    def __init__(self, read_version: Callable[[], str]) -> None:
        self._read_version = read_version
        self._known: dict[str, dict[str, _Written]] = {}

    def update(self, key: str, written: PartialEndpointSlice) -> None:
        """Record the response to a create or an update."""
        meta = written.metadata
        self._known.setdefault(key, {})[meta.uid] = _Written(meta.generation, meta.resource_version)

    def deleted(self, key: str, endpoint_slice: PartialEndpointSlice) -> None:
        """We have deleted it, so its event is ignored."""
        self._known.setdefault(key, {})[endpoint_slice.metadata.uid] = _Written(
            _DELETED, endpoint_slice.metadata.resource_version
        )

    def is_foreign_change(self, key: str, endpoint_slice: PartialEndpointSlice) -> bool:
        """Whether an event shows a change by another client."""
        written = self._known.get(key, {}).get(endpoint_slice.metadata.uid)
        return written is None or endpoint_slice.metadata.generation > written.generation

    def handle_deletion(self, key: str, endpoint_slice: PartialEndpointSlice) -> bool:
        """A slice was deleted from the cache. Returns whether another client deleted it, including slices that an
        earlier process wrote. Upstream checks only those that this process wrote, and does not recreate a slice that is
        deleted after a restart."""
        writes = self._known.get(key, {})
        written = writes.pop(endpoint_slice.metadata.uid, None)
        if not writes:
            self._known.pop(key, None)
        return written is None or written.generation != _DELETED

    def release(self, key: str, endpoint_slice: PartialEndpointSlice) -> None:
        """The slice has another manager or service now. Upstream continues to wait for it here."""
        self.handle_deletion(key, endpoint_slice)

    def check(self, key: str, slices: Iterable[PartialEndpointSlice]) -> None:
        """Raise ``StaleSlices`` unless the given slices are at least as new as the recorded writes."""
        writes = self._known.get(key)
        if not writes:
            return
        generations = {endpoint_slice.metadata.uid: endpoint_slice.metadata.generation for endpoint_slice in slices}
        for uid in [uid for uid, written in writes.items() if uid not in generations and self._is_gone(written)]:
            del writes[uid]
        for uid, written in writes.items():
            if written.generation == _DELETED or generations.get(uid, -1) < written.generation:
                raise StaleSlices
        if not writes:
            del self._known[key]

    def _is_gone(self, written: _Written) -> bool:
        """Whether a slice that is not in the cache was deleted, and is not just too new for it."""
        if written.generation == _DELETED:
            return True
        order = compare(self._read_version(), written.version)
        return order is not None and order >= 0

    def forget(self, key: str) -> None:
        self._known.pop(key, None)
