"""The properties of Service types.

After kubernetes' ``pkg/api/service/util.go`` and ``pkg/registry/core/service/strategy.go`` (v1.36).
"""

from pilothouse.apiserver.objects import Object

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def needs_cluster_ip(spec: Object) -> bool:
    """Whether Services of this type have cluster IPs or are headless."""
    return spec.get("type") != "ExternalName"


def needs_node_port(spec: Object) -> bool:
    return spec.get("type") in ("NodePort", "LoadBalancer")


def allocates_node_ports(spec: Object) -> bool:
    return needs_node_port(spec) and (
        spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False
    )


def is_headless(spec: Object) -> bool:
    """Whether the Service is headless (``clusterIP: None``)."""
    return spec.get("clusterIPs") == ["None"]


def needs_hc_node_port(spec: Object) -> bool:
    """Whether the Service has a health check node port."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def is_externally_accessible(spec: Object) -> bool:
    return needs_node_port(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))
