"""The selector, IP families and target ports of a Service.

Read by the controllers of Endpoints and EndpointSlices. Sources: kubernetes v1.36,
``staging/src/k8s.io/endpointslice/utils.go`` and ``util/controller_utils.go``.
"""

import ipaddress
import re

from pilothouse.api.core import Pod, Service, ServicePort
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.semantics.pods import is_terminal

HEADLESS = "None"
"""The cluster IP of a headless Service."""

HEADLESS_LABEL = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"

_leading_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")


def canonical_ip(text: str) -> tuple[str, str] | None:
    """``("IPv4", "10.0.0.1")``: the family, and the address in Go's format; None for an invalid address.

    As Go's ``ParseIPSloppy``: leading zeros of an IPv4 address are ignored, and an IPv4-mapped IPv6 address is IPv4.
    """
    if "%" in text:
        return None
    if ":" not in text:
        text = _leading_zeros.sub("", text)
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            return "IPv6", str(address)
        address = address.ipv4_mapped
    return "IPv4", str(address)


def is_selecting(service: Service) -> bool:
    """Whether the endpoints are found by a selector: it has one, and is more than a name for something outside.

    An empty selector is omitted in JSON and decoded as none.
    """
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def has_cluster_ip(service: Service) -> bool:
    return service.spec.cluster_ip not in ("", HEADLESS)


def address_types(service: Service) -> tuple[str, ...]:
    """``IPv4``, ``IPv6`` or both, in this order.

    A Service without families was stored by an old server: the family of its address, or both.
    """
    families = [family for family in ("IPv4", "IPv6") if family in service.spec.ip_families]
    if families:
        return tuple(families)
    if has_cluster_ip(service):
        cluster_ip = canonical_ip(service.spec.cluster_ip)
        return (cluster_ip[0] if cluster_ip is not None else "IPv4",)
    return ("IPv4", "IPv6")


def belongs_in_endpoints(pod: Pod, *, with_terminating: bool) -> bool:
    """Whether the pod has an address and is not finished, and not terminating unless that is allowed."""
    if is_terminal(pod) or not (pod.status.pod_ip or pod.status.pod_ips):
        return False
    return with_terminating or pod.metadata.deletion_timestamp is None


def has_hostname_in(pod: Pod, service: Service) -> bool:
    """Whether the pod has a hostname below the Service's domain."""
    return bool(pod.spec.hostname) and pod.spec.subdomain == service.metadata.name


def port_of(pod: Pod, port: ServicePort) -> int | None:
    """The port number of a Service's port in this pod; None if the pod has no port with that name and protocol.

    Sidecars count, other init containers do not: they have ended before anybody connects.
    """
    target = port.target_port
    if isinstance(target, int):
        return target
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for container_port in container.ports:
            if container_port.name == target and (container_port.protocol or "TCP") == (port.protocol or "TCP"):
                return container_port.container_port
    return None


def slice_name_prefix(name: str) -> str:
    """``<name>-``, without the dash if that would be too long."""
    # Validated without the dash, and with a letter before it (apimachinery ``validation.maskTrailingDash``).
    return name if dns_subdomain_errors(name[:-1] + "a") else f"{name}-"
