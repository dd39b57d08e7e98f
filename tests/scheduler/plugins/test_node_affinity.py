"""As kube-scheduler v1.36 ``plugins/nodeaffinity/node_affinity_test.go``."""

from typing import Any

import pytest
from tests.scheduler.build import filter_status, info, node, pod, prefers

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


@pytest.mark.parametrize(
    ("spec", "labels", "fits"),
    [
        # nodeaffinity/node_affinity_test.go
        pytest.param({}, {}, True, id="no selector"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {}, False, id="selector without its label"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd", "x": "y"}, True, id="selector, one label more"),
        pytest.param({"nodeSelector": {"disk": "ssd", "a": "b"}}, {"disk": "ssd"}, False, id="half a selector"),
        pytest.param(
            {"affinity": affinity(expressions(("zone", "In", ["a", "b"])))}, {"zone": "b"}, True, id="In, one of them"
        ),
        pytest.param(
            {"affinity": affinity(expressions(("cores", "Gt", ["8"])))}, {"cores": "16"}, True, id="Gt, greater"
        ),
        pytest.param(
            {"affinity": affinity(expressions(("cores", "Gt", ["8"])))}, {"cores": "8"}, False, id="Gt, equal"
        ),
        pytest.param({"affinity": affinity(expressions(("cores", "Lt", ["8"])))}, {"cores": "4"}, True, id="Lt"),
        pytest.param({"affinity": affinity(expressions(("zone", "NotIn", ["a"])))}, {}, True, id="NotIn without label"),
        pytest.param({"affinity": affinity(expressions(("gpu", "Exists", [])))}, {"gpu": "x"}, True, id="Exists"),
        pytest.param(
            {"affinity": affinity(expressions(("gpu", "DoesNotExist", [])))}, {"gpu": "x"}, False, id="DoesNotExist"
        ),
        pytest.param({"affinity": affinity()}, {"a": "b"}, False, id="no terms match nothing"),
        pytest.param({"affinity": affinity(expressions())}, {"a": "b"}, False, id="an empty term matches nothing"),
        pytest.param(
            {"affinity": affinity(expressions(("a", "In", ["1"]), ("b", "Exists", [])))},
            {"a": "1"},
            False,
            id="expressions of a term must all hold",
        ),
        pytest.param(
            {"affinity": affinity(expressions(("a", "In", ["1"])), expressions(("b", "Exists", [])))},
            {"b": "1"},
            True,
            id="one of several terms is enough",
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}, "affinity": affinity(expressions(("b", "Exists", [])))},
            {"b": "1"},
            False,
            id="selector and affinity must both hold",
        ),
        pytest.param({"affinity": affinity(by_name("In", "n"))}, {}, True, id="the node by field"),
        pytest.param({"affinity": affinity(by_name("In", "m"))}, {}, False, id="another node by field"),
        pytest.param({"affinity": affinity(by_name("NotIn", "m"))}, {}, True, id="any but another node by field"),
        pytest.param(
            {"affinity": affinity({**by_name("In", "n"), **expressions(("a", "Exists", []))})},
            {},
            False,
            id="fields and expressions of a term must both hold",
        ),
        pytest.param(
            {"affinity": affinity(by_name("In", "m"), expressions(("a", "Exists", [])))},
            {"a": "1"},
            True,
            id="field or expression in different terms",
        ),
    ],
)
def test_filter(spec: dict[str, Any], labels: dict[str, str], fits: bool) -> None:
    assert filter_status(pod(**spec), node(labels=labels)) == (None if fits else NODE_AFFINITY_NOT_MATCH)


@pytest.mark.parametrize(
    ("wanted", "labels", "raw", "expected"),
    [
        # nodeaffinity/node_affinity_test.go: TestNodeAffinityPriority
        pytest.param(pod(), [{"a": "1"}, {}], [0, 0], [0, 0], id="no preference"),
        pytest.param(prefers((2, "a", "1")), [{"b": "1"}, {"a": "2"}], [0, 0], [0, 0], id="no node has it"),
        pytest.param(prefers((2, "a", "1")), [{"a": "1"}, {}], [2, 0], [100, 0], id="one node has it"),
        pytest.param(
            prefers((2, "a", "1"), (4, "b", "1"), (5, "c", "1")),
            [{"a": "1"}, {"a": "1", "b": "1", "c": "1"}, {"b": "1"}],
            [2, 11, 4],
            [18, 100, 36],
            id="weights add up, the best node gets all",
        ),
    ],
)
def test_score(wanted: Pod, labels: list[dict[str, str]], raw: list[int], expected: list[int]) -> None:
    found = [score_node(PodInfo(wanted), info(node(labels=one))) for one in labels]
    assert (found, default_normalize_score(found)) == (raw, expected)
