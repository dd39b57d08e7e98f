"""Whether a node is ready, or simulated, and which pods tolerate its taints.

Sources: kubernetes v1.36, ``pkg/controller/util/node``, ``component-helpers/scheduling/corev1/helpers.go``.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilothouse.api.core import Node, NodeCondition, Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
_SIMULATED = "simulated://"
SIMULATED_RUNTIME_VERSION = f"{_SIMULATED}1.0.0"
"""``containerRuntimeVersion`` of simulated nodes, by which API servers in other processes recognize them, too."""

_decimal_integer = re.compile("0|-?[1-9][0-9]{0,18}", re.ASCII)
_INT64 = range(-(2**63), 2**63)


def node_ready_condition(node: Node) -> NodeCondition | None:
    for condition in node.status.conditions:
        if condition.type == "Ready":
            return condition
    return None


def is_node_ready(node: Node) -> bool:
    condition = node_ready_condition(node)
    return condition is not None and condition.status == "True"


def is_simulated(node: Mapping[str, Any]) -> bool:
    """Whether a Node, as stored, is simulated: nothing listens at its addresses and those of its pods."""
    node_info = (node.get("status") or {}).get("nodeInfo") or {}
    return str(node_info.get("containerRuntimeVersion") or "").startswith(_SIMULATED)


def without_process(pod: str, node: str) -> str:
    """Why nothing in a pod on a simulated node can be called or executed."""
    return f'pod "{pod}" runs on the simulated node "{node}", where no process is behind a container'


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Whether the toleration matches the taint: an empty key or effect of the toleration matches any.

    ``Gt`` and ``Lt`` tolerate something only with ``comparison_operators``: the gate
    ``TaintTolerationComparisonOperators`` is alpha and off in v1.36.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator in ("Gt", "Lt"):
        return comparison_operators and _compares(toleration.operator, taint.value, toleration.value)
    return toleration.operator == "Exists"


def _compares(operator: str, taint: str, toleration: str) -> bool:
    """Compare the taint's value with the toleration's as numbers; if one is not a decimal integer the result is False
    (``compareNumericValues``, v1.36 ``k8s.io/api/core/v1/toleration.go``)."""
    if not (_decimal_integer.fullmatch(taint) and _decimal_integer.fullmatch(toleration)):
        return False
    here, limit = int(taint), int(toleration)
    if not (here in _INT64 and limit in _INT64):
        return False
    return here > limit if operator == "Gt" else here < limit


def untolerated_taint(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Sequence[str] = (NO_SCHEDULE, NO_EXECUTE),
    *,
    comparison_operators: bool = False,
) -> Taint | None:
    """The first taint with one of ``effects`` that is not tolerated, or ``None``."""
    for taint in taints:
        if taint.effect in effects and not any(
            tolerates(toleration, taint, comparison_operators=comparison_operators) for toleration in tolerations
        ):
            return taint
    return None


def toleration_seconds(
    taint: Taint, tolerations: Sequence[Toleration], *, comparison_operators: bool = False
) -> float | None:
    """How long a running pod tolerates a NoExecute ``taint``: seconds, infinity, or ``None`` for not at all.

    If several tolerations cover the taint, the first one of the pod's list counts (v1.36
    ``pkg/apis/core/v1/helper/helpers.go``, ``GetMatchingTolerations``). Negative times count as 0.
    """
    for toleration in tolerations:
        if tolerates(toleration, taint, comparison_operators=comparison_operators):
            seconds = toleration.toleration_seconds
            return float("inf") if seconds is None else max(0.0, float(seconds))
    return None


def same_taint(a: Taint, b: Taint) -> bool:
    """Whether two taints are one for adding and removing: key and effect count, the value does not."""
    return a.key == b.key and a.effect == b.effect
