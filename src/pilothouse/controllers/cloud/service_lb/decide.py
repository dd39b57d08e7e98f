"""What a Service requires of its load balancer, and its nodes. Pure. Upstream: k8s.io/cloud-provider v0.36
``controllers/service/controller.go``."""

from collections.abc import Iterable, Sequence

from pilothouse.api.core import LoadBalancerIngress, LoadBalancerStatus, Node, Service

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
EXCLUDE = "node.kubernetes.io/exclude-from-external-load-balancers"
TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"
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
        or _relevant_spec(old) != _relevant_spec(new)
    )


def _relevant_spec(service: Service) -> tuple[object, ...]:
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
    return [_ingress(ingress) for ingress in status.ingress] or None


def _ingress(ingress: LoadBalancerIngress) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name, value in (("ip", ingress.ip), ("hostname", ingress.hostname), ("ipMode", ingress.ip_mode)):
        if value:
            fields[name] = value
    if ingress.ports:
        fields["ports"] = [
            {"port": port.port, "protocol": port.protocol, **({"error": port.error} if port.error else {})}
            for port in ingress.ports
        ]
    return fields


# Nodes


def is_not_excluded(node: Node) -> bool:
    """Whether the node is not excluded by label. A value that is not a boolean excludes it."""
    value = node.metadata.labels.get(EXCLUDE)
    return value is None or value in _FALSE


def is_eligible(node: Node) -> bool:
    """Whether load balancers send to the node. They check readiness themselves."""
    to_be_deleted = any(taint.key == TO_BE_DELETED_TAINT for taint in node.spec.taints)
    return node.metadata.deletion_timestamp is None and is_not_excluded(node) and not to_be_deleted


def eligible_nodes(nodes: Iterable[Node]) -> list[Node]:
    return [node for node in nodes if is_eligible(node)]


def affects_load_balancers(old: Node, new: Node) -> bool:
    """Whether a change of a node affects load balancers. The cluster autoscaler's taint does not, so that connections
    can end gracefully."""
    return is_not_excluded(old) != is_not_excluded(new) or old.spec.provider_id != new.spec.provider_id


def nodes_sufficiently_equal(old: Sequence[Node], new: Sequence[Node]) -> bool:
    return len(old) == len(new) and _relevant_fields(old) == _relevant_fields(new)


def _relevant_fields(nodes: Sequence[Node]) -> dict[str, str]:
    return {node.metadata.name: node.spec.provider_id for node in nodes}


def load_balanced_node_names(nodes: Sequence[Node]) -> str:
    """The names of the first twenty nodes as Go prints a list."""
    names = sorted(node.metadata.name for node in nodes[:MAX_NAMES])
    if len(nodes) > MAX_NAMES:
        names.append(f"<{len(nodes) - MAX_NAMES} more>")
    return f"[{' '.join(names)}]"
