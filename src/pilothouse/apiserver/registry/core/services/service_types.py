"""What a type of Service has.

After kubernetes' ``pkg/api/service/util.go`` and ``pkg/registry/core/service/strategy.go`` (v1.36).
"""

from pilothouse.apiserver.objects import Object

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def needs_addresses(spec: Object) -> bool:
    """Whether services of this type have cluster addresses (or are headless)."""
    return spec.get("type") != "ExternalName"


def needs_node_ports(spec: Object) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def allocates_node_ports(spec: Object) -> bool:
    return needs_node_ports(spec) and (
        spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    )


def is_headless(spec: Object) -> bool:
    """Whether the service has no cluster address, on purpose."""
    return spec.get("clusterIPs") == ["None"]


def needs_health_check_port(spec: Object) -> bool:
    """Whether a load balancer has to find out which nodes have endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: Object) -> bool:
    return needs_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))
