"""Which routes there should be: a table.

Cases of ``TestReconcile``, ``TestIsResponsibleForRoute`` and ``Test_getRouteAction``, k8s.io/cloud-provider v0.36
``controllers/route/route_controller_test.go``, in our own words.
"""

from typing import Any

import msgspec
import pytest

from pilothouse.api.core import Node, NodeAddress
from pilothouse.controllers.cloud.node_route import NodeRouteOptions
from pilothouse.controllers.cloud.node_route.decide import cluster_ranges, condition_of, is_ours, plan, says
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


@pytest.mark.parametrize(
    ("nodes", "routes", "deleted", "created"),
    [
        pytest.param([node("a", A), node("b", B)], [route("a", A), route("b", B)], [], [], id="routes are there"),
        pytest.param([node("a", A), node("b", B)], [route("a", A)], [], [("b", B)], id="one route is missing"),
        pytest.param([node("a", A)], [], [], [("a", A)], id="none is there"),
        pytest.param(
            [node("a", A, SIX), node("b", B)], [], [], [("a", A), ("a", SIX), ("b", B)], id="none, of two families"
        ),
        pytest.param(
            [node("a", A, SIX)], [route("a", A), route("a", SIX)], [], [], id="routes of two families are there"
        ),
        pytest.param(
            [node("a", A, SIX)],
            [route("a", A), route("b", SIX), route("a", B)],
            [("b", SIX), ("a", B)],
            [("a", SIX)],
            id="of two families one is wrong, and one too many",
        ),
        pytest.param([node("a", A)], [route("a", A), route("b", B)], [("b", B)], [], id="a node is gone"),
        pytest.param([node("a", A)], [route("a", A), route("a", B)], [("a", B)], [], id="one too many for a node"),
        pytest.param([node("a", B)], [route("a", A)], [("a", A)], [("a", B)], id="a node has another range"),
        pytest.param([node("a")], [], [], [], id="a node without a range"),
        pytest.param([node("a", A, SIX)], [route("a", A)], [], [("a", SIX)], id="of two families one is missing"),
        pytest.param(
            [node("a", A)], [route("a", A), route("", B, blackhole=True)], [("", B)], [], id="a black hole goes"
        ),
        pytest.param(
            [node("a", A)],
            [route("a", A), route("", "10.1.2.0/24", blackhole=True)],
            [],
            [],
            id="a black hole that is not in our ranges stays",
        ),
        pytest.param([node("a", A)], [route("b", A)], [("b", A)], [("a", A)], id="a route to the wrong node"),
        pytest.param([], [route("x", "192.168.0.0/24")], [], [], id="what is not in our ranges stays"),
        pytest.param([], [route("x", "nonsense")], [], [], id="what cannot be read stays"),
        pytest.param([node("a", A)], [route("a", A, addresses=(HERE,))], [], [], id="addresses are the same"),
        pytest.param(
            [node("a", A)], [route("a", A, addresses=(THERE,))], [("a", A)], [("a", A)], id="the node has moved"
        ),
    ],
)
def test_which_routes_are_made_and_deleted(
    nodes: list[Node], routes: list[Route], deleted: list[tuple[str, str]], created: list[tuple[str, str]]
) -> None:
    found = plan(nodes, routes, OURS)
    assert [(each.node, each.destination) for each in found.delete] == deleted
    assert [(each.node, each.destination) for _node, each in found.create] == created
    assert all(each.addresses == (HERE,) for _node, each in found.create)


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        pytest.param("10.120.0.0/24", True, id="inside"),
        pytest.param("10.120.0.0/15", True, id="its beginning is inside"),
        pytest.param("10.0.0.0/8", False, id="around it"),
        pytest.param("10.121.0.0/24", False, id="outside"),
        pytest.param("fd00:10:0:1::/64", True, id="the other family"),
        pytest.param("fd00:11::/64", False, id="outside of the other family"),
    ],
)
def test_which_routes_are_ours(destination: str, expected: bool) -> None:
    assert is_ours(route("a", destination), OURS) is expected


def test_what_a_node_says_of_its_routes() -> None:
    created, failed = condition_of(True), condition_of(False)
    assert (created.status, created.reason) == ("False", "RouteCreated")
    assert (failed.status, failed.reason) == ("True", "NoRouteCreated")


CREATED, CALICO = ("False", "RouteCreated"), ("False", "CalicoIsUp")
FAILED, OTHER = ("True", "NoRouteCreated"), ("True", "SomeOtherReason")


@pytest.mark.parametrize(
    ("found", "routed", "expected"),
    [
        pytest.param(None, True, False, id="nothing yet, and there are routes"),
        pytest.param(None, False, False, id="nothing yet, and there are none"),
        pytest.param(CREATED, True, True, id="just that"),
        pytest.param(FAILED, False, True, id="just that, and there are none"),
        pytest.param(CALICO, True, False, id="somebody else's reason"),
        pytest.param(OTHER, False, False, id="somebody else's reason, and there are none"),
        pytest.param(CREATED, False, False, id="there are none any more"),
        pytest.param(FAILED, True, False, id="there are some now"),
    ],
)
def test_whether_a_node_says_so_already(found: tuple[str, str] | None, routed: bool, expected: bool) -> None:
    there = [] if found is None else [{"type": "NetworkUnavailable", "status": found[0], "reason": found[1]}]
    assert says(node("a", A, conditions=there), condition_of(routed)) is expected


def test_the_ranges_are_read_at_the_start() -> None:
    assert NodeRouteOptions(provider="simulated").validate() == [], "nodes are given no ranges"
    assert NodeRouteOptions(allocate=True).validate() == [], "there is no provider"
    (problem,) = NodeRouteOptions(provider="simulated", allocate=True).validate()
    assert problem == "RouteController: Must specify clusterCIDR."
    (problem,) = NodeRouteOptions(provider="simulated", allocate=True, cluster_cidr="x").validate()
    assert problem.startswith('failed to parse cidr value:"x"')
