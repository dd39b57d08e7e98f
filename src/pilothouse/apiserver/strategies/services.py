"""Services: defaults, what stays on update, and every check that does not need an address pool.

After kubernetes' ``pkg/apis/core/v1/defaults.go``, ``pkg/registry/core/service/strategy.go`` and ``ValidateService`` in
``pkg/apis/core/validation`` (v1.36). Addresses and ports are given by ``addresses.ServiceAddresses``, which runs as
admission because it has to look at all services; it calls the functions here before it does.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.endpoints import special_faults
from pilothouse.apiserver.strategies.filling import PORT_RANGE
from pilothouse.apiserver.strategies.network_forms import address_problems, family_of, range_problems
from pilothouse.apiserver.strategies.selectors import label_problems_in
from pilothouse.apiserver.strategies.warnings import service_warnings
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, port_name_errors, qualified_name_errors

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FAMILIES = ("IPv4", "IPv6")
_TRAFFIC = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_FAMILY_NAMES = {4: "IPv4", 6: "IPv6", 0: ""}
_MODES = ("Proxy", "VIP")
_NO_ADDRESS = "must be a DNS name, not an IP address"
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_MODE, _HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
_ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"
_FIXED = "may not change once set"
_MOST_STICKY_SECONDS = 86400


# What a type of service has


def needs_addresses(spec: Object) -> bool:
    """Whether services of this type have cluster addresses (or are headless)."""
    return spec.get("type") in ("ClusterIP", "NodePort", "LoadBalancer")


def needs_node_ports(spec: Object) -> bool:
    """Whether services of this type have node ports."""
    return spec.get("type") in ("NodePort", "LoadBalancer")


def needs_health_check_port(spec: Object) -> bool:
    """Whether a load balancer has to find out which nodes have endpoints."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _is_external(spec: Object) -> bool:
    """Whether it is reached from outside."""
    return needs_node_ports(spec) or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


# Updates


def keep_allocated(spec: Object, before: Object) -> None:
    """What the client leaves out on update stays as given (``patchAllocatedValues``, ``NormalizeClusterIPs``)."""
    if needs_addresses(before) and needs_addresses(spec):
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        same = spec.get("clusterIP") == before.get("clusterIP")
        if not spec.get("clusterIPs") and same and before.get("clusterIPs"):
            spec["clusterIPs"] = list(before["clusterIPs"])
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if spec.get("clusterIP") != before.get("clusterIP") and spec.get("clusterIPs") == before.get("clusterIPs"):
        # A client that knows only the single field.
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
    if needs_node_ports(before) and needs_node_ports(spec):
        _keep_ports(spec.get("ports") or (), before.get("ports") or ())
    if needs_health_check_port(before) and needs_health_check_port(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort")
    if before.get("ipFamilyPolicy") in _POLICIES[:2] and spec.get("ipFamilyPolicy") == "SingleStack":
        # Back to one family: those who do not say which address goes lose the second.
        for field in ("ipFamilies", "clusterIPs"):
            if len(spec.get(field) or ()) == 2 and spec[field] == before.get(field):
                spec[field] = spec[field][:1]


def _keep_ports(ports: Iterable[Object], before: Iterable[Object]) -> None:
    known = {port.get("name") or "": port.get("nodePort") or 0 for port in before}
    used = {port.get("nodePort") for port in ports if port.get("nodePort")} & set(known.values())
    for port in ports:
        number = known.get(port.get("name") or "")
        if not port.get("nodePort") and number and number not in used:
            port["nodePort"] = number
            used.add(number)


def drop_of_old_type(spec: Object, before: Object) -> None:
    """What only the old type had goes, unless the client says something else about it
    (``dropTypeDependentFields``)."""

    def drop_unchanged(*fields: str) -> None:
        for field in fields:
            if field in spec and spec[field] == before.get(field):
                del spec[field]

    if needs_addresses(before) and not needs_addresses(spec):
        drop_unchanged("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
        drop_unchanged("internalTrafficPolicy")
    if needs_node_ports(before) and not needs_node_ports(spec):
        numbers = [port.get("nodePort") for port in spec.get("ports") or ()]
        if numbers == [port.get("nodePort") for port in before.get("ports") or ()]:
            for port in spec.get("ports") or ():
                port.pop("nodePort", None)
    if needs_health_check_port(before) and not needs_health_check_port(spec):
        drop_unchanged("healthCheckNodePort")
    if before.get("type") == "LoadBalancer" and spec.get("type") != "LoadBalancer":
        drop_unchanged("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if _is_external(before) and not _is_external(spec):
        drop_unchanged("externalTrafficPolicy")


# Addresses


def cluster_address_problems(spec: Object, before: Object | None) -> list[FieldError]:
    """``ValidateServiceClusterIPsRelatedFields``: what is wrong with addresses and families as they were asked for."""
    path = "spec.clusterIPs"
    addresses: list[str] = spec.get("clusterIPs") or []
    families: list[str] = spec.get("ipFamilies") or []
    policy, single = spec.get("ipFamilyPolicy"), spec.get("clusterIP") or ""
    if spec.get("type") == "ExternalName":
        told = "may not be set for ExternalName services"
        given = (("clusterIPs", addresses), ("ipFamilies", families), ("ipFamilyPolicy", policy))
        return [errors.not_allowed(f"spec.{field}", told) for field, value in given if value]
    problems: list[FieldError] = []
    if before is not None and needs_addresses(before):
        problems += _change_problems(addresses, before, policy)
    if addresses and not single:
        problems.append(errors.invalid_value(path, addresses, "must be empty when `clusterIP` is not specified"))
    elif addresses and addresses[0] != single:
        problems.append(errors.invalid_value(path, addresses, "first value must match `clusterIP`"))
    problems += _family_problems(families, policy)
    faults: list[FieldError] = []
    for position, address in enumerate(addresses):
        if address == "None" and not position:
            if len(addresses) > 1:
                faults.append(errors.invalid_value(path, addresses, "'None' must be the first and only value"))
            continue
        faults += address_problems(address, f"{path}[{position}]", (before or {}).get("clusterIPs") or ())
    problems += faults
    if len(addresses) > 2:
        problems.append(errors.invalid_value(path, addresses, "may only hold up to 2 values"))
    if not faults:
        problems += _stack_problems(addresses, families)
    return problems or _single_problems(families, policy, addresses)


def _stack_problems(addresses: Sequence[str], families: Sequence[str]) -> list[FieldError]:
    """Several addresses are of both families, and each is of the one that was asked for."""
    path, found = "spec.clusterIPs", [_FAMILY_NAMES[family_of(address)] for address in addresses]
    problems = []
    if len(found) > 1 and len(set(found)) < 2:
        told = "may specify no more than one IP for each IP family"
        problems.append(errors.invalid_value(path, list(addresses), told))
    if list(addresses) != ["None"]:
        for position, (family, wanted) in enumerate(zip(found, families, strict=False)):
            if wanted in _FAMILIES and family != wanted:
                told = f"expected an {wanted} value as indicated by `ipFamilies[{position}]`"
                problems.append(errors.invalid_value(f"{path}[{position}]", addresses[position], told))
    return problems


def _single_problems(families: Sequence[str], policy: Any, addresses: Sequence[str]) -> list[FieldError]:
    """Who wants one family has one of each."""
    told = "must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
    counts = (("clusterIPs", len(addresses)), ("ipFamilies", len(families)))
    return [
        errors.invalid_value("spec.ipFamilyPolicy", policy, told.format(field))
        for field, count in counts
        if policy == "SingleStack" and count > 1
    ]


def _change_problems(addresses: Sequence[str], before: Object, policy: Any) -> list[FieldError]:
    """Addresses and the first family stay (``ValidateServiceUpdate``'s part in it)."""
    known: list[str] = before.get("clusterIPs") or []
    if not known:
        return []
    if not addresses:
        return [errors.not_allowed("spec.clusterIPs[0]", "primary clusterIP can not be unset")]
    problems = []
    if addresses[0] != known[0]:
        problems.append(errors.invalid_value("spec.clusterIPs[0]", list(addresses), _FIXED))
    if len(known) == 2 and policy != "SingleStack":
        if len(addresses) < 2:
            problems.append(errors.not_allowed("spec.clusterIPs[1]", "secondary clusterIP can not be unset"))
        elif addresses[1] != known[1]:
            problems.append(errors.invalid_value("spec.clusterIPs[1]", list(addresses), _FIXED))
    return problems


def _family_problems(families: Sequence[str], policy: Any) -> list[FieldError]:
    problems: list[FieldError] = []
    for position, family in enumerate(families):
        path = f"spec.ipFamilies[{position}]"
        if family not in _FAMILIES:
            problems.append(errors.not_supported(path, family, _FAMILIES))
        if family in families[:position]:
            problems.append(errors.duplicate(path, family))
    if policy is not None and policy not in _POLICIES:
        problems.append(errors.not_supported("spec.ipFamilyPolicy", policy, _POLICIES))
    return problems


class ServiceStrategy(Strategy):
    """Fields that the client leaves out on update stay as allocated."""

    selectable = {  # read only
        "spec.clusterIP": ("spec", "clusterIP"),
        "spec.type": ("spec", "type"),
    }
    empty_status = {"loadBalancer": {}}  # read only
    name_problems = staticmethod(dns_label_errors)

    def default(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        if not spec.get("type"):
            spec["type"] = "ClusterIP"
        if not spec.get("sessionAffinity"):
            spec["sessionAffinity"] = "None"
        if spec["sessionAffinity"] == "None":
            spec.pop("sessionAffinityConfig", None)
        if spec["sessionAffinity"] == "ClientIP":
            client: Object = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            if client.get("timeoutSeconds") is None:
                client["timeoutSeconds"] = 10800
        for port in spec.get("ports") or ():
            if not port.get("protocol"):
                port["protocol"] = "TCP"
            if port.get("targetPort") in (None, "", 0):
                port["targetPort"] = port.get("port")
        kind = spec["type"]
        if kind != "ExternalName" and not spec.get("internalTrafficPolicy"):
            spec["internalTrafficPolicy"] = "Cluster"
        if _is_external(spec) and not spec.get("externalTrafficPolicy"):
            spec["externalTrafficPolicy"] = "Cluster"
        if kind == "LoadBalancer":
            if spec.get("allocateLoadBalancerNodePorts") is None:
                spec["allocateLoadBalancerNodePorts"] = True
            balancer = (obj.get("status") or {}).get("loadBalancer") or {}
            for ingress in balancer.get("ingress") or ():
                if ingress.get("ip") and ingress.get("ipMode") is None:
                    ingress["ipMode"] = "VIP"

    def warnings(self, obj: Object) -> Iterable[str]:
        return service_warnings(obj["spec"])

    def prepare_update(self, obj: Object, old: Object) -> None:
        # What stays of the spec is settled before addresses are given (``keep_allocated``).
        if old["spec"].get("type") == "LoadBalancer" and obj["spec"]["type"] != "LoadBalancer":
            obj["status"] = {**(obj.get("status") or {}), "loadBalancer": {}}

    def validate(self, obj: Object) -> list[FieldError]:
        return _problems(obj, None)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        spec, before = obj["spec"], old["spec"]
        problems = _changed_family_problems(spec, before)
        both = before.get("type") == spec["type"] == "LoadBalancer"
        if both and before.get("loadBalancerClass") != spec.get("loadBalancerClass"):
            problems.append(errors.invalid_value("spec.loadBalancerClass", spec.get("loadBalancerClass"), _FIXED))
            problems += _class_problems(spec)
        known_port, port = before.get("healthCheckNodePort"), spec.get("healthCheckNodePort")
        if needs_health_check_port(before) and needs_health_check_port(spec) and port != known_port:
            problems.append(errors.not_allowed("spec.healthCheckNodePort", "field is immutable"))
        return problems + _problems(obj, old) * self.judgements.spec

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        return _balancer_status_problems(obj, old)

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def _problems(obj: Object, old: Object | None) -> list[FieldError]:
    """What is wrong with a service (``validateService``); addresses that it had stay right."""
    spec, before = obj["spec"], (old or {}).get("spec") or {}
    kind, ports = spec["type"], spec.get("ports") or []
    headless = spec.get("clusterIP") == "None"
    problems: list[FieldError] = []
    annotations = obj["metadata"].get("annotations")
    if annotations:
        mode, hints = annotations.get(_MODE), annotations.get(_HINTS)
        if mode is not None and hints is not None and mode != hints:
            told = f"must match annotations[{_HINTS}] when both are specified"
            problems.append(errors.invalid_value(f"metadata.annotations[{_MODE}]", mode, told))
    if not ports and not headless and kind != "ExternalName":
        problems.append(errors.required("spec.ports"))
    if needs_node_ports(spec) and headless:
        told = f"may not be set to 'None' for {kind} services"
        problems.append(errors.invalid_value("spec.clusterIPs[0]", "None", told))
    if kind == "ExternalName":
        problems += _external_name_problems(spec.get("externalName") or "")
    names: set[str] = set()
    for position, port in enumerate(ports):
        problems += _port_problems(port, f"spec.ports[{position}]", names, several=len(ports) > 1)
    if spec.get("selector"):
        problems += label_problems_in(spec["selector"], "spec.selector")
    problems += _affinity_problems(spec)
    for position, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{position}]"
        faults = address_problems(address, path, before.get("externalIPs") or ())
        problems += faults or [errors.invalid_value(path, address, told) for told in special_faults(address)]
    if kind not in _TYPES:
        problems.append(errors.not_supported("spec.type", kind, _TYPES))
    problems += _number_problems(ports, kind)
    problems += _range_problems(obj, old) + _balancer_problems(spec) + _traffic_problems(spec)
    return problems


def _changed_family_problems(spec: Object, before: Object) -> list[FieldError]:
    known, now = before.get("ipFamilies"), spec.get("ipFamilies") or []
    if known and needs_addresses(spec) and needs_addresses(before):
        headless_alone = before.get("clusterIP") == "None" and not before.get("selector")
        if now[:1] != known[:1] and not headless_alone:
            return [errors.invalid_value("spec.ipFamilies[0]", now, _FIXED)]
    return []


def _external_name_problems(name: str) -> list[FieldError]:
    path = "spec.externalName"
    # With or without the dot at the end, as in DNS.
    name = name.removesuffix(".")
    if not name:
        return [errors.required(path)]
    return [errors.invalid_value(path, name, text) for text in dns_subdomain_errors(name)]


def _port_problems(port: Object, path: str, names: set[str], *, several: bool) -> list[FieldError]:
    problems: list[FieldError] = []
    name, number, protocol = port.get("name") or "", port.get("port") or 0, port.get("protocol") or ""
    if not name and several:
        problems.append(errors.required(f"{path}.name"))
    elif name:
        problems += [errors.invalid_value(f"{path}.name", name, text) for text in dns_label_errors(name)]
        if name in names:
            problems.append(errors.duplicate(f"{path}.name", name))
        names.add(name)
    if not 1 <= number <= 65535:
        problems.append(errors.invalid_value(f"{path}.port", number, PORT_RANGE))
    if not protocol:
        problems.append(errors.required(f"{path}.protocol"))
    elif protocol not in _PROTOCOLS:
        problems.append(errors.not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    problems += _target_problems(f"{path}.targetPort", port.get("targetPort"))
    if port.get("appProtocol") is not None:
        told = qualified_name_errors(port["appProtocol"])
        problems += [errors.invalid_value(f"{path}.appProtocol", port["appProtocol"], text) for text in told]
    return problems


def _number_problems(ports: Sequence[Object], kind: str) -> list[FieldError]:
    """Numbers that ports may not have, or that another one of them has."""
    problems = [
        errors.not_allowed(f"spec.ports[{position}].nodePort", "may not be used when `type` is 'ClusterIP'")
        for position, port in enumerate(ports)
        if kind == "ClusterIP" and port.get("nodePort")
    ]
    seen: set[tuple[str, int]] = set()
    for position, port in enumerate(ports):
        node_port = port.get("nodePort") or 0
        key = (port.get("protocol") or "", node_port)
        if node_port and key in seen:
            problems.append(errors.duplicate(f"spec.ports[{position}].nodePort", node_port))
        seen.add(key)
    seen.clear()
    for position, port in enumerate(ports):
        protocol, number = port.get("protocol") or "", port.get("port") or 0
        if (protocol, number) in seen:
            shown = {"Name": "", "Protocol": protocol, "AppProtocol": None, "Port": number}
            problems.append(errors.duplicate(f"spec.ports[{position}]", {**shown, "TargetPort": 0, "NodePort": 0}))
        seen.add((protocol, number))
    return problems


def _target_problems(path: str, target: Any) -> list[FieldError]:
    if isinstance(target, str):
        return [errors.invalid_value(path, target, text) for text in port_name_errors(target)]
    if target is not None and not 1 <= target <= 65535:
        return [errors.invalid_value(path, target, PORT_RANGE)]
    return []


def _affinity_problems(spec: Object) -> list[FieldError]:
    affinity = spec["sessionAffinity"]
    if affinity not in ("ClientIP", "None"):
        return [errors.not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))]
    if affinity == "None":
        return []
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") or 0
    if 0 < seconds <= _MOST_STICKY_SECONDS:
        return []
    told = f"must be greater than 0 and less than {_MOST_STICKY_SECONDS}"
    return [errors.invalid_value("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, told)]


def _balancer_problems(spec: Object) -> list[FieldError]:
    """Fields that only load balancers have."""
    problems: list[FieldError] = []
    balanced = spec["type"] == "LoadBalancer"
    if not balanced and spec.get("allocateLoadBalancerNodePorts") is not None:
        problems.append(errors.not_allowed("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCED))
    return problems + _class_problems(spec)


def _class_problems(spec: Object) -> list[FieldError]:
    name = spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec["type"] != "LoadBalancer":
        return [errors.not_allowed("spec.loadBalancerClass", _ONLY_BALANCED)]
    return [errors.invalid_value("spec.loadBalancerClass", name, text) for text in qualified_name_errors(name)]


def _range_problems(obj: Object, old: Object | None) -> list[FieldError]:
    """Where traffic to the load balancer may come from: the field or, without it, an annotation."""
    spec, before = obj["spec"], (old or {}).get("spec") or {}
    ranges: Sequence[str] = spec.get("loadBalancerSourceRanges") or ()
    noted: str | None = (obj["metadata"].get("annotations") or {}).get(_RANGES)
    if not ranges and noted is None:
        return []
    path = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{_RANGES}]"
    problems = [] if spec["type"] == "LoadBalancer" else [errors.not_allowed(path, _ONLY_BALANCED)]
    if ranges:
        known = [text.strip() for text in before.get("loadBalancerSourceRanges") or ()]
        for position, text in enumerate(ranges):
            problems += range_problems(text.strip(), f"{path}[{position}]", known)
    elif noted and noted.strip() and (old is None or (old["metadata"].get("annotations") or {}).get(_RANGES) != noted):
        for text in noted.split(","):
            problems += range_problems(text.strip(), path)
    return problems


def _balancer_status_problems(obj: Object, old: Object) -> list[FieldError]:
    """What is wrong with what a load balancer says of itself (``ValidateLoadBalancerStatus``)."""
    path = "status.loadBalancer.ingress"
    problems: list[FieldError] = []
    entries, before = _balanced(obj), _balanced(old)
    if entries and obj["spec"].get("type") != "LoadBalancer":
        return [errors.not_allowed(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    known = {entry.get("ip") or "" for entry in before}
    for position, entry in enumerate(entries):
        where, ip, mode = f"{path}[{position}]", entry.get("ip") or "", entry.get("ipMode")
        host = entry.get("hostname") or ""
        if ip:
            problems += address_problems(ip, f"{where}.ip", known)
        if ip and mode is None:
            problems.append(errors.required(f"{where}.ipMode", "must be specified when `ip` is set"))
        elif not ip and mode is not None:
            problems.append(errors.not_allowed(f"{where}.ipMode", "may not be specified when `ip` is not set"))
        elif mode is not None and mode not in _MODES:
            problems.append(errors.not_supported(f"{where}.ipMode", mode, _MODES))
        if host:
            told = [*dns_subdomain_errors(host), *([_NO_ADDRESS] if family_of(host) else [])]
            problems += [errors.invalid_value(f"{where}.hostname", host, text) for text in told]
    return problems


def _balanced(obj: Object) -> Sequence[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()


def _traffic_problems(spec: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    policy = spec.get("externalTrafficPolicy")
    if policy is not None and not _is_external(spec):
        told = "may only be set for externally-accessible services"
        problems.append(errors.invalid_value("spec.externalTrafficPolicy", policy, told))
    elif policy is not None and policy not in _TRAFFIC:
        problems.append(errors.not_supported("spec.externalTrafficPolicy", policy, _TRAFFIC))
    if spec.get("healthCheckNodePort") and not needs_health_check_port(spec):
        told = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        problems.append(errors.invalid_value("spec.healthCheckNodePort", spec["healthCheckNodePort"], told))
    elif spec.get("healthCheckNodePort") and not 1 <= spec["healthCheckNodePort"] <= 65535:
        problems.append(errors.invalid_value("spec.healthCheckNodePort", spec["healthCheckNodePort"], PORT_RANGE))
    internal = spec.get("internalTrafficPolicy")
    if internal is not None and internal not in _TRAFFIC:
        problems.append(errors.not_supported("spec.internalTrafficPolicy", internal, _TRAFFIC))
    spread = spec.get("trafficDistribution")
    if spread is not None and spread not in _DISTRIBUTIONS:
        problems.append(errors.not_supported("spec.trafficDistribution", spread, _DISTRIBUTIONS))
    return problems
