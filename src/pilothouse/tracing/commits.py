"""``Commits``: which span has written a revision, for the syncs that its event triggers.

The API server of a process records its commits here. A client of another API server of ours gets them with its watch
events, if both are traced.
"""

from typing import NamedTuple

from opentelemetry.trace import SpanContext

MAX_COMMITS = 8192
"""The oldest commits are dropped. A sync that the event of a dropped commit triggers starts a new trace."""


class Commit(NamedTuple):
    """One write."""

    context: SpanContext
    at: int
    """When it became visible, or known here, in nanoseconds since the epoch."""


class Commits:
    """The last commits, by resource version."""

    def __init__(self) -> None:
        self._found: dict[str, Commit] = {}

    def __len__(self) -> int:
        return len(self._found)

    def remember(self, resource_version: str, context: SpanContext, at: int) -> None:
        """This span has written the version."""
        found = self._found
        # It becomes the newest, also if the request's span was recorded before the commit's.
        found.pop(resource_version, None)
        if len(found) >= MAX_COMMITS:
            del found[next(iter(found))]
        found[resource_version] = Commit(context, at)

    def get(self, resource_version: str) -> Commit | None:
        """The span that wrote the version; None if it is unknown."""
        return self._found.get(resource_version)
