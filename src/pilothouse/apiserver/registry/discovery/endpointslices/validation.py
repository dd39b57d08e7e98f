"""Validation of EndpointSlices. After kubernetes' ``pkg/apis/discovery/validation/validation.go`` (v1.36)."""

from pilothouse.apiserver.field_errors import ErrorList, duplicate, invalid, not_supported, required, too_many
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.endpoints import validate_port_name, validate_protocols
from pilothouse.apiserver.registry.core.validation import non_special_ip_errors
from pilothouse.apiserver.registry.generic.ip_validation import canonical_ip_errors, family_of, ip_errors
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, label_value_errors

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20000, 8


def validate_endpoint_slice(obj: Object) -> ErrorList:
    return _validate_endpoint_slice(obj) + _validate_endpoints(obj)


def validate_endpoint_slice_on_update(obj: Object, old: Object) -> ErrorList:
    errors = _validate_endpoint_slice(obj)
    if (obj.get("endpoints") or []) != (old.get("endpoints") or []):
        errors += _validate_endpoints(obj)
    return errors


def _validate_endpoint_slice(obj: Object) -> ErrorList:
    kind, ports, errors = obj.get("addressType") or "", obj.get("ports") or [], ErrorList()
    if not kind:
        errors.append(required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        errors.append(not_supported("addressType", kind, _ADDRESS_TYPES))
    if len(ports) > _MAX_PORTS:
        return [*errors, too_many("ports", len(ports), _MAX_PORTS)]
    names = set[str]()
    for position, port in enumerate(ports):
        path, name = f"ports[{position}]", port.get("name") or ""
        # Upstream does not validate port numbers.
        errors += validate_port_name(name, path)
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
        errors += validate_protocols(port, path)
    return errors


def _validate_endpoints(obj: Object) -> ErrorList:
    kind, endpoints = obj.get("addressType") or "", obj.get("endpoints") or []
    if len(endpoints) > _MAX_ENDPOINTS:
        return [too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    errors: ErrorList = []
    for position, endpoint in enumerate(endpoints):
        path = f"endpoints[{position}]"
        errors += _validate_addresses(endpoint.get("addresses") or [], kind, f"{path}.addresses")
        node, host, hints = endpoint.get("nodeName"), endpoint.get("hostname"), endpoint.get("hints")
        if node is not None:
            errors += [invalid(f"{path}.nodeName", node, msg) for msg in _node_errors(node)]
        if host is not None:
            errors += [invalid(f"{path}.hostname", host, msg) for msg in dns_label_errors(host)]
        if hints is not None:
            errors += _validate_hints(hints, f"{path}.hints")
    return errors


@bounded_cache(8192)
def _node_errors(name: str) -> tuple[str, ...]:
    return tuple(dns_subdomain_errors(name))


@bounded_cache(256)
def _zone_errors(name: str) -> tuple[str, ...]:
    return tuple(label_value_errors(name))


def _validate_hints(hints: Object, path: str) -> ErrorList:
    """``validateHints``: zones and nodes that should use the endpoint."""
    errors: ErrorList = []
    for field, name_errors in (("forZones", _zone_errors), ("forNodes", _node_errors)):
        items, names = hints.get(field) or [], set[str]()
        if len(items) > _MAX_HINTS:
            return [*errors, too_many(f"{path}.{field}", len(items), _MAX_HINTS)]
        for position, item in enumerate(items):
            child_path, name = f"{path}.{field}[{position}].name", item.get("name") or ""
            if name in names:
                errors.append(duplicate(child_path, name))
            names.add(name)
            errors += [invalid(child_path, name, msg) for msg in name_errors(name)]
    return errors


def _validate_addresses(addresses: list[str], kind: str, path: str) -> ErrorList:
    errors: ErrorList = []
    if not addresses:
        errors.append(required(path, "must contain at least 1 address"))
    elif len(addresses) > _MAX_ADDRESSES:
        errors.append(too_many(path, len(addresses), _MAX_ADDRESSES))
    for index, address in enumerate(addresses):
        errors += [invalid(path, address, msg) for msg in _family_errors(address, kind)]
        if kind == "FQDN" and not address:
            errors.append(required(f"{path}[{index}]"))
            continue
        for value, detail in _address_errors(address, kind):
            errors.append(invalid(f"{path}[{index}]", value, detail))
    return errors


@bounded_cache(65536)
def _family_errors(address: str, kind: str) -> tuple[str, ...]:
    """The error if the address is not of the slice's family. Upstream's path is that of the list."""
    if kind not in ("IPv4", "IPv6") or ip_errors(address) or family_of(address) == int(kind[3]):
        return ()
    return (f"must be an {kind} address",)


@bounded_cache(65536)
def _address_errors(address: str, kind: str) -> tuple[tuple[str, str], ...]:
    """The errors in an address of this address type, as (value, detail)."""
    if kind == "FQDN":
        return tuple(_fully_qualified_domain_name_errors(address.removesuffix(".") or address))
    if kind not in ("IPv4", "IPv6"):
        return ()
    msgs = ip_errors(address) if kind == "IPv4" else canonical_ip_errors(address)
    return tuple((address, detail) for detail in msgs or non_special_ip_errors(address))


def _fully_qualified_domain_name_errors(name: str) -> list[tuple[str, str]]:
    """``IsFullyQualifiedDomainName``."""
    msgs = dns_subdomain_errors(name)
    if msgs:
        return [(name, ",".join(msgs))]
    if "." not in name:
        return [(name, "should be a domain with at least two segments separated by dots")]
    return next(
        ([(label, ",".join(label_msgs))] for label in name.split(".") if (label_msgs := dns_label_errors(label))), []
    )
