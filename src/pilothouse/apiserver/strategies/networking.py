"""Endpoints, slices, ingresses, network policies, and the ranges of services.

After kubernetes' ``pkg/apis/{core,discovery,networking}/{v1/defaults.go,validation}`` (v1.36).
"""

import ipaddress
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import PORT_RANGE, child, fill, fixed
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import (
    dns_label_errors,
    dns_subdomain_errors,
    path_segment_errors,
    port_name_errors,
    qualified_name_errors,
)

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_POLICY_TYPES = ("Ingress", "Egress")
_NOT_AN_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_WILDCARD = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', "
    "regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_BAD_SEQUENCES = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDS = ("/..", "/.")
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


def _port_problems(port: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    number = port.get("port")
    if number is not None and not 1 <= number <= 65535:
        problems.append(errors.invalid_value(f"{path}.port", number, PORT_RANGE))
    if port.get("protocol") not in _PROTOCOLS:
        problems.append(errors.not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    name, protocol = port.get("name"), port.get("appProtocol")
    if name:
        problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_label_errors(name)]
    if protocol is not None:
        told = qualified_name_errors(protocol)
        problems += [errors.invalid_value(f"{path}.appProtocol", protocol, text) for text in told]
    return problems


def _endpoint_problems(address: str, path: str) -> list[FieldError]:
    """Addresses that no endpoint can have (``ValidateEndpointIP``)."""
    parsed = ipaddress.ip_address(address)
    return [
        errors.invalid_value(path, address, text)
        for trait, text in _NOT_FOR_ENDPOINTS
        if getattr(parsed, trait) and (trait != "is_multicast" or parsed in _LINK_LOCAL_MULTICAST[parsed.version])
    ]


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
                    if not _version(ip):
                        problems.append(errors.invalid_value(where, ip, _NOT_AN_ADDRESS))
                    else:
                        problems += _endpoint_problems(ip, where)
                    host, node = address.get("hostname"), address.get("nodeName")
                    if host:
                        told = f"{path}.{field}[{index}].hostname"
                        problems += [errors.invalid_value(told, host, text) for text in dns_label_errors(host)]
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

    def finish(self, obj: Object) -> None:
        for endpoint in obj.setdefault("endpoints", None) or ():
            child(endpoint, "conditions")
        obj.setdefault("ports", None)

    def validate(self, obj: Object) -> list[FieldError]:
        kind, problems = obj.get("addressType") or "", list[FieldError]()
        if not kind:
            problems.append(errors.required("addressType"))
        elif kind not in _ADDRESS_TYPES:
            problems.append(errors.not_supported("addressType", kind, _ADDRESS_TYPES))
        endpoints, ports = obj.get("endpoints") or [], obj.get("ports") or []
        if len(endpoints) > 1000:
            problems.append(errors.too_many("endpoints", len(endpoints), 1000))
            return problems
        for position, endpoint in enumerate(endpoints):
            problems += _addresses_problems(endpoint.get("addresses") or [], kind, f"endpoints[{position}].addresses")
        names: list[str] = []
        for position, port in enumerate(ports):
            path, name = f"ports[{position}]", port.get("name") or ""
            if name in names:
                problems.append(errors.duplicate(f"{path}.name", name))
            names.append(name)
            problems += _port_problems(port, path)
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj, old, "", ("addressType",))


def _addresses_problems(addresses: list[str], kind: str, path: str) -> list[FieldError]:
    if not addresses:
        return [errors.required(path, "must contain at least 1 address")]
    if len(addresses) > 100:
        return [errors.too_many(path, len(addresses), 100)]
    problems: list[FieldError] = []
    for index, address in enumerate(addresses):
        where = f"{path}[{index}]"
        if kind == "FQDN":
            problems += [errors.invalid_value(where, address, text) for text in dns_subdomain_errors(address)]
        elif kind in ("IPv4", "IPv6"):
            found = _version(address)
            if not found:
                problems.append(errors.invalid_value(where, address, _NOT_AN_ADDRESS))
            elif found != int(kind[3]):
                problems.append(errors.invalid_value(where, address, f"must be an {kind} address"))
            else:
                problems += _endpoint_problems(address, where)
    return problems


class IngressStrategy(Strategy):
    """``networking.k8s.io`` Ingresses."""

    empty_status = {"loadBalancer": {}}  # read only

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        backends = [spec.get("defaultBackend")]
        for rule in spec.get("rules") or ():
            backends += [path.get("backend") for path in (rule.get("http") or {}).get("paths") or ()]
        for backend in backends:
            if backend and backend.get("resource") is not None:
                backend["resource"].setdefault("apiGroup", None)  # printed even when it is not set

    def finish(self, obj: Object) -> None:
        child(child(obj, "status"), "loadBalancer")

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems: list[FieldError] = []
        rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
        if not rules and backend is None:
            problems.append(errors.invalid_value("spec", None, "either `defaultBackend` or `rules` must be specified"))
        if backend is not None:
            problems += _backend_problems(backend, "spec.defaultBackend")
        class_name = spec.get("ingressClassName")
        if class_name is not None:
            where = "spec.ingressClassName"
            problems += [errors.invalid_value(where, class_name, text) for text in dns_subdomain_errors(class_name)]
        for position, tls in enumerate(spec.get("tls") or ()):
            for index, host in enumerate(tls.get("hosts") or ()):
                problems += _name_problems(host, f"spec.tls[{position}].hosts[{index}]")
        for position, rule in enumerate(rules):
            path = f"spec.rules[{position}]"
            problems += _host_problems(rule.get("host") or "", f"{path}.host")
            if rule.get("http") is None:
                continue
            paths = rule["http"].get("paths") or []
            if not paths:
                problems.append(errors.required(f"{path}.http.paths"))
            for index, entry in enumerate(paths):
                problems += _path_problems(entry, f"{path}.http.paths[{index}]")
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [] if obj["spec"] == old["spec"] else self.validate_again(obj)


def _host_problems(host: str, path: str) -> list[FieldError]:
    if not host:
        return []
    if _version(host):
        return [errors.invalid_value(path, host, "must be a DNS name, not an IP address")]
    return _name_problems(host, path)


def _name_problems(host: str, path: str) -> list[FieldError]:
    if "*" in host:
        rest = host.removeprefix("*.")
        if rest == host:
            return [errors.invalid_value(path, host, _WILDCARD)]
        host_errors = dns_subdomain_errors(rest)
    else:
        host_errors = dns_subdomain_errors(host)
    return [errors.invalid_value(path, host, text) for text in host_errors]


def _path_problems(entry: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    kind, where = entry.get("pathType"), entry.get("path") or ""
    if not kind:
        # Upstream looks no further.
        return [errors.required(f"{path}.pathType", "pathType must be specified")]
    if kind not in _PATH_TYPES:
        problems.append(errors.not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    if kind in ("Exact", "Prefix"):
        if not where.startswith("/"):
            problems.append(errors.invalid_value(f"{path}.path", where, "must be an absolute path"))
        problems += [
            errors.invalid_value(f"{path}.path", where, f"must not contain '{text}'")
            for text in _BAD_SEQUENCES
            if text in where
        ]
        problems += [
            errors.invalid_value(f"{path}.path", where, f"cannot end with '{text}'")
            for text in _BAD_ENDS
            if where.endswith(text)
        ]
    return problems + _backend_problems(entry.get("backend") or {}, f"{path}.backend")


def _resource_problems(reference: Object, path: str) -> list[FieldError]:
    """``validateIngressTypedLocalObjectReference``."""
    problems: list[FieldError] = []
    group = reference.get("apiGroup")
    if group is not None:
        problems += [errors.invalid_value(f"{path}.apiGroup", group, text) for text in dns_subdomain_errors(group)]
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        if not value:
            problems.append(errors.required(f"{path}.{field}"))
        problems += [errors.invalid_value(f"{path}.{field}", value, text) for text in path_segment_errors(value)]
    return problems


def _backend_problems(backend: Object, path: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if (service is None) == (resource is None):
        if service is None:
            return [errors.invalid_value(path, "", "resource or service backend is required")]
        return [errors.invalid_value(path, "", "cannot set both resource and service backends")]
    problems: list[FieldError] = []
    if service is None:
        return _resource_problems(resource or {}, f"{path}.resource")
    if not service.get("name"):
        problems.append(errors.required(f"{path}.service.name"))
    else:
        where = f"{path}.service.name"
        problems += [errors.invalid_value(where, service["name"], text) for text in dns_label_errors(service["name"])]
    port: Object = service.get("port") or {}
    name, number = port.get("name"), port.get("number")
    if name and number:
        problems.append(errors.invalid_value(path, "", "cannot set both port name & port number"))
    elif not name and not number:
        problems.append(errors.required(path, "port name or number is required"))
    elif name:
        where = f"{path}.service.port.name"
        problems += [errors.invalid_value(where, name, text) for text in port_name_errors(name)]
    elif number and not 1 <= number <= 65535:
        problems.append(errors.invalid_value(f"{path}.service.port.number", number, PORT_RANGE))
    return problems


_LONGEST_CONTROLLER = 250


class IngressClassStrategy(Strategy):
    """Who serves ingresses of a class: that never changes."""

    def default(self, obj: Object) -> None:
        parameters = child(obj, "spec").get("parameters")
        if parameters is not None:
            fill(parameters, {"scope": "Cluster"})

    def validate(self, obj: Object) -> list[FieldError]:
        controller, parameters = obj["spec"].get("controller") or "", obj["spec"].get("parameters")
        problems: list[FieldError] = []
        if len(controller.encode()) > _LONGEST_CONTROLLER:
            problems.append(errors.too_long("spec.controller", _LONGEST_CONTROLLER))
        if not controller:
            problems.append(errors.required("spec.controller"))
        elif "/" not in controller:
            text = 'must be a domain-prefixed path (such as "acme.io/foo")'
            problems.append(errors.invalid_value("spec.controller", controller, text))
        for field in ("kind", "name") if parameters is not None else ():
            if not (parameters or {}).get(field):
                problems.append(errors.required(f"spec.parameters.{field}", f"{field} is required"))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return self.validate_again(obj) + fixed(obj["spec"], old["spec"], "spec", ("controller",))


class NetworkPolicyStrategy(Strategy):
    """Policies say which directions they are about."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        child(spec, "podSelector")
        for field in ("ingress", "egress"):
            for rule in spec.get(field) or ():
                for port in rule.get("ports") or ():
                    fill(port, {"protocol": "TCP"})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems = selector_problems(spec.get("podSelector") or {}, "spec.podSelector")
        for field, peers in (("ingress", "from"), ("egress", "to")):
            for position, rule in enumerate(spec.get(field) or ()):
                path = f"spec.{field}[{position}]"
                for index, port in enumerate(rule.get("ports") or ()):
                    problems += _policy_port_problems(port, f"{path}.ports[{index}]")
                for index, peer in enumerate(rule.get(peers) or ()):
                    problems += _peer_problems(peer, f"{path}.{peers}[{index}]")
        kinds = spec.get("policyTypes") or []
        if len(kinds) > 2:
            text = "may not specify more than two policyTypes"
            return [*problems, errors.invalid_value("spec.policyTypes", kinds, text)]
        return problems + [
            errors.not_supported(f"spec.policyTypes[{position}]", kind, _POLICY_TYPES)
            for position, kind in enumerate(kinds)
            if kind not in _POLICY_TYPES
        ]


def _policy_port_problems(port: Object, path: str) -> list[FieldError]:
    number, end = port.get("port"), port.get("endPort")
    problems: list[FieldError] = []
    if port.get("protocol") not in _PROTOCOLS:
        problems.append(errors.not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    if isinstance(number, int) and not 1 <= number <= 65535:
        problems.append(errors.invalid_value(f"{path}.port", number, PORT_RANGE))
    if isinstance(number, str):
        problems += [errors.invalid_value(f"{path}.port", number, text) for text in port_name_errors(number)]
    if end is not None:
        if not isinstance(number, int):
            text = "may not be specified when `port` is " + ("not specified" if number is None else "non-numeric")
            problems.append(errors.invalid_value(f"{path}.endPort", end, text))
        elif end < number:
            text = "must be greater than or equal to `port`"
            problems.append(errors.invalid_value(f"{path}.endPort", end, text))
    return problems


def _peer_problems(peer: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    selectors = [field for field in ("podSelector", "namespaceSelector") if peer.get(field) is not None]
    for field in selectors:
        problems += selector_problems(peer[field], f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        if selectors:
            return [*problems, errors.not_allowed(path, "may not specify both ipBlock and another peer")]
        problems += _block_problems(block, f"{path}.ipBlock")
    elif not selectors:
        problems.append(errors.required(path, "must specify a peer"))
    return problems


def _block_problems(block: Object, path: str) -> list[FieldError]:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [errors.required(f"{path}.cidr")]
    text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    network = _network(cidr)
    if network is None:
        return [errors.invalid_value(f"{path}.cidr", cidr, text)]
    problems: list[FieldError] = []
    for index, left_out in enumerate(block.get("except") or ()):
        where, inner = f"{path}.except[{index}]", _network(left_out)
        if inner is None:
            problems.append(errors.invalid_value(where, left_out, text))
        elif inner.version != network.version or not (inner.prefixlen > network.prefixlen and inner[0] in network):
            problems.append(errors.invalid_value(where, left_out, "must be a strict subset of `cidr`"))
    return problems


def _network(text: str) -> Any:
    try:
        return ipaddress.ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None
