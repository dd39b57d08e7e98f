"""What a node's NoExecute taints and a pod's tolerations come to. Pure.

Upstream: v1.36 ``pkg/controller/tainteviction/taint_eviction.go``, ``processPodOnNode`` and ``getMinTolerationTime``.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.api.core import Node, Taint, Toleration
from pilothouse.semantics.nodes import NO_EXECUTE, toleration_seconds


class EvictNow(msgspec.Struct, frozen=True):
    """Some taint is not tolerated at all."""


class EvictAfter(msgspec.Struct, frozen=True):
    """All are tolerated, one of them only for so many seconds."""

    seconds: float


class Stay(msgspec.Struct, frozen=True):
    """There are no such taints, or all are tolerated for ever."""


Verdict = EvictNow | EvictAfter | Stay


def no_execute_taints(node: Node) -> tuple[Taint, ...]:
    """The taints that pods must leave because of."""
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def judge(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Verdict:
    """What becomes of a pod with these tolerations. ``taints`` are NoExecute ones.

    Example: taint a is tolerated for ever, taint b for 60 s by one toleration and for 300 s by another: 60 s.
    """
    shortest = float("inf")
    for taint in taints:
        seconds = toleration_seconds(taint, tolerations)
        if seconds is None:
            return EvictNow()
        shortest = min(shortest, seconds)
    return Stay() if shortest == float("inf") else EvictAfter(shortest)
