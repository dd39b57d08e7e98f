"""Validation of the less common fields of pod specs: DNS, gates, host aliases, overhead.

After ``ValidatePodSpec`` and the functions it calls in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36),
in its order. ``validation`` has the common fields and calls the functions here.
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.affinity import validate_affinity, validate_topology_spread_constraints
from pilothouse.apiserver.registry.core.pods.security_context import (
    validate_host_users,
    validate_os,
    validate_pod_security_context,
    validate_windows_host_process_pod,
)
from pilothouse.apiserver.registry.core.validation import validate_resource_requirements
from pilothouse.apiserver.registry.generic.ip_validation import validate_ip_for_legacy_field
from pilothouse.machinery.names import dns_search_errors, dns_subdomain_errors, qualified_name_errors

_MAX_NAMESERVERS = 3
_MAX_SEARCHES = 32
_MAX_SEARCH_LIST_CHARS = 2048
_MAX_HOSTNAME_LENGTH = 64
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_LESS_COMMON_FIELDS = frozenset(
    (
        *("dnsConfig", "affinity", "topologySpreadConstraints", "readinessGates", "schedulingGates"),
        *("hostnameOverride", "shareProcessNamespace", "hostUsers", "hostNetwork"),
    )
)
_TRAILING_FIELDS = frozenset(("runtimeClassName", "overhead", "os", "schedulingGroup"))
_COMMON_PREEMPTION_POLICIES = (None, "PreemptLowerPriority")


def validate_leading_fields(spec: Object, path: str, *, independent: bool) -> ErrorList:
    """The less common fields that upstream validates first: ``securityContext`` to ``hostnameOverride``.
    ``independent``: no container has fields whose validation depends on the pod."""
    if _LESS_COMMON_FIELDS.isdisjoint(spec) and not spec.get("securityContext") and spec.get("dnsPolicy") != "None":
        # Most pods have none of these fields.
        return [] if independent else validate_windows_host_process_pod(spec, path)
    errors = validate_pod_security_context(spec, path)
    if spec.get("affinity"):
        errors += validate_affinity(spec["affinity"], f"{path}.affinity")
    errors += _validate_pod_dns_config(spec, path)
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        errors += all_invalid(f"{path}.readinessGates[{position}].conditionType", kind, qualified_name_errors(kind))
    errors += _validate_scheduling_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    errors += validate_topology_spread_constraints(
        spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints"
    )
    errors += validate_windows_host_process_pod(spec, path)
    return errors + validate_host_users(spec, path) + _validate_hostname_override(spec, f"{path}.hostnameOverride")


def validate_host_aliases(aliases: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    for position, alias in enumerate(aliases):
        child_path = f"{path}[{position}]"
        errors += validate_ip_for_legacy_field(alias.get("ip") or "", f"{child_path}.ip")
        for index, name in enumerate(alias.get("hostnames") or ()):
            errors += all_invalid(f"{child_path}.hostnames[{index}]", name, dns_subdomain_errors(name))
    return errors


def validate_trailing_fields(spec: Object, path: str) -> ErrorList:
    """The fields that upstream validates last: ``runtimeClassName`` to ``schedulingGroup``."""
    policy = spec.get("preemptionPolicy")
    if policy in _COMMON_PREEMPTION_POLICIES and _TRAILING_FIELDS.isdisjoint(spec):
        return []
    errors: ErrorList = []
    name = spec.get("runtimeClassName")
    if name is not None:
        errors += all_invalid(f"{path}.runtimeClassName", name, dns_subdomain_errors(name))
    if policy == "":
        errors.append(required(f"{path}.preemptionPolicy"))
    elif policy is not None and policy not in _PREEMPTION_POLICIES:
        errors.append(not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION_POLICIES))
    if spec.get("overhead"):
        errors += validate_resource_requirements({"limits": spec["overhead"]}, f"{path}.overhead")
    errors += validate_os(spec, path)
    if spec.get("schedulingGroup") is not None:
        errors += _validate_scheduling_group(spec["schedulingGroup"], f"{path}.schedulingGroup.podGroupName")
    return errors


def _validate_scheduling_group(group: Object, path: str) -> ErrorList:
    name = group.get("podGroupName")
    if name is None:
        return [invalid(path, None, "must specify one of: `podGroupName`")]
    return all_invalid(path, name, dns_subdomain_errors(name))


def _validate_pod_dns_config(spec: Object, path: str) -> ErrorList:
    config, child_path = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(child_path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{child_path}.nameservers", detail)]
    if config is None:
        return []
    errors: ErrorList = []
    servers: Sequence[str] = config.get("nameservers") or ()
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(invalid(f"{child_path}.nameservers", list(servers), detail))
    for position, server in enumerate(servers):
        errors += validate_ip_for_legacy_field(server, f"{child_path}.nameservers[{position}]")
    searches: Sequence[str] = config.get("searches") or ()
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        errors.append(invalid(f"{child_path}.searches", list(searches), detail))
    if len(" ".join(searches)) > _MAX_SEARCH_LIST_CHARS:
        detail = f"must not have more than {_MAX_SEARCH_LIST_CHARS} characters (including spaces) in the search list"
        errors.append(invalid(f"{child_path}.searches", list(searches), detail))
    for position, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            errors += all_invalid(f"{child_path}.searches[{position}]", domain, dns_search_errors(domain))
    errors += [
        required(f"{child_path}.options[{position}]", "must not be empty")
        for position, option in enumerate(config.get("options") or ())
        if not option.get("name")
    ]
    return errors


def _validate_scheduling_gates(gates: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    names: set[str] = set()
    for position, gate in enumerate(gates):
        name = gate.get("name") or ""
        errors += all_invalid(f"{path}[{position}]", name, qualified_name_errors(name))
        if name in names:
            errors.append(duplicate(f"{path}[{position}]", name))
        names.add(name)
    return errors


def _validate_hostname_override(spec: Object, path: str) -> ErrorList:
    """``hostnameOverride`` (``validatePodHostName``)."""
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    errors = [
        forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name.encode()) > _MAX_HOSTNAME_LENGTH:
        errors.append(too_long(path, _MAX_HOSTNAME_LENGTH))
    return errors + all_invalid(path, name, dns_subdomain_errors(name))


def validate_image_whitespace(container: Object, path: str) -> ErrorList:
    """The image of a pod's container must not have surrounding whitespace; in templates it may."""
    image = container.get("image") or ""
    if image.strip() == image:
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]
