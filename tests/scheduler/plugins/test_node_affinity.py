"""As kube-scheduler v1.36 ``plugins/nodeaffinity/node_affinity_test.go``."""

from typing import Any

from tests.scheduler.build import filter_status, info, node, pod, prefers
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.node_affinity import NODE_AFFINITY_NOT_MATCH, score_node
from pilothouse.scheduler.plugins.normalize_score import default_normalize_score


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expressions(*wanted: tuple[str, str, list[str]]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in wanted]}


def by_name(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(names)}]}


@cases(
    "spec, labels, fits",
    {
        # nodeaffinity/node_affinity_test.go
        "no selector": ({}, {}, True),
        "selector without its label": ({"nodeSelector": {"disk": "ssd"}}, {}, False),
        "selector, one label more": ({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd", "x": "y"}, True),
        "one of two labels": ({"nodeSelector": {"disk": "ssd", "a": "b"}}, {"disk": "ssd"}, False),
        "In, one of the values": ({"affinity": affinity(expressions(("zone", "In", ["a", "b"])))}, {"zone": "b"}, True),
        "Gt, greater": ({"affinity": affinity(expressions(("cores", "Gt", ["8"])))}, {"cores": "16"}, True),
        "Gt, equal": ({"affinity": affinity(expressions(("cores", "Gt", ["8"])))}, {"cores": "8"}, False),
        "Lt": ({"affinity": affinity(expressions(("cores", "Lt", ["8"])))}, {"cores": "4"}, True),
        "NotIn without label": ({"affinity": affinity(expressions(("zone", "NotIn", ["a"])))}, {}, True),
        "Exists": ({"affinity": affinity(expressions(("gpu", "Exists", [])))}, {"gpu": "x"}, True),
        "DoesNotExist": ({"affinity": affinity(expressions(("gpu", "DoesNotExist", [])))}, {"gpu": "x"}, False),
        "no terms match nothing": ({"affinity": affinity()}, {"a": "b"}, False),
        "an empty term matches nothing": ({"affinity": affinity(expressions())}, {"a": "b"}, False),
        "all expressions of a term must match": (
            {"affinity": affinity(expressions(("a", "In", ["1"]), ("b", "Exists", [])))},
            {"a": "1"},
            False,
        ),
        "one of several terms must match": (
            {"affinity": affinity(expressions(("a", "In", ["1"])), expressions(("b", "Exists", [])))},
            {"b": "1"},
            True,
        ),
        "selector and affinity must match": (
            {"nodeSelector": {"a": "1"}, "affinity": affinity(expressions(("b", "Exists", [])))},
            {"b": "1"},
            False,
        ),
        "the node by field": ({"affinity": affinity(by_name("In", "n"))}, {}, True),
        "different node by field": ({"affinity": affinity(by_name("In", "m"))}, {}, False),
        "NotIn with a different node by field": ({"affinity": affinity(by_name("NotIn", "m"))}, {}, True),
        "fields and expressions of a term must match": (
            {"affinity": affinity({**by_name("In", "n"), **expressions(("a", "Exists", []))})},
            {},
            False,
        ),
        "field or expression in different terms": (
            {"affinity": affinity(by_name("In", "m"), expressions(("a", "Exists", [])))},
            {"a": "1"},
            True,
        ),
    },
)
def test_filter(spec: dict[str, Any], labels: dict[str, str], fits: bool) -> None:
    assert filter_status(pod(**spec), node(labels=labels)) == (None if fits else NODE_AFFINITY_NOT_MATCH)


@cases(
    "wanted, labels, raw, expected",
    {
        # nodeaffinity/node_affinity_test.go: TestNodeAffinityPriority
        "no preference": (pod(), [{"a": "1"}, {}], [0, 0], [0, 0]),
        "no node matches": (prefers((2, "a", "1")), [{"b": "1"}, {"a": "2"}], [0, 0], [0, 0]),
        "one node matches": (prefers((2, "a", "1")), [{"a": "1"}, {}], [2, 0], [100, 0]),
        "weights add up, the best node gets all": (
            prefers((2, "a", "1"), (4, "b", "1"), (5, "c", "1")),
            [{"a": "1"}, {"a": "1", "b": "1", "c": "1"}, {"b": "1"}],
            [2, 11, 4],
            [18, 100, 36],
        ),
    },
)
def test_score(wanted: Pod, labels: list[dict[str, str]], raw: list[int], expected: list[int]) -> None:
    result = [score_node(PodInfo(wanted), info(node(labels=label))) for label in labels]
    assert (result, default_normalize_score(result)) == (raw, expected)
