"""Endpoints. After kubernetes' ``pkg/registry/core/endpoint`` and ``pkg/apis/core/validation`` (v1.36)."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.ip_validation import ip_errors, warnings_for_ip
from pilothouse.apiserver.registry.generic.object_fields import PORT_RANGE, set_default_fields
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    NONE,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    join_with_limit,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, qualified_name_errors

with lazy_imports():
    from pilothouse.apiserver.registry.core import validation as core_validation


_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MANAGED_BY = "endpoints.kubernetes.io/managed-by"


def _validate_port(port: Object, path: str, *, needs_name: bool) -> ErrorList:
    number, name = port.get("port") or 0, port.get("name")
    errors = [required(f"{path}.name")] if needs_name and not name else validate_port_name(name, path)
    if not 1 <= number <= 65535:
        errors.append(invalid(f"{path}.port", number, PORT_RANGE))
    return errors + validate_protocols(port, path)


def validate_port_name(name: str | None, path: str) -> ErrorList:
    return [invalid(f"{path}.name", name, msg) for msg in dns_label_errors(name)] if name else []


def validate_protocols(port: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    if port.get("protocol") not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    protocol = port.get("appProtocol")
    if protocol is not None:
        msgs = qualified_name_errors(protocol)
        errors += [invalid(f"{path}.appProtocol", protocol, msg) for msg in msgs]
    return errors


class EndpointsStrategy(Strategy):
    """``v1`` Endpoints (deprecated)."""

    allow_create_on_update = True
    update_steps = ("object meta update", "object meta", "object")

    deprecation_warnings = ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)

    def set_defaults(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                set_default_fields(port, {"protocol": "TCP"})

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        if (obj["metadata"].get("labels") or {}).get(_MANAGED_BY) == "endpoint-controller":
            return
        for position, subset in enumerate(obj.get("subsets") or ()):
            for field in ("addresses", "notReadyAddresses"):
                for index, address in enumerate(subset.get(field) or ()):
                    path = f"subsets[{position}].{field}[{index}].ip"
                    yield from warnings_for_ip(address.get("ip") or "", path)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        errors: ErrorList = []
        for position, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{position}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
            for field in ("addresses", "notReadyAddresses"):
                for index, address in enumerate(subset.get(field) or ()):
                    errors += _validate_endpoint_address(address, f"{path}.{field}[{index}]")
            ports = subset.get("ports") or []
            for index, port in enumerate(ports):
                errors += _validate_port(port, f"{path}.ports[{index}]", needs_name=len(ports) > 1)
        return errors

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        # Unchanged subsets are not validated again: they were valid for an older server.
        return [] if (obj.get("subsets") or []) == (old.get("subsets") or []) else self.validate(obj)


def _validate_endpoint_address(address: Object, path: str) -> ErrorList:
    """``validateEndpointAddress``, which validates the address twice."""
    ip, host, node = address.get("ip") or "", address.get("hostname"), address.get("nodeName")
    errors = [invalid(f"{path}.ip", ip, msg) for msg in ip_errors(ip)]
    if host:
        errors += [invalid(f"{path}.hostname", host, msg) for msg in dns_label_errors(host)]
    if node is not None:
        errors += [invalid(f"{path}.nodeName", node, msg) for msg in dns_subdomain_errors(node)]
    return errors + [invalid(f"{path}.ip", ip, msg) for msg in core_validation.non_special_ip_errors(ip)]


def print_endpoints(value: Doc, now: Now) -> Row:
    addresses_with_ports = [
        address.get("ip") or "" if port is None else _join_host_port(address.get("ip") or "", port.get("port") or 0)
        for subset in value.get("subsets") or ()
        for port in subset.get("ports") or (None,)  # a headless Service may have none
        for address in subset.get("addresses") or ()
    ]
    return [join_with_limit(addresses_with_ports, 3) if value.get("subsets") else NONE]


def _join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


REGISTRATION = Registration(
    EndpointsStrategy(),
    printer=lambda: Printer((NAME, *columns("Endpoints"), AGE), print_endpoints),
    etcd_prefix="services/endpoints",
)
