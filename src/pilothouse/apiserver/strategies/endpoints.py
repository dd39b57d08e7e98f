"""Endpoints, and the slices that have replaced them.

After kubernetes' ``pkg/apis/{core,discovery}/{v1/defaults.go,validation}`` and ``pkg/registry/discovery`` (v1.36).
Slices are written often and large: what an address or a name is worth is remembered.
"""

import ipaddress
from functools import lru_cache

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import PORT_RANGE, child, fill, fixed
from pilothouse.apiserver.strategies.network_forms import address_faults
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, label_value_errors, qualified_name_errors

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MOST_ENDPOINTS, _MOST_ADDRESSES, _MOST_PORTS, _MOST_HINTS = 1000, 100, 20000, 8
_NOT_FOR_ENDPOINTS = (
    ("is_unspecified", "may not be unspecified (0.0.0.0 or ::)"),
    ("is_loopback", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ("is_link_local", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
    ("is_multicast", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
)


def _version(text: str) -> int:
    """4 or 6, or 0 for what is no address."""
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0


def _port_problems(port: Object, path: str, *, is_again: bool = False) -> list[FieldError]:
    """``is_again``: its name was there before."""
    problems: list[FieldError] = []
    number, name, protocol = port.get("port"), port.get("name"), port.get("appProtocol")
    if number is not None and not 1 <= number <= 65535:
        problems.append(errors.invalid_value(f"{path}.port", number, PORT_RANGE))
    if name:
        problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_label_errors(name)]
    if is_again:
        problems.append(errors.duplicate(f"{path}.name", name))
    if port.get("protocol") not in _PROTOCOLS:
        problems.append(errors.not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    if protocol is not None:
        told = qualified_name_errors(protocol)
        problems += [errors.invalid_value(f"{path}.appProtocol", protocol, text) for text in told]
    return problems


def special_faults(address: str) -> tuple[str, ...]:
    """Why no endpoint can have the address (``ValidateEndpointIP``)."""
    parsed = ipaddress.ip_address(address)
    return tuple(
        text
        for trait, text in _NOT_FOR_ENDPOINTS
        if getattr(parsed, trait) and (trait != "is_multicast" or parsed in _LINK_LOCAL_MULTICAST[parsed.version])
    )


_LINK_LOCAL_MULTICAST = {
    4: ipaddress.ip_network("224.0.0.0/24"),
    6: ipaddress.ip_network("ff02::/16"),
}


class EndpointsStrategy(Strategy):
    """``v1`` Endpoints, which slices have replaced."""

    notices = ("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",)

    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                fill(port, {"protocol": "TCP"})

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        for position, subset in enumerate(obj.get("subsets") or ()):
            path = f"subsets[{position}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                problems.append(errors.required(path, "must specify `addresses` or `notReadyAddresses`"))
            for field in ("addresses", "notReadyAddresses"):
                for index, address in enumerate(subset.get(field) or ()):
                    where, ip = f"{path}.{field}[{index}].ip", address.get("ip") or ""
                    told = address_faults(ip) or special_faults(ip)
                    problems += [errors.invalid_value(where, ip, text) for text in told]
                    host, node = address.get("hostname"), address.get("nodeName")
                    if host:
                        where = f"{path}.{field}[{index}].hostname"
                        problems += [errors.invalid_value(where, host, text) for text in dns_label_errors(host)]
                    if node is not None:
                        where = f"{path}.{field}[{index}].nodeName"
                        problems += [errors.invalid_value(where, node, text) for text in dns_subdomain_errors(node)]
            ports = subset.get("ports") or []
            for index, port in enumerate(ports):
                where = f"{path}.ports[{index}]"
                if len(ports) > 1 and not port.get("name"):
                    problems.append(errors.required(f"{where}.name"))
                problems += _port_problems({"port": 0, **port}, where)
        return problems


class SliceStrategy(Strategy):
    """``discovery.k8s.io`` EndpointSlices."""

    def default(self, obj: Object) -> None:
        for port in obj.get("ports") or ():
            if port.get("name") is None:
                port["name"] = ""
            fill(port, {"protocol": "TCP"})

    def prepare_create(self, obj: Object, now: str) -> None:
        _drop_topology(obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        _drop_topology(obj)

    def finish(self, obj: Object) -> None:
        for endpoint in obj.setdefault("endpoints", None) or ():
            child(endpoint, "conditions")
        obj.setdefault("ports", None)

    def validate(self, obj: Object) -> list[FieldError]:
        return _slice_problems(obj) + _endpoints_problems(obj)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = _slice_problems(obj)
        if (obj.get("endpoints") or []) != (old.get("endpoints") or []):
            problems += _endpoints_problems(obj)
        return problems + fixed(obj, old, "", ("addressType",))


def _drop_topology(obj: Object) -> None:
    """``deprecatedTopology`` is for what was written as v1beta1; v1 drops it (``dropTopologyOnV1``)."""
    for endpoint in obj.get("endpoints") or ():
        endpoint.pop("deprecatedTopology", None)


def _slice_problems(obj: Object) -> list[FieldError]:
    kind, ports, problems = obj.get("addressType") or "", obj.get("ports") or [], list[FieldError]()
    if not kind:
        problems.append(errors.required("addressType"))
    elif kind not in _ADDRESS_TYPES:
        problems.append(errors.not_supported("addressType", kind, _ADDRESS_TYPES))
    if len(ports) > _MOST_PORTS:
        return [*problems, errors.too_many("ports", len(ports), _MOST_PORTS)]
    names = set[str]()
    for position, port in enumerate(ports):
        path, name = f"ports[{position}]", port.get("name") or ""
        # Upstream does not look at the numbers.
        problems += _port_problems({**port, "port": None}, path, is_again=name in names)
        names.add(name)
    return problems


def _endpoints_problems(obj: Object) -> list[FieldError]:
    kind, endpoints = obj.get("addressType") or "", obj.get("endpoints") or []
    if len(endpoints) > _MOST_ENDPOINTS:
        return [errors.too_many("endpoints", len(endpoints), _MOST_ENDPOINTS)]
    problems: list[FieldError] = []
    for position, endpoint in enumerate(endpoints):
        path = f"endpoints[{position}]"
        problems += _addresses_problems(endpoint.get("addresses") or [], kind, f"{path}.addresses")
        node, host, hints = endpoint.get("nodeName"), endpoint.get("hostname"), endpoint.get("hints")
        if node is not None:
            problems += [errors.invalid_value(f"{path}.nodeName", node, text) for text in _node_faults(node)]
        if host is not None:
            problems += [errors.invalid_value(f"{path}.hostname", host, text) for text in dns_label_errors(host)]
        if hints is not None:
            problems += _hints_problems(hints, f"{path}.hints")
    return problems


@lru_cache(maxsize=8192)
def _node_faults(name: str) -> tuple[str, ...]:
    return tuple(dns_subdomain_errors(name))


@lru_cache(maxsize=256)
def _zone_faults(name: str) -> tuple[str, ...]:
    return tuple(label_value_errors(name))


def _hints_problems(hints: Object, path: str) -> list[FieldError]:
    """For which zones and nodes an endpoint is."""
    problems: list[FieldError] = []
    for field, faults in (("forZones", _zone_faults), ("forNodes", _node_faults)):
        wanted, seen = hints.get(field) or [], set[str]()
        if len(wanted) > _MOST_HINTS:
            problems.append(errors.too_many(f"{path}.{field}", len(wanted), _MOST_HINTS))
            continue
        for position, one in enumerate(wanted):
            where, name = f"{path}.{field}[{position}].name", one.get("name") or ""
            if name in seen:
                problems.append(errors.duplicate(where, name))
            seen.add(name)
            problems += [errors.invalid_value(where, name, text) for text in faults(name)]
    return problems


def _addresses_problems(addresses: list[str], kind: str, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    if not addresses:
        problems.append(errors.required(path, "must contain at least 1 address"))
    elif len(addresses) > _MOST_ADDRESSES:
        problems.append(errors.too_many(path, len(addresses), _MOST_ADDRESSES))
    for index, address in enumerate(addresses):
        for value, fault in _address_faults(address, kind):
            problems.append(errors.invalid_value(f"{path}[{index}]", value, fault))
    return problems


@lru_cache(maxsize=65536)
def _address_faults(address: str, kind: str) -> tuple[tuple[str, str], ...]:
    """Why an address is none of its kind: what is wrong, and what is wrong with it."""
    if kind == "FQDN":
        return tuple(_name_faults(address.removesuffix(".") or address))
    if kind not in ("IPv4", "IPv6"):
        return ()
    faults = address_faults(address)
    if faults:
        return tuple((address, fault) for fault in faults)
    if ipaddress.ip_address(address).version != int(kind[3]):
        return ((address, f"must be an {kind} address"),)
    return tuple((address, text) for text in special_faults(address))


def _name_faults(name: str) -> list[tuple[str, str]]:
    """``IsFullyQualifiedDomainName``."""
    told = dns_subdomain_errors(name)
    if told:
        return [(name, ",".join(told))]
    if "." not in name:
        return [(name, "should be a domain with at least two segments separated by dots")]
    return next(([(label, ",".join(faults))] for label in name.split(".") if (faults := dns_label_errors(label))), [])
