"""Each zone's share of the CPU, and the endpoints per zone of services with topology hints. Upstream: v1.36
``staging/src/k8s.io/endpointslice/topologycache/topologycache.go``."""

import math
from collections.abc import Iterable, Mapping

from pilothouse.api.core import Node
from pilothouse.controllers.network.endpointslice.desired import ZONE_LABEL
from pilothouse.controllers.network.endpointslice.hints import OVERLOAD
from pilothouse.machinery.quantities import parse_quantity
from pilothouse.semantics.nodes import is_node_ready

_EXCLUDED = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def node_change_matters(old: Node, new: Node) -> bool:
    return is_node_ready(old) != is_node_ready(new) or _zone(old) != _zone(new)


def _zone(node: Node) -> str:
    return node.metadata.labels.get(ZONE_LABEL, "")


def get_cpu_ratios(nodes: Iterable[Node]) -> dict[str, float]:
    """The CPU share of each zone; none if a node has no zone or no CPU, or if there are fewer than two zones.
    Control-plane nodes and nodes that are not ready are ignored."""
    cpu: dict[str, int] = {}
    for node in nodes:
        if any(label in node.metadata.labels for label in _EXCLUDED) or not is_node_ready(node):
            continue
        amount = parse_quantity(node.status.allocatable.get("cpu", "0")).milli_value
        zone = _zone(node)
        if not zone or amount <= 0:
            return {}
        cpu[zone] = cpu.get(zone, 0) + amount
    total = sum(cpu.values())
    return {zone: cpu[zone] / total for zone in sorted(cpu)} if len(cpu) > 1 else {}


def is_overloaded(endpoints: Mapping[str, int], ratios: Mapping[str, float]) -> bool:
    """Whether a zone has too few endpoints for its share."""
    if not endpoints:
        return False
    if not ratios:
        return True
    total = sum(endpoints.values())
    return any(
        zone not in endpoints or endpoints[zone] < math.ceil(total * ratio * (1 / (1 + OVERLOAD)))
        for zone, ratio in ratios.items()
    )


class TopologyCache:
    """The shares, and by Service and family the number of endpoints per zone."""

    def __init__(self) -> None:
        self.ratios: dict[str, float] = {}
        self._given: dict[str, dict[str, dict[str, int]]] = {}
        self._populated: set[str] = set()  # never iterated

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        self.ratios = get_cpu_ratios(nodes)

    def get_overloaded_services(self) -> list[str]:
        """The services that must be synced because a zone's share has grown, sorted."""
        return sorted(
            key
            for key, by_type in self._given.items()
            if any(is_overloaded(endpoints, self.ratios) for endpoints in by_type.values())
        )

    def has_hints(self, key: str) -> bool:
        return key in self._populated

    def set_hints(self, key: str, address_type: str, endpoints: dict[str, int]) -> None:
        """The service has hints now, so many endpoints for each zone."""
        self._given.setdefault(key, {})[address_type] = endpoints
        self._populated.add(key)

    def remove_hints(self, key: str, address_type: str) -> None:
        by_type = self._given.get(key)
        if by_type is not None:
            by_type.pop(address_type, None)
            if not by_type:
                del self._given[key]
        self._populated.discard(key)

    def delete_service(self, key: str) -> None:
        self._given.pop(key, None)
        self._populated.discard(key)
