"""The event that is being delivered to handlers. Keys that a handler adds to a queue record it as their trigger.

Handlers of informers run one after another in the event loop. The informer sets the event here, and the queue reads it
when a key is added.
"""

from typing import Any

from pilothouse.machinery.causes import Triggers


class Dispatch:
    """At most one event at a time."""

    __slots__ = ("metadata", "resource", "type")

    def __init__(self) -> None:
        self.type = ""
        """Of the event; empty if none is being delivered."""
        self.resource = ""
        self.metadata: Any = None

    def begin(self, type_: str, resource: str, metadata: Any) -> None:
        """Set the event to deliver next. ``type_`` is SYNC for the initial list and resyncs."""
        self.type, self.resource, self.metadata = type_, resource, metadata

    def end(self) -> None:
        """Nothing is delivered any more."""
        self.type, self.metadata = "", None

    def note(self, triggers: Triggers) -> None:
        """Add the event that is being delivered to the triggers of a key."""
        triggers.add(self.type, self.resource, self.metadata)


DISPATCH = Dispatch()
"""Per event loop. Loops in other threads of the process would only mix up triggers."""
