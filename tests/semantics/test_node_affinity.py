"""Node selectors and required node affinity. Rows mirror component-helpers ``nodeaffinity_test.go`` (v0.36)."""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import Node, NodeSelector, PodSpec
from pilothouse.semantics.node_affinity import (
    MAX_COST,
    matches_node_selection,
    matches_node_selector,
    selects_labels,
)


def node(name: str = "n", **labels: str) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node)


def term(*expressions: tuple[Any, ...], fields: tuple[tuple[Any, ...], ...] = ()) -> dict[str, Any]:
    def listed(rows: tuple[tuple[Any, ...], ...]) -> list[dict[str, Any]]:
        return [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in rows]

    return {"matchExpressions": listed(expressions), "matchFields": listed(fields)}


@cases(
    "terms, node_object, fits",
    {
        "no terms match nothing": ([], node(), False),
        "an empty term matches nothing": ([term()], node(), False),
        "one matching term": ([term(), term(("a", "Exists"))], node(a="1"), True),
        "one of two expressions": ([term(("a", "Exists"), ("b", "Exists"))], node(a="1"), False),
        "In": ([term(("a", "In", "1", "2"))], node(a="2"), True),
        "In, missing label": ([term(("a", "In", "1"))], node(), False),
        "NotIn, missing label": ([term(("a", "NotIn", "1"))], node(), True),
        "NotIn, listed value": ([term(("a", "NotIn", "1"))], node(a="1"), False),
        "Exists, empty value": ([term(("a", "Exists"))], node(a=""), True),
        "DoesNotExist, label exists": ([term(("a", "DoesNotExist"))], node(a=""), False),
        "Gt": ([term(("a", "Gt", "8"))], node(a="9"), True),
        "Gt, equal": ([term(("a", "Gt", "8"))], node(a="8"), False),
        "Lt, negative": ([term(("a", "Lt", "8"))], node(a="-1"), True),
        "Gt, not a Go integer": ([term(("a", "Gt", "8"))], node(a="1_0"), False),
        "Gt, more than 64 bits": ([term(("a", "Gt", "8"))], node(a="9" * 30), False),
        "Gt with two values": ([term(("a", "Gt", "8", "9"))], node(a="10"), False),
        "unknown operator": ([term(("a", "Near", "8"))], node(a="8"), False),
        "the node's name": ([term(fields=(("metadata.name", "In", "n"),))], node("n"), True),
        "NotIn with the node's name": ([term(fields=(("metadata.name", "NotIn", "n"),))], node("n"), False),
        "name and labels": ([term(("a", "Exists"), fields=(("metadata.name", "In", "n"),))], node("n"), False),
    },
)
def test_required_terms(terms: list[dict[str, Any]], node_object: Node, fits: bool) -> None:
    selector = msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector)
    assert matches_node_selector(selector, node_object) is fits
    if not any(candidate["matchFields"] for candidate in terms):
        assert selects_labels(selector, node_object.metadata.labels) is fits


@cases(
    "others, fits",
    {
        "within the cost limit": ([term(("b", "Exists"))] * (MAX_COST - 1), True),
        "too many terms": ([term(("b", "Exists"))] * MAX_COST, False),
        "too many values": ([term(("b", "In", *map(str, range(64 * MAX_COST))))], False),
    },
)
def test_terms_beyond_the_limit_of_cost_are_not_considered(others: list[dict[str, Any]], fits: bool) -> None:
    selector = msgspec.convert({"nodeSelectorTerms": [*others, term(("a", "Exists"))]}, NodeSelector)
    small = msgspec.convert({"nodeSelectorTerms": [term(("a", "Exists"))]}, NodeSelector)
    assert matches_node_selector(selector, node(a="1")) is fits
    assert matches_node_selector(small, node(a="1"))
    assert selects_labels(selector, {"a": "1"}) is fits
    assert matches_node_selector(selector, node("n", c="2")) is False


@cases(
    "operator, fits",
    {
        "In": ("In", False),
        "NotIn": ("NotIn", True),
        "Exists": ("Exists", True),
    },
)
def test_match_fields_without_a_node_name(operator: str, fits: bool) -> None:
    values = () if operator == "Exists" else ("n",)
    terms = [term(("a", "Exists"), fields=(("metadata.name", operator, *values),))]
    assert selects_labels(msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector), {"a": "1"}) is fits


@cases(
    "spec, fits",
    {
        "no constraints": ({}, True),
        "no required terms": ({"affinity": {"nodeAffinity": {}}}, True),
        "selector": ({"nodeSelector": {"a": "1"}}, True),
        "one of two labels": ({"nodeSelector": {"a": "1", "b": "2"}}, False),
    },
)
def test_node_selector_and_affinity_must_match(spec: dict[str, Any], fits: bool) -> None:
    assert matches_node_selection(msgspec.convert(spec, PodSpec), node(a="1")) is fits
    required = {"nodeSelectorTerms": [term(("z", "Exists"))]}
    spec = {**spec, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}
    assert not matches_node_selection(msgspec.convert(spec, PodSpec), node(a="1"))
