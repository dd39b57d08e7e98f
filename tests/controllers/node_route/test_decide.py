"""Desired routes: a table.

Cases of ``TestReconcile``, ``TestIsResponsibleForRoute`` and ``Test_getRouteAction``, k8s.io/cloud-provider v0.36
``controllers/route/route_controller_test.go``, in our own words.
"""

from typing import Any

import msgspec
from tests.tables import cases

from pilothouse.api.core import Node, NodeAddress
from pilothouse.controllers.cloud.node_route import NodeRouteOptions
from pilothouse.controllers.cloud.node_route.decide import (
    cluster_ranges,
    condition_of,
    has_condition,
    is_responsible_for_route,
    plan,
)
from pilothouse.controllers.shared.cloud import Route

HERE = NodeAddress(type="InternalIP", address="10.0.1.1")
THERE = NodeAddress(type="InternalIP", address="10.0.1.2")
OURS = cluster_ranges("10.120.0.0/16,fd00:10::/48")


def node(name: str, *ranges: str, conditions: Any = ()) -> Node:
    doc = {
        "metadata": {"name": name, "uid": name},
        "spec": {"podCIDRs": list(ranges)},
        "status": {"addresses": [{"type": "InternalIP", "address": "10.0.1.1"}], "conditions": list(conditions)},
    }
    return msgspec.convert(doc, Node)


def route(to: str, destination: str, **more: Any) -> Route:
    return Route(name=f"{to}-{destination}", node=to, destination=destination, **more)


A, B = "10.120.0.0/24", "10.120.1.0/24"
SIX = "fd00:10:0:1::/64"


@cases(
    "nodes, routes, deleted, created",
    {
        "up to date": ([node("a", A), node("b", B)], [route("a", A), route("b", B)], [], []),
        "one missing": ([node("a", A), node("b", B)], [route("a", A)], [], [("b", B)]),
        "all missing": ([node("a", A)], [], [], [("a", A)]),
        "all missing, dual-stack": ([node("a", A, SIX), node("b", B)], [], [], [("a", A), ("a", SIX), ("b", B)]),
        "up to date, dual-stack": ([node("a", A, SIX)], [route("a", A), route("a", SIX)], [], []),
        "wrong and excess route, dual-stack": (
            [node("a", A, SIX)],
            [route("a", A), route("b", SIX), route("a", B)],
            [("b", SIX), ("a", B)],
            [("a", SIX)],
        ),
        "a node is deleted": ([node("a", A)], [route("a", A), route("b", B)], [("b", B)], []),
        "excess route of a node": ([node("a", A)], [route("a", A), route("a", B)], [("a", B)], []),
        "a node has another range": ([node("a", B)], [route("a", A)], [("a", A)], [("a", B)]),
        "a node without a range": ([node("a")], [], [], []),
        "one missing, dual-stack": ([node("a", A, SIX)], [route("a", A)], [], [("a", SIX)]),
        "a blackhole route is deleted": ([node("a", A)], [route("a", A), route("", B, blackhole=True)], [("", B)], []),
        "blackhole route outside the cluster CIDR": (
            [node("a", A)],
            [route("a", A), route("", "10.1.2.0/24", blackhole=True)],
            [],
            [],
        ),
        "route to the wrong node": ([node("a", A)], [route("b", A)], [("b", A)], [("a", A)]),
        "routes outside the cluster CIDR are kept": ([], [route("x", "192.168.0.0/24")], [], []),
        "unparsable routes are kept": ([], [route("x", "nonsense")], [], []),
        "addresses are the same": ([node("a", A)], [route("a", A, addresses=(HERE,))], [], []),
        "the node has moved": ([node("a", A)], [route("a", A, addresses=(THERE,))], [("a", A)], [("a", A)]),
    },
)
def test_reconcile(
    nodes: list[Node], routes: list[Route], deleted: list[tuple[str, str]], created: list[tuple[str, str]]
) -> None:
    result = plan(nodes, routes, OURS)
    assert [(item.node, item.destination) for item in result.delete] == deleted
    assert [(each.node, each.destination) for _node, each in result.create] == created
    assert all(each.addresses == (HERE,) for _node, each in result.create)


@cases(
    "destination, expected",
    {
        "inside": ("10.120.0.0/24", True),
        "network address inside": ("10.120.0.0/15", True),
        "around it": ("10.0.0.0/8", False),
        "outside": ("10.121.0.0/24", False),
        "IPv6": ("fd00:10:0:1::/64", True),
        "outside of the other family": ("fd00:11::/64", False),
    },
)
def test_is_responsible_for_route(destination: str, expected: bool) -> None:
    assert is_responsible_for_route(route("a", destination), OURS) is expected


def test_network_unavailable_condition() -> None:
    created, failed = condition_of(True), condition_of(False)
    assert (created.status, created.reason) == ("False", "RouteCreated")
    assert (failed.status, failed.reason) == ("True", "NoRouteCreated")


CREATED, CALICO = ("False", "RouteCreated"), ("False", "CalicoIsUp")
FAILED, OTHER = ("True", "NoRouteCreated"), ("True", "SomeOtherReason")


@cases(
    "condition, routed, expected",
    {
        "no condition, routes created": (None, True, False),
        "no condition, routes missing": (None, False, False),
        "RouteCreated, routes created": (CREATED, True, True),
        "NoRouteCreated, routes missing": (FAILED, False, True),
        "other reason, routes created": (CALICO, True, False),
        "other reason, routes missing": (OTHER, False, False),
        "RouteCreated, routes missing": (CREATED, False, False),
        "NoRouteCreated, routes created": (FAILED, True, False),
    },
)
def test_network_unavailable_condition_is_current(
    condition: tuple[str, str] | None, routed: bool, expected: bool
) -> None:
    conditions = (
        [] if condition is None else [{"type": "NetworkUnavailable", "status": condition[0], "reason": condition[1]}]
    )
    assert has_condition(node("a", A, conditions=conditions), condition_of(routed)) is expected


def test_cluster_cidrs_are_parsed_at_startup() -> None:
    assert NodeRouteOptions(provider="simulated").validate() == [], "nodes are given no ranges"
    assert NodeRouteOptions(allocate=True).validate() == [], "there is no provider"
    (problem,) = NodeRouteOptions(provider="simulated", allocate=True).validate()
    assert problem == "RouteController: Must specify clusterCIDR."
    (problem,) = NodeRouteOptions(provider="simulated", allocate=True, cluster_cidr="x").validate()
    assert problem.startswith('failed to parse cidr value:"x"')
