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
        self._commits: dict[str, Commit] = {}

    def __len__(self) -> int:
        return len(self._commits)

    def remember(self, resource_version: str, context: SpanContext, at: int) -> None:
        """This span has written the version."""
        commits = self._commits
        # It becomes the newest, also if the request's span was recorded before the commit's.
        commits.pop(resource_version, None)
        if len(commits) >= MAX_COMMITS:
            del commits[next(iter(commits))]
        commits[resource_version] = Commit(context, at)

    def get(self, resource_version: str) -> Commit | None:
        """The span that wrote the version; None if it is unknown."""
        return self._commits.get(resource_version)
