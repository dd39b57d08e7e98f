"""``FitError``: why a pod fits no node, and the FailedScheduling message that is built from the statuses. Pure.

Texts and order follow kube-scheduler v1.36 (``pkg/scheduler/framework/types.go``, ``FitError.Error``).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pilothouse.scheduler.framework.status import NODE_NOT_IN_PRE_FILTER_RESULT, Status
from pilothouse.scheduler.framework.types import NodeInfo

NO_NODES_AVAILABLE = "no nodes available to schedule pods"


class Diagnosis(msgspec.Struct, frozen=True):
    """Why a pod fits no node.

    ``statuses`` belong to ``node_infos``, one each: two sequences side by side, because thousands of pairs per attempt
    are work for the garbage collector. Nodes that are in neither were excluded by ``NODE_NOT_IN_PRE_FILTER_RESULT``.
    ``pre_filter_status`` rejects the pod on all nodes.
    """

    node_infos: Sequence[NodeInfo] = ()
    statuses: Sequence[Status] = ()
    pre_filter_status: Status | None = None


class FitError(msgspec.Struct, frozen=True):
    """No node fits the pod."""

    num_all_nodes: int
    diagnosis: Diagnosis = Diagnosis()

    def error(self, post_filter_msg: str = "") -> str:
        """The message for the user; ``post_filter_msg`` is the result of preemption."""
        if not self.num_all_nodes:
            return NO_NODES_AVAILABLE
        rejection = self.diagnosis.pre_filter_status
        if rejection is not None:
            message = f"0/{self.num_all_nodes} nodes are available: {rejection.reasons[0]}."
        else:
            counts = count_statuses(self.diagnosis.statuses)
            excluded = self.num_all_nodes - len(self.diagnosis.statuses)
            if excluded:
                counts[NODE_NOT_IN_PRE_FILTER_RESULT] = excluded
            message = unavailable_nodes(self.num_all_nodes, counts)
        return f"{message} {post_filter_msg}" if post_filter_msg else message

    def unschedulable_plugins(self) -> frozenset[str]:
        """The plugins that rejected the pod on some node."""
        if self.diagnosis.pre_filter_status is not None:
            return frozenset((self.diagnosis.pre_filter_status.plugin,))
        plugins = {status.plugin for status in self.diagnosis.statuses}
        if len(self.diagnosis.statuses) < self.num_all_nodes:
            plugins.add(NODE_NOT_IN_PRE_FILTER_RESULT.plugin)
        return frozenset(plugins)


def count_statuses(statuses: Iterable[Status]) -> dict[Status, int]:
    """The number of nodes per status."""
    counts: dict[Status, int] = {}
    for status in statuses:
        counts[status] = counts.get(status, 0) + 1
    return counts


def unavailable_nodes(num_all_nodes: int, counts: Mapping[Status, int]) -> str:
    """``0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.``"""
    reasons: dict[str, int] = {}
    for status, count in counts.items():
        for reason in status.reasons:
            reasons[reason] = reasons.get(reason, 0) + count
    text = f"0/{num_all_nodes} nodes are available:"
    if reasons:
        text += f" {', '.join(sorted(f'{count} {reason}' for reason, count in reasons.items()))}."
    return text
