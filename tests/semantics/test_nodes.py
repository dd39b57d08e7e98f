"""Node conditions, taints and tolerations."""

import pytest
from tests.tables import cases

from pilothouse.api.core import Node, NodeCondition, NodeStatus, Taint, Toleration
from pilothouse.semantics import nodes


def node(*conditions: NodeCondition) -> Node:
    return Node(status=NodeStatus(conditions=conditions))


def test_ready_condition() -> None:
    assert nodes.is_node_ready(node(NodeCondition(type="Ready", status="True")))
    assert not nodes.is_node_ready(node(NodeCondition(type="Ready", status="Unknown")))
    assert not nodes.is_node_ready(node())
    assert nodes.node_ready_condition(node(NodeCondition(type="Other"))) is None


TAINT = Taint(key="k", value="v", effect="NoSchedule")


@cases(
    "toleration, expected",
    {
        "equal is the default operator": (Toleration(key="k", value="v", effect="NoSchedule"), True),
        "different value": (Toleration(key="k", operator="Equal", value="x"), False),
        "Exists": (Toleration(key="k", operator="Exists"), True),
        "different key": (Toleration(key="x", operator="Exists"), False),
        "different effect": (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        "toleration of everything": (Toleration(operator="Exists"), True),
    },
)
def test_tolerates(toleration: Toleration, expected: bool) -> None:
    assert nodes.tolerates(toleration, TAINT) is expected


@pytest.mark.parametrize(
    ("operator", "toleration", "taint", "expected"),
    [
        ("Gt", "950", "970", True),
        ("Gt", "970", "950", False),
        ("Gt", "950", "950", False),
        ("Gt", "-100", "-50", True),
        ("Gt", "-50", "-100", False),
        ("Gt", "0", "1", True),
        ("Gt", "9223372036854775806", "9223372036854775807", True),
        ("Lt", "950", "800", True),
        ("Lt", "800", "950", False),
        ("Lt", "950", "950", False),
        ("Lt", "-50", "-100", True),
        ("Lt", "0", "-1", True),
        *(
            ("Gt", bad, "100", False)
            for bad in ("abc", "", "0950", "+10", "9.5", "-", "-0", " 1", "9223372036854775808")
        ),
        *(("Gt", "50", bad, False) for bad in ("abc", "", "0950", "+100", "95.5", "-", "9223372036854775808")),
        *(("Lt", bad, "-100", False) for bad in ("abc", "", "-0100")),
    ],
)
def test_comparison_operators(operator: str, toleration: str, taint: str, expected: bool) -> None:
    """TestCompareNumericValues of v1.36 ``staging/src/k8s.io/api/core/v1/toleration_test.go``."""
    tolerations = (Toleration(key="sla", operator=operator, value=toleration),)
    tainted = Taint(key="sla", value=taint, effect="NoExecute")
    assert nodes.tolerates(tolerations[0], tainted, comparison_operators=True) is expected
    remaining = nodes.untolerated_taint((tainted,), tolerations, comparison_operators=True)
    assert (remaining is None) is expected
    assert (nodes.toleration_seconds(tainted, tolerations, comparison_operators=True) is not None) is expected
    assert not nodes.tolerates(tolerations[0], tainted), "only behind a gate"
    assert nodes.untolerated_taint((tainted,), tolerations) == tainted
    assert nodes.toleration_seconds(tainted, tolerations) is None


def test_first_untolerated_taint() -> None:
    soft = Taint(key="s", effect="PreferNoSchedule")
    hard = Taint(key="h", effect="NoExecute")
    covered = (Toleration(key="k", operator="Exists"),)
    assert nodes.untolerated_taint((TAINT, soft, hard), covered) is hard
    assert nodes.untolerated_taint((TAINT, soft), covered) is None
    assert nodes.untolerated_taint((soft,), (), effects=("PreferNoSchedule",)) is soft
    assert nodes.untolerated_taint((TAINT,), covered) is None
    assert nodes.untolerated_taint((hard,), covered) == hard


def test_toleration_seconds() -> None:
    taint = Taint(key="k", effect="NoExecute")
    forever = Toleration(key="k", operator="Exists")
    minute = Toleration(key="k", operator="Exists", toleration_seconds=60)
    negative = Toleration(key="k", operator="Exists", toleration_seconds=-5)
    assert nodes.toleration_seconds(taint, ()) is None
    assert nodes.toleration_seconds(taint, (forever,)) == float("inf")
    assert nodes.toleration_seconds(taint, (forever, minute)) == float("inf"), "the first that covers it counts"
    assert nodes.toleration_seconds(taint, (minute, forever)) == 60
    assert nodes.toleration_seconds(taint, (negative, minute)) == 0


def test_taints_match_by_key_and_effect() -> None:
    assert nodes.same_taint(Taint(key="a", value="1", effect="e"), Taint(key="a", value="2", effect="e"))
    assert not nodes.same_taint(Taint(key="a", effect="e"), Taint(key="a", effect="f"))
