"""Which pods are garbage, and which go first. Pure.

Upstream: v1.36 ``pkg/controller/podgc/gc_controller.go``.
"""

import datetime
from collections.abc import Iterable, Sequence

from pilothouse.api.core import Node, Pod
from pilothouse.semantics.nodes import is_node_ready
from pilothouse.semantics.pods import is_terminal

OUT_OF_SERVICE_TAINT = "node.kubernetes.io/out-of-service"

GARBAGE_INDEX = "podGarbage"
TERMINATED = "terminated"
TERMINATING = "leaving"
UNSCHEDULED = "unscheduled"

_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def index_by_garbage(pod: Pod) -> tuple[str, ...]:
    """The index function of ``GARBAGE_INDEX``: the reasons for which a pod may be collected, except a missing node."""
    kinds = (TERMINATED,) if is_pod_terminated(pod) else ()
    if pod.metadata.deletion_timestamp is None:
        return kinds
    return (*kinds, TERMINATING if pod.spec.node_name else UNSCHEDULED)


def is_pod_terminated(pod: Pod) -> bool:
    return pod.status.phase not in ("Pending", "Running", "Unknown")


def pods_over_threshold(terminated: Sequence[Pod], threshold: int) -> list[Pod]:
    """The finished pods that are too many. 5 pods, threshold 3: the first two in order of deletion."""
    excess = len(terminated) - threshold
    if threshold <= 0 or excess <= 0:
        return []
    return sorted_for_deletion(terminated)[:excess]


def sorted_for_deletion(pods: Iterable[Pod]) -> list[Pod]:
    """Evicted pods first, since no controller counts on them; then by age."""
    return sorted(pods, key=_rank)


def _rank(pod: Pod) -> tuple[bool, datetime.datetime, str, str]:
    meta = pod.metadata
    return (not is_evicted(pod), meta.creation_timestamp or _EPOCH, meta.name, meta.namespace)


def is_evicted(pod: Pod) -> bool:
    return pod.status.phase == "Failed" and pod.status.reason == "Evicted"


def is_kept_by_finalizers(pod: Pod) -> bool:
    """Whether it is finished, has been force-deleted, and only has finalizers: another deletion has no effect
    (kubernetes#141190, open: upstream sends one in every pass)."""
    meta = pod.metadata
    return (
        is_terminal(pod)
        and meta.deletion_timestamp is not None
        and meta.deletion_grace_period_seconds == 0
        and bool(meta.finalizers)
    )


def is_out_of_service(node: Node) -> bool:
    """Whether the node has the out-of-service taint and is not ready."""
    return not is_node_ready(node) and any(taint.key == OUT_OF_SERVICE_TAINT for taint in node.spec.taints)
