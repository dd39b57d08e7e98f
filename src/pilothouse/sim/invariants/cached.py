"""The state of one resource as delivered to a manager process: its cache, derived from its traffic.

Only lists and watches of informers count, not live reads of controllers.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client.interceptor import Answered, Delivered, Observation, Opened
from pilothouse.client.request_info import RequestInfo
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)

INFORMERS = "/shared-informers"
"""The suffix of the User-Agent of informers."""
METADATA_INFORMERS = "/metadata-informers"
"""The suffix of the User-Agent of metadata informers."""


class _Event(View, Generic[T], frozen=True):
    type: str
    object: T


class _List(View, Generic[T], frozen=True):
    items: tuple[T, ...] | None = None
    """Empty lists of metadata are null."""


class InformerCache(Generic[T]):
    """The objects of a resource as last delivered to a process.

    ``on_change(old, new)`` is called for each object that is added, changed or removed; within one list the cache is
    complete before the first call.
    """

    def __init__(
        self,
        resource: str,
        view: type[T],
        on_change: Callable[[T | None, T | None], None],
        *,
        informers: str = INFORMERS,
    ) -> None:
        self._resource = resource
        self._informers = informers
        # The types are created at run time, which type checkers can't follow.
        event_type, list_type = cast("Any", _Event)[view], cast("Any", _List)[view]
        self._event: msgspec.json.Decoder[_Event[T]] = msgspec.json.Decoder(event_type)
        self._list: msgspec.json.Decoder[_List[T]] = msgspec.json.Decoder(list_type)
        self._on_change = on_change
        self._objects: dict[str, T] = {}
        self.is_filled = False
        """Whether a complete list was delivered and all its objects were reported."""
        self._streams: dict[int, tuple[RequestInfo, dict[str, T] | None]] = {}
        """Open watches by identity, with the initial events so far."""

    @property
    def objects(self) -> Mapping[str, T]:
        """By ``namespace/name``."""
        return self._objects

    def observe(self, observation: Observation) -> None:
        """Process a request or response of the process."""
        match observation:
            case Opened(call, request, 200) if call.resource == self._resource and self._is_informer(request.headers):
                self._streams[id(call)] = (call, {} if "sendInitialEvents=true" in request.target else None)
            case Delivered(call, lines) if id(call) in self._streams:
                for line in lines.splitlines():
                    self._deliver(call, line)
            case Answered(call, request, response, injected) if (
                call.resource == self._resource
                and call.verb == "list"
                and not injected
                and response.status == 200
                and self._is_informer(request.headers)
            ):
                items = self._list.decode(response.body).items or ()
                self._replace({_key(item.metadata): item for item in items})
            case _:
                pass

    def _deliver(self, call: RequestInfo, line: bytes) -> None:
        if line.startswith(b'{"type":"ERROR"'):
            return
        event = self._event.decode(line)
        _call, initial = self._streams[id(call)]
        if event.type == "BOOKMARK":
            if initial is not None and event.object.metadata.annotations:
                self._streams[id(call)] = (call, None)
                self._replace(initial)
            return
        key = _key(event.object.metadata)
        if initial is not None:
            initial[key] = event.object
            return
        old = self._objects.pop(key, None)
        new = None if event.type == "DELETED" else event.object
        if new is not None:
            self._objects[key] = new
        self._on_change(old, new)

    def _replace(self, objects: dict[str, T]) -> None:
        old, self._objects = self._objects, objects
        for key in [*old, *(key for key in objects if key not in old)]:
            self._on_change(old.get(key), objects.get(key))
        self.is_filled = True

    def _is_informer(self, headers: Mapping[str, str]) -> bool:
        return headers.get("user-agent", "").endswith(self._informers)


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"
