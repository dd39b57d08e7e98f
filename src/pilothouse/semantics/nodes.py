"""What a node's fields say: is it ready, and whom do its taints keep away.

Sources: kubernetes v1.36, ``pkg/controller/util/node``, ``component-helpers/scheduling/corev1/helpers.go``.
"""

from collections.abc import Iterable, Sequence

from pilothouse.api.core import Node, NodeCondition, Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"


def node_ready_condition(node: Node) -> NodeCondition | None:
    """The condition ``Ready``, if there."""
    for condition in node.status.conditions:
        if condition.type == "Ready":
            return condition
    return None


def is_node_ready(node: Node) -> bool:
    """Whether the condition ``Ready`` is True."""
    condition = node_ready_condition(node)
    return condition is not None and condition.status == "True"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether the pod can live with the taint: an empty key or effect of the toleration means any.

    ``Gt`` and ``Lt`` tolerate nothing: TaintTolerationComparisonOperators is alpha and off in 1.36.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated_taint(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str] = (NO_SCHEDULE, NO_EXECUTE)
) -> Taint | None:
    """The first taint with one of ``effects`` that no toleration covers, or ``None`` when the pod may come."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates_all(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], effects: Sequence[str] = (NO_SCHEDULE, NO_EXECUTE)
) -> bool:
    """Whether every taint with one of ``effects`` is covered."""
    return untolerated_taint(taints, tolerations, effects) is None


def toleration_seconds(taint: Taint, tolerations: Sequence[Toleration]) -> float | None:
    """How long a running pod may stay with a NoExecute ``taint``: seconds, infinity, or ``None`` for not at all.

    If several tolerations cover the taint, the first one of the pod's list counts (v1.36
    ``pkg/apis/core/v1/helper/helpers.go``, ``GetMatchingTolerations``). Negative times count as 0.
    """
    for toleration in tolerations:
        if tolerates(toleration, taint):
            seconds = toleration.toleration_seconds
            return float("inf") if seconds is None else max(0.0, float(seconds))
    return None


def same_taint(a: Taint, b: Taint) -> bool:
    """Whether two taints are one for adding and removing: key and effect count, the value does not."""
    return a.key == b.key and a.effect == b.effect
