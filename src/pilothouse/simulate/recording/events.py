"""``Events``: recorded Events, aggregated: those of ten thousand pods of one owner, or of all nodes, are one group."""

import msgspec

from pilothouse.simulate.recording import structs, views
from pilothouse.simulate.recording.series import RateSeries
from pilothouse.simulate.recording.workloads import Workloads, Write

MAX_GROUPS = 300
MAX_OBJECTS = 2000
"""Maximum number of objects of a group that are distinguished."""
LONGEST_MESSAGE = 400
_read_event = msgspec.json.Decoder(views.Event).decode
_Group = tuple[str, str, str, str, str]


class _GroupTracker:
    def __init__(self, at: float, event: views.Event) -> None:
        self.first = self.last = at
        self.event = event
        self.count = 0
        self.uids: set[str] = set()  # only their number is used


class Events:
    """The first ``MAX_GROUPS`` groups of Events with the same type, reason, kind of object and owner."""

    def __init__(self, workloads: Workloads) -> None:
        self._workloads = workloads
        self._groups: dict[_Group, _GroupTracker] = {}
        self._counts: dict[str, int] = {}
        """The last observed count of each existing Event, by key."""
        self._rates = RateSeries(most_names=4)
        self._more = 0

    def changed(self, write: Write) -> None:
        """Process a write of an Event."""
        if write.type == "DELETED":
            self._counts.pop(write.key, None)
            return
        event = _read_event(write.value)
        count = max(event.count or 0, (event.series.count or 0) if event.series is not None else 0, 1)
        more = count - self._counts.get(write.key, 0)
        self._counts[write.key] = count
        if more <= 0 or not write.is_new:
            return
        self._rates.add(write.at, event.type or "Normal", more)
        about = event.involved_object
        key = (event.type or "Normal", event.reason or "", about.kind, about.namespace, self._owner(about))
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= MAX_GROUPS:
                self._more += more
                return
            group = self._groups[key] = _GroupTracker(write.at, event)
        group.last = write.at
        group.count += more
        if len(group.uids) < MAX_OBJECTS:
            group.uids.add(about.uid or about.name)

    def _owner(self, about: views.InvolvedObject) -> str:
        if about.kind == "Node":
            return ""
        owner = self._workloads.owner_of(f"/pods/{about.namespace}/{about.name}") if about.kind == "Pod" else ""
        return owner or about.name

    def events(self) -> tuple[list[structs.Event], int]:
        """The groups, ordered by their first Event, and the number of Events without a group."""
        events = []
        for (type_, reason, kind, namespace, _owner), group in self._groups.items():
            message = group.event.message or ""
            events.append(
                structs.Event(
                    first=round(group.first, 3),
                    last=round(group.last, 3),
                    type=type_,
                    reason=reason,
                    object=f"{kind.lower()}/{group.event.involved_object.name}",
                    namespace=namespace,
                    message=message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…",
                    count=group.count,
                    objects=len(group.uids),
                )
            )
        return events, self._more

    def rates(self) -> structs.Rates:
        """Event rates by type."""
        return self._rates.rates()
