"""What a service's fields say: whom it selects, which families, which port of a pod is meant.

Read by the controllers of Endpoints and EndpointSlices. Sources: kubernetes v1.36,
``staging/src/k8s.io/endpointslice/utils.go`` and ``util/controller_utils.go``.
"""

import ipaddress
import re

from pilothouse.api.core import Pod, Service, ServicePort
from pilothouse.machinery.names import dns_subdomain_errors
from pilothouse.semantics.pods import is_terminal

HEADLESS = "None"
"""The cluster IP of a service that has none by intention."""

HEADLESS_LABEL = "service.kubernetes.io/headless"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"

_leading_zeros = re.compile(r"(?<![0-9])0+(?=[0-9])")


def canonical_ip(text: str) -> tuple[str, str] | None:
    """``("IPv4", "10.0.0.1")``: the family, and the address as Go writes it; None for what is not an address.

    As Go's ``ParseIPSloppy``: leading zeros of an IPv4 address mean nothing, and an IPv4 address in IPv6's clothes is
    one of IPv4.
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

    An empty selector is left out on the wire and reads as none.
    """
    return bool(service.spec.selector) and service.spec.type != "ExternalName"


def has_cluster_ip(service: Service) -> bool:
    return service.spec.cluster_ip not in ("", HEADLESS)


def address_types(service: Service) -> tuple[str, ...]:
    """``IPv4``, ``IPv6`` or both, in this order.

    A service without families comes from a server older than them: the family of its address, or both.
    """
    families = [family for family in ("IPv4", "IPv6") if family in service.spec.ip_families]
    if families:
        return tuple(families)
    if has_cluster_ip(service):
        known = canonical_ip(service.spec.cluster_ip)
        return (known[0] if known is not None else "IPv4",)
    return ("IPv4", "IPv6")


def belongs_in_endpoints(pod: Pod, *, with_terminating: bool) -> bool:
    """Whether the pod has an address and has not run to its end, nor is on its way there unless that is welcome."""
    if is_terminal(pod) or not (pod.status.pod_ip or pod.status.pod_ips):
        return False
    return with_terminating or pod.metadata.deletion_timestamp is None


def has_hostname_in(pod: Pod, service: Service) -> bool:
    """Whether the pod asks for a name of its own below the service's."""
    return bool(pod.spec.hostname) and pod.spec.subdomain == service.metadata.name


def port_of(pod: Pod, port: ServicePort) -> int | None:
    """The number behind a service's port in this pod; None when the pod has no port of that name and protocol.

    Sidecars count, other init containers don't: they are over before anybody connects.
    """
    target = port.target_port
    if isinstance(target, int):
        return target
    sidecars = [container for container in pod.spec.init_containers if container.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for known in container.ports:
            if known.name == target and (known.protocol or "TCP") == (port.protocol or "TCP"):
                return known.container_port
    return None


def slice_name_prefix(name: str) -> str:
    """``<name>-``, without the dash where that would make it too long."""
    # Validated without the dash, and with a letter before it (apimachinery ``validation.maskTrailingDash``).
    return name if dns_subdomain_errors(name[:-1] + "a") else f"{name}-"
