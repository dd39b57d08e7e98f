"""A cloud in memory: load balancers and routes without function, machines whose state is in annotations of their nodes.

For ``pilothouse up``, simulations and tests. Addresses are from reserved ranges (RFC 2544, RFC 3849). A load balancer
that is created again after a restart gets the address in the status of its service, if that is free.
"""

import ipaddress
from collections.abc import Sequence

import msgspec

from pilothouse.api.core import LoadBalancerIngress, LoadBalancerStatus, Node, Service
from pilothouse.controllers.shared.cloud import Instances, LoadBalancers, Route, Routes
from pilothouse.env import Env

INSTANCE = "simulated.pilothouse.dev/instance"
"""Annotation of nodes: ``gone``, the machine does not exist; ``stopped``, it is switched off."""
RANGES = {"IPv4": ipaddress.ip_network("198.18.0.0/15"), "IPv6": ipaddress.ip_network("2001:db8:18::/112")}


class Balancer(msgspec.Struct, frozen=True, kw_only=True):
    """A load balancer. ``ports`` are pairs of its port and the nodes' port."""

    name: str
    service: str
    uid: str
    addresses: tuple[str, ...]
    ports: tuple[tuple[str, int, int], ...] = ()
    source_ranges: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class SimulatedCloud:
    """All parts in one object, for simulations to read."""

    name: str = "simulated"

    def __init__(self, _env: Env) -> None:
        self.balancers: dict[str, Balancer] = {}
        """By the uid of the service."""
        self.known_routes: dict[str, Route] = {}
        self.load_balancers: LoadBalancers | None = SimulatedBalancers(self.balancers)
        self.routes: Routes | None = SimulatedRoutes(self.known_routes)
        self.instances: Instances | None = AnnotatedInstances()


class SimulatedBalancers:
    def __init__(self, balancers: dict[str, Balancer]) -> None:
        self._balancers = balancers

    async def get(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        balancer = self._balancers.get(service.metadata.uid)
        return None if balancer is None else _status(balancer)

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create or change it. A requested address must be free."""
        uid = service.metadata.uid
        existing = self._balancers.get(uid)
        balancer = self._balancers[uid] = Balancer(
            name="a" + uid.replace("-", "")[:31],
            service=f"{service.metadata.namespace}/{service.metadata.name}",
            uid=uid,
            addresses=self._addresses(service, existing),
            ports=tuple((port.protocol, port.port, port.node_port) for port in service.spec.ports),
            source_ranges=service.spec.load_balancer_source_ranges,
            nodes=_names(nodes),
        )
        return _status(balancer)

    async def update(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        balancer = self._balancers.get(service.metadata.uid)
        if balancer is None:
            raise LookupError(f"there is no load balancer for {service.metadata.namespace}/{service.metadata.name}")
        self._balancers[service.metadata.uid] = msgspec.structs.replace(balancer, nodes=_names(nodes))

    async def delete(self, cluster: str, service: Service) -> None:
        self._balancers.pop(service.metadata.uid, None)

    def _addresses(self, service: Service, existing: Balancer | None) -> tuple[str, ...]:
        used = {
            address
            for balancer in self._balancers.values()
            if balancer is not existing
            for address in balancer.addresses
        }
        old = (
            existing.addresses
            if existing is not None
            else tuple(ingress.ip for ingress in service.status.load_balancer.ingress)
        )
        addresses = []
        for family in service.spec.ip_families or ("IPv4",):
            network = RANGES[family]
            desired = service.spec.load_balancer_ip
            if desired and ipaddress.ip_address(desired).version == network.version:
                if desired in used or ipaddress.ip_address(desired) not in network:
                    raise ValueError(f"address {desired} is taken, or not in {network}")
                addresses.append(desired)
                continue
            reusable = [address for address in old if _is_in(address, network) and address not in used]
            addresses.append(reusable[0] if reusable else _first_free(network, used))
        return tuple(addresses)


class SimulatedRoutes:
    def __init__(self, routes: dict[str, Route]) -> None:
        self._routes = routes

    async def list(self, cluster: str) -> Sequence[Route]:
        """All of them, by name."""
        return [self._routes[name] for name in sorted(self._routes)]

    async def create(self, cluster: str, name_hint: str, route: Route) -> None:
        name = f"{name_hint}-{route.destination}"
        self._routes[name] = msgspec.structs.replace(route, name=name, addresses=None)

    async def delete(self, cluster: str, route: Route) -> None:
        self._routes.pop(route.name, None)


class AnnotatedInstances:
    """Machines as the annotation describes them. Nodes without it have a running one."""

    async def exists(self, node: Node) -> bool:
        return node.metadata.annotations.get(INSTANCE) != "gone"

    async def is_shut_down(self, node: Node) -> bool:
        return node.metadata.annotations.get(INSTANCE) == "stopped"


def _status(balancer: Balancer) -> LoadBalancerStatus:
    return LoadBalancerStatus(
        ingress=tuple(LoadBalancerIngress(ip=address, ip_mode="VIP") for address in balancer.addresses)
    )


def _names(nodes: Sequence[Node]) -> tuple[str, ...]:
    return tuple(sorted(node.metadata.name for node in nodes))


def _is_in(address: str, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    return bool(address) and ipaddress.ip_address(address) in network


def _first_free(network: ipaddress.IPv4Network | ipaddress.IPv6Network, used: set[str]) -> str:
    for address in network.hosts():
        if str(address) not in used:
            return str(address)
    raise ValueError(f"no address is left in {network}")
