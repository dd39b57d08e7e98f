"""Validation of Services, except for the allocation of cluster IPs and ports.

After ``ValidateService`` in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Sequence
from typing import Any

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    forbidden,
    internal_value,
    invalid,
    not_supported,
    of_named_type,
    repeated,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.services.service_types import (
    TYPES,
    is_externally_accessible,
    is_headless,
    needs_cluster_ip,
    needs_hc_node_port,
    needs_node_port,
)
from pilothouse.apiserver.registry.core.validation import non_special_ip_errors
from pilothouse.apiserver.registry.generic.ip_validation import (
    family_of,
    validate_cidr_for_legacy_field,
    validate_ip_for_legacy_field,
)
from pilothouse.apiserver.registry.generic.meta_validation import validate_labels
from pilothouse.apiserver.registry.generic.object_fields import PORT_RANGE
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, port_name_errors, qualified_name_errors

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_IP_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_FAMILIES = ("IPv4", "IPv6")
_TRAFFIC_POLICIES = ("Cluster", "Local")
_DISTRIBUTIONS = ("PreferClose", "PreferSameZone", "PreferSameNode")
_IP_MODES = ("Proxy", "VIP")
_NOT_AN_IP_ADDRESS = "must be a DNS name, not an IP address"
_SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_TOPOLOGY_MODE, _TOPOLOGY_HINTS = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
_ONLY_LOAD_BALANCER = "may only be used when `type` is 'LoadBalancer'"
_IMMUTABLE = "may not change once set"
_MAX_CLIENT_IP_AFFINITY_SECONDS = 86400


# Addresses


def validate_service_cluster_ips_related_fields(spec: Object, old_spec: Object | None) -> ErrorList:
    """``ValidateServiceClusterIPsRelatedFields``: ``clusterIP``, ``clusterIPs``, ``ipFamilies``, ``ipFamilyPolicy``."""
    if not needs_cluster_ip(spec):
        return []
    path = "spec.clusterIPs"
    cluster_ips: list[str] = spec.get("clusterIPs") or []
    families: list[str] = spec.get("ipFamilies") or []
    cluster_ip = spec.get("clusterIP") or ""
    errors: ErrorList = []
    if cluster_ip and not cluster_ips:
        errors.append(required(path))
    elif cluster_ip and cluster_ips[0] != cluster_ip:
        errors.append(invalid(path, cluster_ips, "first value must match `clusterIP`"))
    elif not cluster_ip and cluster_ips:
        errors.append(invalid(path, cluster_ips, "must be empty when `clusterIP` is not specified"))
    errors += _validate_ip_families(families, spec.get("ipFamilyPolicy"))
    address_errors: ErrorList = []
    for position, address in enumerate(cluster_ips):
        if position == 0 and address == "None":
            if len(cluster_ips) > 1:
                address_errors.append(invalid(path, cluster_ips, "'None' must be the first and only value"))
            continue
        address_errors += validate_ip_for_legacy_field(
            address, f"{path}[{position}]", (old_spec or {}).get("clusterIPs") or ()
        )
    errors += address_errors
    if len(cluster_ips) > 2:
        errors.append(invalid(path, cluster_ips, "may only hold up to 2 values"))
    return errors if address_errors else errors + _validate_stacks(cluster_ips, families)


def _validate_ip_families(families: Sequence[str], policy: str | None) -> ErrorList:
    errors: ErrorList = []
    duplicates = repeated(families)
    for position, family in enumerate(families):
        path = f"spec.ipFamilies[{position}]"
        if family not in _FAMILIES:
            errors.append(not_supported(path, family, _FAMILIES))
        if position in duplicates:
            errors.append(duplicate(path, family))
    if policy is not None and policy not in _IP_FAMILY_POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, _IP_FAMILY_POLICIES))
    return errors


def _validate_stacks(addresses: Sequence[str], families: Sequence[str]) -> ErrorList:
    """At most one cluster IP per family, each of the family at the same index."""
    path, errors = "spec.clusterIPs", []
    if len(addresses) > 1 and len({family_of(address) for address in addresses}) < 2:
        errors.append(invalid(path, list(addresses), "may specify no more than one IP for each IP family"))
    if list(addresses) != ["None"]:
        for position, (address, family) in enumerate(zip(addresses, families, strict=False)):
            if family in _FAMILIES and (family == "IPv6") != (family_of(address) == 6):
                detail = f"expected an {family} value as indicated by `ipFamilies[{position}]`"
                errors.append(invalid(f"{path}[{position}]", address, detail))
    return errors


def _validate_upgrade_downgrade_cluster_ips(spec: Object, old_spec: Object) -> ErrorList:
    """``validateUpgradeDowngradeClusterIPs``: only the secondary cluster IP may be added or removed."""
    if not needs_cluster_ip(spec) or not needs_cluster_ip(old_spec) or (is_headless(spec) and is_headless(old_spec)):
        return []
    cluster_ips, old_cluster_ips = spec.get("clusterIPs") or [], old_spec.get("clusterIPs") or []
    if len(cluster_ips) == len(old_cluster_ips):
        changed = [position for position, address in enumerate(old_cluster_ips) if address != cluster_ips[position]]
        return [invalid(f"spec.clusterIPs[{position}]", cluster_ips, _IMMUTABLE) for position in changed]
    errors: ErrorList = []
    if not cluster_ips:
        errors.append(invalid("spec.clusterIPs[0]", cluster_ips or None, "primary clusterIP can not be unset"))
    elif old_cluster_ips and cluster_ips[0] != old_cluster_ips[0]:
        errors.append(invalid("spec.clusterIPs[0]", cluster_ips, _IMMUTABLE))
    if len(old_cluster_ips) > len(cluster_ips) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))
    return errors


def _validate_upgrade_downgrade_ip_families(spec: Object, old_spec: Object) -> ErrorList:
    """``validateUpgradeDowngradeIPFamilies``: only the secondary family may be added or removed, except for headless
    Services."""
    if not needs_cluster_ip(spec) or not needs_cluster_ip(old_spec) or is_headless(spec) or is_headless(old_spec):
        return []
    path = "spec.ipFamilies[0]"
    cluster_ips, families, old_families = (
        spec.get("clusterIPs"),
        spec.get("ipFamilies") or [],
        old_spec.get("ipFamilies") or [],
    )
    if len(families) == len(old_families):
        return [
            invalid(path, families, _IMMUTABLE)
            for old_family, family in zip(old_families, families, strict=True)
            if old_family != family
        ]
    errors: ErrorList = []
    if len(old_families) > len(families) and not cluster_ips:
        errors.append(invalid(path, families or None, "primary ipFamily can not be unset"))
    if families and old_families and families[0] != old_families[0]:
        errors.append(invalid(path, cluster_ips, _IMMUTABLE))
    if len(old_families) > len(families) == 1 and spec.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.append(invalid("spec.ipFamilyPolicy", spec.get("ipFamilyPolicy"), detail))
    return errors


def validate_service_update(obj: Object, old: Object) -> ErrorList:
    spec, old_spec = obj["spec"], old["spec"]
    errors = _validate_upgrade_downgrade_cluster_ips(spec, old_spec) + _validate_upgrade_downgrade_ip_families(
        spec, old_spec
    )
    class_name = spec.get("loadBalancerClass")
    if old_spec.get("type") == spec["type"] == "LoadBalancer" and old_spec.get("loadBalancerClass") != class_name:
        errors.append(invalid("spec.loadBalancerClass", class_name, _IMMUTABLE))
    errors += _validate_load_balancer_class(spec)
    old_port, port = old_spec.get("healthCheckNodePort"), spec.get("healthCheckNodePort")
    if needs_hc_node_port(old_spec) and needs_hc_node_port(spec) and port != old_port:
        errors.append(forbidden("spec.healthCheckNodePort", "field is immutable"))
    return errors


def validate_service(obj: Object, old: Object | None) -> ErrorList:
    """``validateService``. Addresses that the old Service has are accepted."""
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    kind, ports = spec["type"], spec.get("ports") or []
    errors: ErrorList = []
    annotations = obj["metadata"].get("annotations")
    if annotations:
        mode, hints = annotations.get(_TOPOLOGY_MODE), annotations.get(_TOPOLOGY_HINTS)
        if mode is not None and hints is not None and mode != hints:
            detail = f"must match annotations[{_TOPOLOGY_HINTS}] when both are specified"
            errors.append(invalid(f"metadata.annotations[{_TOPOLOGY_MODE}]", mode, detail))
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if needs_node_port(spec) and is_headless(spec):
        detail = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", "None", detail))
    if kind == "ExternalName":
        detail = "may not be set for ExternalName services"
        errors += [
            forbidden(f"spec.{field}", detail)
            for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(field)
        ]
        errors += _validate_external_name(spec.get("externalName") or "")
    names: set[str] = set()
    for position, port in enumerate(ports):
        errors += _validate_service_port(port, f"spec.ports[{position}]", names, require_name=len(ports) > 1)
    if spec.get("selector"):
        errors += validate_labels(spec["selector"], "spec.selector")
    errors += _validate_session_affinity(spec) + validate_service_cluster_ips_related_fields(spec, old_spec)
    for position, address in enumerate(spec.get("externalIPs") or ()):
        path = f"spec.externalIPs[{position}]"
        ip_errors = validate_ip_for_legacy_field(address, path, old_spec.get("externalIPs") or ())
        errors += ip_errors or [invalid(path, address, msg) for msg in non_special_ip_errors(address)]
    if kind not in TYPES:
        errors.append(not_supported("spec.type", kind, TYPES))
    errors += _validate_port_numbers(ports, kind) + _validate_source_ranges(obj, old)
    if kind != "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not None:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_LOAD_BALANCER))
    return errors + _validate_load_balancer_class(spec) + _validate_service_traffic(spec)


def _validate_external_name(name: str) -> ErrorList:
    path = "spec.externalName"
    # A trailing dot is accepted, as in DNS.
    name = name.removesuffix(".")
    if not name:
        return [required(path)]
    return [invalid(path, name, msg) for msg in dns_subdomain_errors(name)]


def _validate_service_port(port: Object, path: str, names: set[str], *, require_name: bool) -> ErrorList:
    errors: ErrorList = []
    name, number, protocol = port.get("name") or "", port.get("port") or 0, port.get("protocol") or ""
    if not name and require_name:
        errors.append(required(f"{path}.name"))
    elif name:
        errors += [invalid(f"{path}.name", name, msg) for msg in dns_label_errors(name)]
        if name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    if not 1 <= number <= 65535:
        errors.append(invalid(f"{path}.port", number, PORT_RANGE))
    if not protocol:
        errors.append(required(f"{path}.protocol"))
    elif protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    errors += _validate_target_port(f"{path}.targetPort", port.get("targetPort"))
    if port.get("appProtocol") is not None:
        msgs = qualified_name_errors(port["appProtocol"])
        errors += [invalid(f"{path}.appProtocol", port["appProtocol"], msg) for msg in msgs]
    return errors


def _validate_port_numbers(ports: Sequence[Object], kind: str) -> ErrorList:
    errors = [
        forbidden(f"spec.ports[{position}].nodePort", "may not be used when `type` is 'ClusterIP'")
        for position, port in enumerate(ports)
        if kind == "ClusterIP" and port.get("nodePort")
    ]
    unique_ports: set[tuple[str, int]] = set()
    for position, port in enumerate(ports):
        node_port = port.get("nodePort") or 0
        key = (port.get("protocol") or "", node_port)
        if node_port and key in unique_ports:
            errors.append(duplicate(f"spec.ports[{position}].nodePort", node_port))
        unique_ports.add(key)
    unique_ports.clear()
    for position, port in enumerate(ports):
        protocol, number = port.get("protocol") or "", port.get("port") or 0
        if (protocol, number) in unique_ports:
            bad_value = internal_value("core.ServicePort", {"protocol": protocol, "port": number})
            errors.append(duplicate(f"spec.ports[{position}]", bad_value))
        unique_ports.add((protocol, number))
    return errors


def _validate_target_port(path: str, target: Any) -> ErrorList:
    if isinstance(target, str):
        return [invalid(path, target, msg) for msg in port_name_errors(target)]
    return [] if target and 1 <= target <= 65535 else [invalid(path, target or 0, PORT_RANGE)]


def _validate_session_affinity(spec: Object) -> ErrorList:
    affinity = spec["sessionAffinity"]
    if affinity not in ("ClientIP", "None"):
        return [not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))]
    if affinity == "None":
        return []
    seconds = ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds") or 0
    if 0 < seconds <= _MAX_CLIENT_IP_AFFINITY_SECONDS:
        return []
    detail = f"must be greater than 0 and less than {_MAX_CLIENT_IP_AFFINITY_SECONDS}"
    return [invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, detail)]


def _validate_load_balancer_class(spec: Object) -> ErrorList:
    name = spec.get("loadBalancerClass")
    if name is None:
        return []
    if spec["type"] != "LoadBalancer":
        return [forbidden("spec.loadBalancerClass", _ONLY_LOAD_BALANCER)]
    return [invalid("spec.loadBalancerClass", name, msg) for msg in qualified_name_errors(name)]


def _validate_source_ranges(obj: Object, old: Object | None) -> ErrorList:
    """``loadBalancerSourceRanges`` or, if it is empty, the annotation."""
    spec, old_spec = obj["spec"], (old or {}).get("spec") or {}
    ranges: Sequence[str] = spec.get("loadBalancerSourceRanges") or ()
    annotation: str | None = (obj["metadata"].get("annotations") or {}).get(_SOURCE_RANGES)
    if not ranges and annotation is None:
        return []
    path = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{_SOURCE_RANGES}]"
    errors = [] if spec["type"] == "LoadBalancer" else [forbidden(path, _ONLY_LOAD_BALANCER)]
    if ranges:
        valid_old_cidrs = [cidr.strip() for cidr in old_spec.get("loadBalancerSourceRanges") or ()]
        for position, cidr in enumerate(ranges):
            errors += validate_cidr_for_legacy_field(cidr.strip(), f"{path}[{position}]", valid_old_cidrs)
    elif (
        annotation
        and annotation.strip()
        and (old is None or (old["metadata"].get("annotations") or {}).get(_SOURCE_RANGES) != annotation)
    ):
        for cidr in annotation.split(","):
            errors += validate_cidr_for_legacy_field(cidr.strip(), path)
    return errors


def validate_load_balancer_status(obj: Object, old: Object) -> ErrorList:
    path = "status.loadBalancer.ingress"
    errors: ErrorList = []
    ingress, old_ingress = _load_balancer_ingress(obj), _load_balancer_ingress(old)
    if ingress and obj["spec"].get("type") != "LoadBalancer":
        return [forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")]
    valid_old_ips = {entry.get("ip") or "" for entry in old_ingress}
    for position, entry in enumerate(ingress):
        child_path, ip, mode = f"{path}[{position}]", entry.get("ip") or "", entry.get("ipMode")
        host = entry.get("hostname") or ""
        if ip:
            errors += validate_ip_for_legacy_field(ip, f"{child_path}.ip", valid_old_ips)
        if ip and mode is None:
            errors.append(required(f"{child_path}.ipMode", "must be specified when `ip` is set"))
        elif not ip and mode is not None:
            errors.append(forbidden(f"{child_path}.ipMode", "may not be specified when `ip` is not set"))
        elif mode is not None and mode not in _IP_MODES:
            errors.append(not_supported(f"{child_path}.ipMode", mode, _IP_MODES))
        if host:
            msgs = [*dns_subdomain_errors(host), *([_NOT_AN_IP_ADDRESS] if family_of(host) else [])]
            errors += [invalid(f"{child_path}.hostname", host, msg) for msg in msgs]
    return errors


def _load_balancer_ingress(obj: Object) -> Sequence[Object]:
    return ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()


def _validate_service_traffic(spec: Object) -> ErrorList:
    errors: ErrorList = []
    policy = spec.get("externalTrafficPolicy")
    if policy is not None and not is_externally_accessible(spec):
        detail = "may only be set for externally-accessible services"
        errors.append(invalid("spec.externalTrafficPolicy", of_named_type(policy), detail))
    elif policy is not None and policy not in _TRAFFIC_POLICIES:
        errors.append(not_supported("spec.externalTrafficPolicy", policy, _TRAFFIC_POLICIES))
    if spec.get("healthCheckNodePort") and not needs_hc_node_port(spec):
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], detail))
    elif spec.get("healthCheckNodePort") and not 1 <= spec["healthCheckNodePort"] <= 65535:
        errors.append(invalid("spec.healthCheckNodePort", spec["healthCheckNodePort"], PORT_RANGE))
    internal_policy = spec.get("internalTrafficPolicy")
    if internal_policy is not None and internal_policy not in _TRAFFIC_POLICIES:
        errors.append(not_supported("spec.internalTrafficPolicy", internal_policy, _TRAFFIC_POLICIES))
    distribution = spec.get("trafficDistribution")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        errors.append(not_supported("spec.trafficDistribution", distribution, _DISTRIBUTIONS, plain=True))
    return errors
