"""The log of a container, as an API server asks the simulated nodes for it.

Nodes are programs of their own and none of the server's business. ``nodes.logs`` knows what simulated containers write,
``apiserver.endpoints.logs`` answers requests with it, and ``plane`` hands the one to the other.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec


class LogLine(msgspec.Struct, frozen=True):
    """One line, without its newline, and when it was written."""

    at: datetime.datetime
    text: str


class ContainerLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log of one run of a container, as it is at one instant.

    A later look at the same run begins with the same lines. ``refusal`` is set when there is no such log: the words of
    the 400 that a kubelet answers.
    """

    lines: Sequence[LogLine] = ()
    ended: bool = False
    """Whether nothing is added any more."""
    next_at: datetime.datetime | None = None
    """When the next line is due, if that is known. Otherwise only a change of the pod brings news."""
    error: str = ""


PodLogs = Callable[[Mapping[str, Any], str, bool], ContainerLog | None]
"""(pod as stored, container, whether the run before the last is meant): the log, or None where the node is not ours."""
