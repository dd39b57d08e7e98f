"""Container logs, as an API server requests them from the simulated nodes.

API server and nodes do not import each other. ``nodes.logs`` generates what simulated containers write,
``apiserver.endpoints.logs`` serves it, and ``plane`` connects the two.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec


class LogLine(msgspec.Struct, frozen=True):
    """One line, without its newline, and the time when it was written."""

    at: datetime.datetime
    text: str


class ContainerLog(msgspec.Struct, frozen=True, kw_only=True):
    """The log of one run of a container at one instant. Later logs of the same run begin with the same lines.

    ``refusal`` is set if there is no such log: the message of the kubelet's 400.
    """

    lines: Sequence[LogLine] = ()
    ended: bool = False
    """Whether nothing is added any more."""
    next_at: datetime.datetime | None = None
    """When the next line is due, if that is known. Otherwise only a change of the pod brings news."""
    error: str = ""


PodLogs = Callable[[Mapping[str, Any], str, bool], ContainerLog | None]
"""(pod as stored, container, whether the run before the last is meant): the log, or None where the node is not ours."""
