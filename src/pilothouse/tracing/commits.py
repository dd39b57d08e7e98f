"""``Commits``: which span has written a revision, for the syncs that its event triggers.

The API server of a process notes its commits here. A program in front of another API server of ours gets them with its
watches, where both are traced.
"""

from typing import NamedTuple

from opentelemetry.trace import SpanContext

MAX_COMMITS = 8192
"""The oldest are forgotten. A sync that its event triggers later than that begins a trace of its own."""


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
        # As the newest, also if the request's span was noted before that of its commit.
        found.pop(resource_version, None)
        if len(found) >= MAX_COMMITS:
            del found[next(iter(found))]
        found[resource_version] = Commit(context, at)

    def get(self, resource_version: str) -> Commit | None:
        """Who has written the version, if that is known."""
        return self._found.get(resource_version)
