"""The event whose handlers are running: what a key that they add to a queue is enqueued for.

Handlers of informers run on the loop, one after the other, and take no argument for it. So the informer says here which
event it delivers, and the queue looks here when a key is added.
"""

from typing import Any

from pilothouse.machinery.causes import Triggers


class Dispatch:
    """At most one event at a time."""

    __slots__ = ("metadata", "resource", "type")

    def __init__(self) -> None:
        self.type = ""
        """Of the event; empty while none is delivered."""
        self.resource = ""
        self.metadata: Any = None

    def begin(self, type_: str, resource: str, metadata: Any) -> None:
        """Deliver this event next. ``type_`` is SYNC for what is no news: the first list, or a resync."""
        self.type, self.resource, self.metadata = type_, resource, metadata

    def end(self) -> None:
        """Nothing is delivered any more."""
        self.type, self.metadata = "", None

    def note(self, triggers: Triggers) -> None:
        """Add the event that is being delivered to the triggers of a key."""
        triggers.add(self.type, self.resource, self.metadata)


DISPATCH = Dispatch()
"""Of this thread's loop. Loops of other threads in one process would mix up their triggers, nothing else."""
