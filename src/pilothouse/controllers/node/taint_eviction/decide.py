"""The decision for a node's NoExecute taints and a pod's tolerations. Pure. Upstream: v1.36
``pkg/controller/tainteviction/taint_eviction.go``, ``processPodOnNode`` and ``getMinTolerationTime``."""

from collections.abc import Sequence

import msgspec

from pilothouse.api.core import Node, Taint, Toleration
from pilothouse.semantics.nodes import NO_EXECUTE, toleration_seconds


class EvictNow(msgspec.Struct, frozen=True):
    """Some taint is not tolerated at all."""


class EvictAfter(msgspec.Struct, frozen=True):
    """All are tolerated, one of them only for this many seconds."""

    seconds: float


class Stay(msgspec.Struct, frozen=True):
    """There are no such taints, or all are tolerated without limit."""


Decision = EvictNow | EvictAfter | Stay


def no_execute_taints(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)


def decide_eviction(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], *, comparison_operators: bool = False
) -> Decision:
    """The decision for a pod with these tolerations. ``taints`` are NoExecute ones.

    Example: taint a is tolerated without limit, taint b for 60 s by one toleration and for 300 s by another: 60 s.
    """
    shortest = float("inf")
    for taint in taints:
        seconds = toleration_seconds(taint, tolerations, comparison_operators=comparison_operators)
        if seconds is None:
            return EvictNow()
        shortest = min(shortest, seconds)
    return Stay() if shortest == float("inf") else EvictAfter(shortest)


def taints_readded(old: Sequence[Taint], now: Sequence[Taint]) -> bool:
    """Whether taints were removed and added again since ``old``, and none was present all the time.

    Merged events do not show the moment without a taint, but ``timeAdded`` differs. Times are only compared with each
    other, never with a clock. Taints without a time count as unchanged.
    """
    if any(taint in old for taint in now):
        return False
    times = {(taint.key, taint.effect): taint.time_added for taint in old}
    for taint in now:
        earlier = times.get((taint.key, taint.effect))
        if earlier is not None and taint.time_added is not None and earlier != taint.time_added:
            return True
    return False
