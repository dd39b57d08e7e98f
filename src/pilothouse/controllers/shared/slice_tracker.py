"""Which slices this process has written, so that a look at an older cache changes nothing.

Without it a slice that the cache does not show yet would be made a second time (kubernetes#93374, #100033). Upstream:
v1.36 ``staging/src/k8s.io/endpointslice/util/endpointslice_tracker.go``. Used by both controllers of slices.
"""

from collections.abc import Iterable

from pilothouse.api.discovery import EndpointSlice
from pilothouse.runtime import RetryLater

_DELETED = -1


class StaleSlices(RetryLater):
    """The cache of slices is behind our own writes. The key comes back with backoff."""

    def __init__(self) -> None:
        super().__init__("EndpointSlice informer cache is out of date")


class SliceTracker:
    """Generations of slices by the key of their service (or Endpoints) and their uid."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, int]] = {}

    def wrote(self, key: str, written: EndpointSlice) -> None:
        """The server answered a create or an update with this."""
        self._known.setdefault(key, {})[written.metadata.uid] = written.metadata.generation

    def deleted(self, key: str, gone: EndpointSlice) -> None:
        """The server was told to delete it. Its event is not news."""
        self._known.setdefault(key, {})[gone.metadata.uid] = _DELETED

    def is_news(self, key: str, seen: EndpointSlice) -> bool:
        """Whether an event shows something that we did not write ourselves."""
        known = self._known.get(key, {}).get(seen.metadata.uid)
        return known is None or seen.metadata.generation > known

    def saw_gone(self, key: str, seen: EndpointSlice) -> bool:
        """A slice has left the cache. Whether somebody else deleted it, also if an earlier process wrote it. Upstream
        sees to what this process wrote, and a slice that is deleted after a restart stays away."""
        known = self._known.get(key, {})
        is_ours = known.pop(seen.metadata.uid, None) == _DELETED
        if not known:
            self._known.pop(key, None)
        return not is_ours

    def let_go(self, key: str, seen: EndpointSlice) -> None:
        """The slice is of somebody else now, or of another service. Upstream goes on waiting for it to be seen here."""
        self.saw_gone(key, seen)

    def check(self, key: str, given: Iterable[EndpointSlice]) -> None:
        """Raise ``StaleSlices`` unless the slices at hand are at least as new as what was written."""
        known = self._known.get(key)
        if not known:
            return
        seen = {each.metadata.uid: each.metadata.generation for each in given}
        for uid, generation in known.items():
            if generation == _DELETED:
                if uid in seen:
                    raise StaleSlices
            elif seen.get(uid, -1) < generation:
                raise StaleSlices

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._known.pop(key, None)
