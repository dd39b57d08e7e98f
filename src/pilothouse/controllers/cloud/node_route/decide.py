"""Which routes to create and to delete. Pure. Upstream: k8s.io/cloud-provider v0.36
``controllers/route/route_controller.go``."""

from collections.abc import Iterable, Sequence

import msgspec

from pilothouse.api.core import Node, NodeAddress, NodeCondition
from pilothouse.controllers.shared.cloud import Route
from pilothouse.machinery.cidrs import Network, parse_cidr

UNAVAILABLE = "NetworkUnavailable"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The changes, deletions first."""

    delete: tuple[Route, ...] = ()
    create: tuple[tuple[Node, Route], ...] = ()


def cluster_ranges(text: str) -> list[Network]:
    """The ranges of ``--cluster-cidr``. Raises ``ValueError``."""
    if not text.strip():
        raise ValueError("RouteController: Must specify clusterCIDR.")
    networks = []
    for part in text.strip().split(","):
        try:
            networks.append(parse_cidr(part))
        except ValueError as error:
            raise ValueError(f'failed to parse cidr value:"{part}" with error:{error}') from None
    return networks


def plan(nodes: Iterable[Node], routes: Sequence[Route], cluster_cidrs: Sequence[Network]) -> Plan:
    """Compare the routes that exist with those that should.

    A route whose node has other addresses by now is recreated, for providers that report them. Routes outside of the
    cluster's CIDRs are not deleted, but count if they serve.
    """
    existing: dict[str, list[Route]] = {}
    for route in routes:
        existing.setdefault(route.node, []).append(route)
    matching_routes: set[tuple[str, str]] = set()  # never iterated
    create: list[tuple[Node, Route]] = []
    for node in nodes:
        name, addresses = node.metadata.name, node.status.addresses
        for destination in node.spec.pod_cidrs:
            if _is_route_for(existing.get(name, ()), destination, addresses):
                matching_routes.add((name, destination))
            else:
                create.append((node, Route(node=name, destination=destination, addresses=addresses)))
    delete = tuple(
        route
        for route in routes
        if is_responsible_for_route(route, cluster_cidrs)
        and (route.blackhole or (route.node, route.destination) not in matching_routes)
    )
    return Plan(delete=delete, create=tuple(create))


def _is_route_for(routes: Iterable[Route], destination: str, addresses: Sequence[NodeAddress]) -> bool:
    for route in routes:
        if route.destination == destination:
            return route.addresses is None or (
                len(route.addresses) == len(addresses)
                and all(node_address in route.addresses for node_address in addresses)
            )
    return False


def is_responsible_for_route(route: Route, cluster_cidrs: Sequence[Network]) -> bool:
    """Whether the route's range starts or ends in one of the cluster's. A range that cannot be parsed is not
    managed."""
    try:
        network = parse_cidr(route.destination)
    except ValueError:
        return False
    return any(
        cluster.version == network.version
        and (network.network_address in cluster or network.broadcast_address in cluster)
        for cluster in cluster_cidrs
    )


def condition_of(routed: bool) -> NodeCondition:
    """The condition ``NetworkUnavailable``, without times."""
    if routed:
        message = "RouteController created a route"
        return NodeCondition(type=UNAVAILABLE, status="False", reason="RouteCreated", message=message)
    message = "RouteController failed to create a route"
    return NodeCondition(type=UNAVAILABLE, status="True", reason="NoRouteCreated", message=message)


def has_condition(node: Node, desired: NodeCondition) -> bool:
    """Whether the node has this condition already."""
    for condition in node.status.conditions:
        if condition.type == UNAVAILABLE:
            return (condition.status, condition.reason) == (desired.status, desired.reason)
    return False
