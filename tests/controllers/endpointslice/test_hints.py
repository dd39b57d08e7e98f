"""Topology hints of endpoints. Rows mirror ``trafficdist_test.go`` and ``topologycache_test.go`` of v1.36."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.controllers.endpointslice.builders import planned, pod, service, slices_of
from tests.tables import cases

from pilothouse.api.core import Node, NodeCondition, NodeStatus
from pilothouse.api.discovery import EndpointSlice
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.network.endpointslice.decide import Plan
from pilothouse.controllers.network.endpointslice.hints import (
    Allocation,
    add_hints,
    allocate,
    is_topology_enabled,
    reconcile_by_distribution,
    without_hints,
)
from pilothouse.controllers.network.endpointslice.topology_cache import get_cpu_ratios, is_overloaded


def hints(slices: Sequence[EndpointSlice]) -> list[tuple[list[str], list[str]] | None]:
    return [
        None if e.hints is None else ([z.name for z in e.hints.for_zones], [n.name for n in e.hints.for_nodes])
        for endpoint_slice in slices
        for e in endpoint_slice.endpoints or ()
    ]


@cases(
    "distribution, expected",
    {
        "the older name: own zone": ("PreferClose", [(["a"], []), (["b"], []), None, None]),
        "own zone": ("PreferSameZone", [(["a"], []), (["b"], []), None, None]),
        "PreferSameNode": ("PreferSameNode", [(["a"], ["n1"]), (["b"], ["n2"]), ([], ["n3"]), None]),
    },
)
def test_traffic_distribution_hints(distribution: str, expected: list[object]) -> None:
    """[TestReconcileHints_...] n3 has no zone, the last pod is not ready."""
    pods = [pod(1, node="n1"), pod(2, node="n2"), pod(3, node="n3"), pod(4, ready=False)]
    assert hints(reconcile_by_distribution(planned(service(), pods), distribution).creates) == expected


def test_wrong_hints_are_corrected_in_unchanged_slices() -> None:
    pods = [pod(1), pod(2, node="n2")]
    existing = slices_of(service(), pods)
    first = reconcile_by_distribution(planned(service(), pods, existing), "PreferSameZone")
    assert hints(first.updates) == [(["a"], []), (["b"], [])]
    again = reconcile_by_distribution(planned(service(), pods, first.updates), "PreferSameZone")
    assert (again.updates, len(again.unchanged)) == ((), 1)
    assert hints(reconcile_by_distribution(planned(service(), pods, first.updates), "PreferSameNode").updates) == [
        (["a"], ["n1"]),
        (["b"], ["n2"]),
    ]
    assert hints(without_hints(planned(service(), pods, first.updates)).updates) == [None, None]


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, False),
        ({"service.kubernetes.io/topology-mode": "Auto"}, True),
        ({"service.kubernetes.io/topology-mode": "auto"}, True),
        ({"service.kubernetes.io/topology-mode": "Disabled"}, False),
        ({"service.kubernetes.io/topology-aware-hints": "auto"}, True),
        (
            {
                "service.kubernetes.io/topology-mode": "Auto",
                "service.kubernetes.io/topology-aware-hints": "Disabled",
            },
            False,
        ),
    ],
)
def test_topology_aware_hints_annotation_takes_precedence(annotations: dict[str, str], expected: bool) -> None:
    """[Test_hintsEnabled]"""
    assert is_topology_enabled(annotations) is expected


@cases(
    "ratios, count, expected",
    {
        "no ratios [Test_getAllocations]": ({}, 4, "Insufficient Node information"),
        "too few endpoints": ({"a": 0.5, "b": 0.5}, 1, "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        "ratios 0.25 and 0.75 of two": ({"a": 0.25, "b": 0.75}, 2, "Unable to allocate minimum"),
        "ratios 0.5 and 0.5 of six": (
            {"a": 0.5, "b": 0.5},
            6,
            {"a": Allocation(3, 3, 3.0), "b": Allocation(3, 3, 3.0)},
        ),
        "a fifth of ten": ({"a": 0.2, "b": 0.8}, 10, {"a": Allocation(2, 3, 2.0), "b": Allocation(7, 8, 8.0)}),
    },
)
def test_allocations(ratios: dict[str, float], count: int, expected: str | dict[str, Allocation]) -> None:
    result = allocate(ratios, count)
    if isinstance(expected, str):
        assert isinstance(result, str)
        assert result.startswith(expected)
    else:
        assert result == expected


def test_endpoints_are_reallocated_between_zones() -> None:
    """[TestAddHints]: six endpoints, five of them in one of two equal zones."""
    pods = [*[pod(n) for n in range(5)], pod(5, node="n2")]
    allocations = allocate({"a": 0.5, "b": 0.5}, 6)
    assert isinstance(allocations, dict)
    result = add_hints(planned(service(), pods), allocations)
    assert not isinstance(result, str)
    plan, hinted = result
    assert hinted == {"a": 3, "b": 3}
    assert hints(plan.creates) == [(["b"], []), (["b"], []), (["a"], []), (["a"], []), (["a"], []), (["b"], [])]
    settled = [replace(item, metadata=replace(item.metadata, name="web-0")) for item in plan.creates]
    again = add_hints(planned(service(), pods, settled), allocations)
    assert not isinstance(again, str)
    assert (again[0].updates, again[1]) == ((), hinted), "what is right is not written again"


def test_endpoint_without_a_zone_disables_hints() -> None:
    allocations = allocate({"a": 0.5, "b": 0.5}, 2)
    assert isinstance(allocations, dict)
    assert add_hints(planned(service(), [pod(1), pod(2, node="n3")]), allocations) == (
        "One or more endpoints do not have a zone specified"
    )
    assert add_hints(Plan(), allocations) == "No hints allocated for zones"


def node(name: str, zone: str, cpu: str, *, ready: bool = True, labels: dict[str, str] | None = None) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, labels={"topology.kubernetes.io/zone": zone, **(labels or {})}),
        status=NodeStatus(allocatable={"cpu": cpu}, conditions=(NodeCondition(type="Ready", status=str(ready)),)),
    )


@cases(
    "nodes, expected",
    {
        "no nodes [TestSetNodes]": ([], {}),
        "one zone": ([node("1", "a", "1")], {}),
        "a quarter and the rest": ([node("1", "a", "1"), node("2", "b", "3")], {"a": 0.25, "b": 0.75}),
        "node without zone": ([node("1", "a", "1000m"), node("2", "b", "1"), node("3", "", "1")], {}),
        "node without CPU": ([node("1", "a", "1"), node("2", "b", "1"), node("3", "b", "0")], {}),
        "node not ready": (
            [node("1", "a", "1"), node("2", "b", "1"), node("3", "c", "1", ready=False)],
            {"a": 0.5, "b": 0.5},
        ),
        "control plane node": (
            [
                node("1", "a", "1"),
                node("2", "b", "1"),
                node("3", "c", "1", labels={"node-role.kubernetes.io/master": ""}),
            ],
            {"a": 0.5, "b": 0.5},
        ),
    },
)
def test_zone_cpu_ratios(nodes: list[Node], expected: dict[str, float]) -> None:
    assert get_cpu_ratios(nodes) == expected


@cases(
    "endpoints, ratios, expected",
    {
        "no endpoints [TestServiceOverloaded]": ({}, {"a": 0.5, "b": 0.5}, False),
        "no ratios": ({"a": 2, "b": 2}, {}, True),
        "evenly distributed": ({"a": 2, "b": 2}, {"a": 0.5, "b": 0.5}, False),
        "a new zone": ({"a": 2, "b": 2}, {"a": 0.3, "b": 0.3, "c": 0.4}, True),
        "zone overloaded": ({"a": 9, "b": 2}, {"a": 0.7, "b": 0.3}, True),
    },
)
def test_overload_threshold(endpoints: dict[str, int], ratios: dict[str, float], expected: bool) -> None:
    assert is_overloaded(endpoints, ratios) is expected
