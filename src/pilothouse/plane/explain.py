"""Why an object is not as desired: the newest warning events about it, or about the objects it owns.

That the pods of a Deployment fit nowhere is recorded in an event about a pod of one of its ReplicaSets. Events are read
on request, and the owners of each are followed.
"""

import datetime
from collections.abc import Iterable

import msgspec

from pilothouse.api.core import EVENTS, Event, ObjectReference
from pilothouse.api.meta import ObjectMeta, View
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.machinery.owners import controller_of

MAX_WARNINGS = 3
_MAX_EVENTS = 200
_MAX_OWNERS = 5
_LONG_AGO = datetime.datetime.min.replace(tzinfo=datetime.UTC)


class _Owned(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_read = msgspec.json.Decoder(_Owned).decode


class Explainer:
    """Reads events and owners with a client. Owners are cached, because they do not change."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._mapper = RestMapper(client)
        self._owners: dict[str, ObjectReference | None] = {}

    async def warnings(self, kind: str, name: str, namespace: str, uid: str = "") -> list[str]:
        """The newest warnings about an object and its dependents, as lines for people; each names its object. Without
        ``uid``, for an object that does not exist, also those that mention its name.

        That they cannot be read is a line as well.
        """
        try:
            events = (await self._client.list(EVENTS, namespace)).items
            warnings = sorted((event for event in events if event.type == "Warning"), key=_newest, reverse=True)
            target = ObjectReference(kind=kind, name=name, uid=uid)
            related = [event for event in warnings[:_MAX_EVENTS] if await self._is_about(event, target, namespace)]
        except (ApiError, OSError, LookupError) as error:
            return [f"why is not known: its events could not be read: {error}"]
        return _lines(related)

    async def normal_events(self, kind: str, name: str, namespace: str) -> list[str]:
        """The newest events about an object itself that are not warnings, as lines. None if they cannot be read; then
        ``warnings`` reports it."""
        try:
            events = (await self._client.list(EVENTS, namespace)).items
        except (ApiError, OSError):
            return []
        about = [event for event in events if (event.involved_object.kind, event.involved_object.name) == (kind, name)]
        return _lines(sorted((event for event in about if event.type != "Warning"), key=_newest, reverse=True))

    async def _is_about(self, event: Event, target: ObjectReference, namespace: str) -> bool:
        if not target.uid and target.name in event.message:
            return True
        about: ObjectReference | None = event.involved_object
        for _owner in range(_MAX_OWNERS):
            if about is None:
                return False
            if (about.kind, about.name) == (target.kind, target.name):
                # Events of nodes and the like have no meaningful uid, but their names are unique.
                return not target.uid or not namespace or about.uid in ("", target.uid)
            about = await self._owner_of(about, namespace)
        return False

    async def _owner_of(self, about: ObjectReference, namespace: str) -> ObjectReference | None:
        key = about.uid or f"{about.kind}/{about.name}"
        if key not in self._owners:
            self._owners[key] = await self._read_owner(about, namespace)
        return self._owners[key]

    async def _read_owner(self, about: ObjectReference, namespace: str) -> ObjectReference | None:
        kind = await self._mapper.kind_for(about.api_version, about.kind)
        if kind is None:
            return None
        try:
            raw = await self._client.get(kind.raw, about.name, namespace if kind.namespaced else "")
        except NotFound:
            return None
        owner = controller_of(_read(raw).metadata)
        if owner is None:
            return None
        return ObjectReference(api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid)


def _newest(event: Event) -> datetime.datetime:
    return event.last_timestamp or event.first_timestamp or event.metadata.creation_timestamp or _LONG_AGO


def _lines(events: Iterable[Event]) -> list[str]:
    """One for each reason and message, whatever the number of objects that it is about."""
    about: dict[tuple[str, str, str], dict[str, None]] = {}
    for event in events:
        about.setdefault((event.involved_object.kind, event.reason, event.message), {})[event.involved_object.name] = (
            None
        )
    lines = []
    for (kind, reason, message), names in list(about.items())[:MAX_WARNINGS]:
        first, *others = names
        more = f" and {len(others)} more" if others else ""
        lines.append(f"{kind} {first}{more}: {reason}: {message}")
    return lines
