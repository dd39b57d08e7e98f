"""Node selectors and required node affinity. Rows mirror component-helpers ``nodeaffinity_test.go`` (v0.36)."""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import Node, NodeSelector, PodSpec
from pilothouse.semantics.node_affinity import matches_node_selection, matches_node_selector, selects_labels


def node(name: str = "n", **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


def term(*expressions: tuple[Any, ...], fields: tuple[tuple[Any, ...], ...] = ()) -> dict[str, Any]:
    def listed(rows: tuple[tuple[Any, ...], ...]) -> list[dict[str, Any]]:
        return [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in rows]

    return {"matchExpressions": listed(expressions), "matchFields": listed(fields)}


@pytest.mark.parametrize(
    ("terms", "where", "fits"),
    [
        pytest.param([], node(), False, id="no terms fit nothing"),
        pytest.param([term()], node(), False, id="an empty term fits nothing"),
        pytest.param([term(), term(("a", "Exists"))], node(a="1"), True, id="one term is enough"),
        pytest.param([term(("a", "Exists"), ("b", "Exists"))], node(a="1"), False, id="all of a term must hold"),
        pytest.param([term(("a", "In", "1", "2"))], node(a="2"), True, id="in"),
        pytest.param([term(("a", "In", "1"))], node(), False, id="in, without the label"),
        pytest.param([term(("a", "NotIn", "1"))], node(), True, id="not in, without the label"),
        pytest.param([term(("a", "NotIn", "1"))], node(a="1"), False, id="not in, but it is"),
        pytest.param([term(("a", "Exists"))], node(a=""), True, id="exists, though empty"),
        pytest.param([term(("a", "DoesNotExist"))], node(a=""), False, id="does not exist, but does"),
        pytest.param([term(("a", "Gt", "8"))], node(a="9"), True, id="greater"),
        pytest.param([term(("a", "Gt", "8"))], node(a="8"), False, id="not greater when equal"),
        pytest.param([term(("a", "Lt", "8"))], node(a="-1"), True, id="less, below zero"),
        pytest.param([term(("a", "Gt", "8"))], node(a="1_0"), False, id="only what Go reads is a number"),
        pytest.param([term(("a", "Gt", "8"))], node(a="9" * 30), False, id="a number of more than 64 bits is none"),
        pytest.param([term(("a", "Gt", "8", "9"))], node(a="10"), False, id="greater than two values means nothing"),
        pytest.param([term(("a", "Near", "8"))], node(a="8"), False, id="an unknown operator fits nothing"),
        pytest.param([term(fields=(("metadata.name", "In", "n"),))], node("n"), True, id="the node's name"),
        pytest.param([term(fields=(("metadata.name", "NotIn", "n"),))], node("n"), False, id="any name but this"),
        pytest.param(
            [term(("a", "Exists"), fields=(("metadata.name", "In", "n"),))], node("n"), False, id="name and labels"
        ),
    ],
)
def test_required_terms(terms: list[dict[str, Any]], where: Node, fits: bool) -> None:
    selector = msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector)
    assert matches_node_selector(selector, where) is fits
    if not any(each["matchFields"] for each in terms):
        assert selects_labels(selector, where.metadata.labels) is fits


@pytest.mark.parametrize(
    ("operator", "fits"),
    [
        pytest.param("In", False, id="it is none of any names"),
        pytest.param("NotIn", True, id="and so it is not that one"),
        pytest.param("Exists", True, id="but it has a name, an empty one"),
    ],
)
def test_a_node_of_which_only_labels_are_known_has_no_name(operator: str, fits: bool) -> None:
    values = () if operator == "Exists" else ("n",)
    terms = [term(("a", "Exists"), fields=(("metadata.name", operator, *values),))]
    assert selects_labels(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector), {"a": "1"}) is fits


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        pytest.param({}, True, id="nothing asked"),
        pytest.param({"affinity": {"nodeAffinity": {}}}, True, id="nothing required"),
        pytest.param({"nodeSelector": {"a": "1"}}, True, id="selector"),
        pytest.param({"nodeSelector": {"a": "1", "b": "2"}}, False, id="one label is missing"),
    ],
)
def test_selector_and_affinity_must_both_fit(spec: dict[str, Any], fits: bool) -> None:
    assert matches_node_selection(msgspec.convert(spec, PodSpec), node(a="1")) is fits
    required = {"nodeSelectorTerms": [term(("z", "Exists"))]}
    spec = {**spec, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    assert not matches_node_selection(msgspec.convert(spec, PodSpec), node(a="1"))
