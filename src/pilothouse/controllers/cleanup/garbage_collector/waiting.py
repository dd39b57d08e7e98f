"""Keys that wait until discovery has a kind: the object's own, or that of an owner. They are not retried in between."""

from collections.abc import Callable

from pilothouse.controllers.cleanup.garbage_collector.live import UnservedKind
from pilothouse.env import Log
from pilothouse.runtime.workqueue import WorkQueue

_Kind = tuple[str, str]


class WaitingKeys:
    """``is_served`` returns whether discovery has the kind, by apiVersion and name; ``exists`` whether a key is still
    in the graph; ``request_discovery`` requests discovery, once per kind between two syncs."""

    def __init__(
        self,
        *,
        is_served: Callable[[str, str], bool],
        exists: Callable[[str], bool],
        request_discovery: Callable[[], None],
        log: Log,
    ) -> None:
        self._is_served = is_served
        self._exists = exists
        self._request_discovery = request_discovery
        self._log = log
        self._waiting: dict[_Kind, dict[str, WorkQueue[str]]] = {}
        self._requested: set[_Kind] = set()
        self._reported: set[_Kind] = set()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, missing: UnservedKind, key: str, queue: WorkQueue[str]) -> None:
        """``key`` returns to its queue when the kind is served."""
        kind = (missing.api_version, missing.kind)
        self._waiting.setdefault(kind, {})[key] = queue
        if kind not in self._requested:
            self._requested.add(kind)
            self._request_discovery()

    def release(self) -> None:
        """Discovery was read: enqueue the keys whose kind is served now."""
        for kind in [kind for kind in self._waiting if self._is_served(*kind)]:
            self._reported.discard(kind)
            for key, queue in self._waiting.pop(kind).items():
                queue.add(key)

    def prune(self) -> None:
        """Drop keys that no longer exist, and log each kind that is still missing, once."""
        self._requested.clear()
        for kind, keys in list(self._waiting.items()):
            for key in [key for key in keys if not self._exists(key)]:
                del keys[key]
            if not keys:
                del self._waiting[kind]
            elif kind not in self._reported:
                self._reported.add(kind)
                api_version, name = kind
                self._log.warning(
                    "Objects are not collected: their kind, or an owner's, is not served",
                    apiVersion=api_version, kind=name, waiting=len(keys),
                )  # fmt: skip
        self._reported &= self._waiting.keys()
