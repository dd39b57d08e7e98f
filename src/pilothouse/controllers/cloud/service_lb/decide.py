"""What a Service requires of its load balancer, and its nodes. Pure. Upstream: k8s.io/cloud-provider v0.36
``controllers/service/controller.go``."""

from collections.abc import Iterable, Sequence

from pilothouse.api.core import LoadBalancerIngress, LoadBalancerStatus, Node, Service

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"
GOING = "ToBeDeletedByClusterAutoscaler"
"""Taint of nodes that the cluster autoscaler is about to delete."""
MAX_NAMES = 20
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


# Services


def wants_load_balancer(service: Service) -> bool:
    """With a ``loadBalancerClass`` it is another controller's."""
    return service.spec.type == "LoadBalancer" and service.spec.load_balancer_class is None


def has_finalizer(service: Service) -> bool:
    return FINALIZER in service.metadata.finalizers


def needs_cleanup(service: Service) -> bool:
    if not has_finalizer(service):
        return False
    return service.metadata.deletion_timestamp is not None or service.spec.type != "LoadBalancer"


def needs_update(old: Service, new: Service) -> bool:
    """Whether the change requires a call to the cloud."""
    if not wants_load_balancer(old) and not wants_load_balancer(new):
        return False
    return (
        wants_load_balancer(old) != wants_load_balancer(new)
        or old.metadata.uid != new.metadata.uid
        or old.metadata.annotations != new.metadata.annotations
        or _heard_of(old) != _heard_of(new)
    )


def _heard_of(service: Service) -> tuple[object, ...]:
    spec = service.spec
    return (
        spec.load_balancer_source_ranges,
        spec.ports,
        spec.session_affinity,
        spec.session_affinity_config,
        spec.load_balancer_ip,
        spec.external_ips,
        spec.external_traffic_policy,
        spec.health_check_node_port,
        # A second family may be added and removed, the first one stays: their number is enough.
        len(spec.ip_families),
    )


def ingress_of(status: LoadBalancerStatus) -> list[dict[str, object]] | None:
    """The addresses as JSON; None if there are none."""
    return [_ingress(each) for each in status.ingress] or None


def _ingress(each: LoadBalancerIngress) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in (("ip", each.ip), ("hostname", each.hostname), ("ipMode", each.ip_mode)):
        if value:
            fields[name] = value
    if each.ports:
        fields["ports"] = [
            {"port": port.port, "protocol": port.protocol, **({"error": port.error} if port.error else {})}
            for port in each.ports
        ]
    return fields


# Nodes


def is_included(node: Node) -> bool:
    """Whether the node is not excluded by label. A value that is no boolean excludes it."""
    value = node.metadata.labels.get(EXCLUDE)
    return value is None or value in _FALSE


def serves(node: Node) -> bool:
    """Whether load balancers send to the node. They check readiness themselves."""
    going = any(taint.key == GOING for taint in node.spec.taints)
    return node.metadata.deletion_timestamp is None and is_included(node) and not going


def serving(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if serves(node)]


def affects_load_balancers(old: Node, new: Node) -> bool:
    """Whether a change of a node affects load balancers. The cluster autoscaler's taint does not, so that connections
    can end gracefully."""
    return is_included(old) != is_included(new) or old.spec.provider_id != new.spec.provider_id


def are_the_same(old: Sequence[Node], new: Sequence[Node]) -> bool:
    return len(old) == len(new) and _machines(old) == _machines(new)


def _machines(nodes: Sequence[Node]) -> dict[str, str]:
    return {node.metadata.name: node.spec.provider_id for node in nodes}


def shown_names(nodes: Sequence[Node]) -> str:
    """The names of the first twenty nodes as Go prints a list."""
    names = sorted(node.metadata.name for node in nodes[:MAX_NAMES])
    if len(nodes) > MAX_NAMES:
        names.append(f"<{len(nodes) - MAX_NAMES} more>")
    return f"[{' '.join(names)}]"
