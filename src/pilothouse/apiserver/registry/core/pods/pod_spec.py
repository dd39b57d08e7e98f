"""Pod specs, the rarer parts that are about the pod as a whole.

After ``ValidatePodSpec`` and what it calls in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36), in its
order. ``validation`` has the common parts and calls the functions here.
"""

from collections.abc import Iterable, Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
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

_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_MOST_OF_SEARCHES = 2048
_LONGEST_HOSTNAME = 64
_PREEMPTION = ("PreemptLowerPriority", "Never")
_PARTS = frozenset(
    (
        *("dnsConfig", "affinity", "topologySpreadConstraints", "readinessGates", "schedulingGates"),
        *("hostnameOverride", "shareProcessNamespace", "hostUsers", "hostNetwork"),
    )
)
_LATER_PARTS = frozenset(("runtimeClassName", "overhead", "os", "schedulingGroup"))
_USUAL_PREEMPTION = (None, "PreemptLowerPriority")


def _names(field: str, value: str, detail: Iterable[str]) -> ErrorList:
    return [invalid(field, value, text) for text in detail]


def validate_pod_wide_fields(spec: Object, path: str, *, plain: bool) -> ErrorList:
    """Validation of the rarer parts of a pod spec that come first. ``plain``: no container has anything that
    rests on the pod."""
    if _PARTS.isdisjoint(spec) and not spec.get("securityContext") and spec.get("dnsPolicy") != "None":
        # Most pods have none of them, and pods are created by the thousand.
        return [] if plain else validate_windows_host_process_pod(spec, path)
    errors = validate_pod_security_context(spec, path)
    if spec.get("affinity"):
        errors += validate_affinity(spec["affinity"], f"{path}.affinity")
    errors += _validate_pod_dns_config(spec, path)
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        errors += _names(f"{path}.readinessGates[{position}].conditionType", kind, qualified_name_errors(kind))
    errors += _validate_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
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
        for at, name in enumerate(alias.get("hostnames") or ()):
            errors += _names(f"{child_path}.hostnames[{at}]", name, dns_subdomain_errors(name))
    return errors


def validate_newer_fields(spec: Object, path: str) -> ErrorList:
    policy = spec.get("preemptionPolicy")
    if policy in _USUAL_PREEMPTION and _LATER_PARTS.isdisjoint(spec):
        return []
    errors: ErrorList = []
    name = spec.get("runtimeClassName")
    if name is not None:
        errors += _names(f"{path}.runtimeClassName", name, dns_subdomain_errors(name))
    if policy == "":
        errors.append(required(f"{path}.preemptionPolicy"))
    elif policy is not None and policy not in _PREEMPTION:
        errors.append(not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION))
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
    return _names(path, name, dns_subdomain_errors(name))


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
    if len(servers) > _MOST_NAMESERVERS:
        detail = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        errors.append(invalid(f"{child_path}.nameservers", list(servers), detail))
    for position, server in enumerate(servers):
        errors += validate_ip_for_legacy_field(server, f"{child_path}.nameservers[{position}]")
    searches: Sequence[str] = config.get("searches") or ()
    if len(searches) > _MOST_SEARCHES:
        detail = f"must not have more than {_MOST_SEARCHES} search paths"
        errors.append(invalid(f"{child_path}.searches", list(searches), detail))
    if len(" ".join(searches)) > _MOST_OF_SEARCHES:
        detail = f"must not have more than {_MOST_OF_SEARCHES} characters (including spaces) in the search list"
        errors.append(invalid(f"{child_path}.searches", list(searches), detail))
    for position, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            errors += _names(f"{child_path}.searches[{position}]", domain, dns_search_errors(domain))
    errors += [
        required(f"{child_path}.options[{position}]", "must not be empty")
        for position, option in enumerate(config.get("options") or ())
        if not option.get("name")
    ]
    return errors


def _validate_gates(gates: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    seen: list[str] = []
    for position, gate in enumerate(gates):
        name = gate.get("name") or ""
        errors += _names(f"{path}[{position}]", name, qualified_name_errors(name))
        if name in seen:
            errors.append(duplicate(f"{path}[{position}]", name))
        seen.append(name)
    return errors


def _validate_hostname_override(spec: Object, path: str) -> ErrorList:
    """The name that a pod has for itself whatever it is called otherwise (``validatePodHostName``)."""
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    errors = [
        forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name.encode()) > _LONGEST_HOSTNAME:
        errors.append(too_long(path, _LONGEST_HOSTNAME))
    return errors + _names(path, name, dns_subdomain_errors(name))


def validate_image_whitespace(container: Object, path: str) -> ErrorList:
    """Of pods only: templates may have spaces around the names of images."""
    image = container.get("image") or ""
    if image.strip() == image:
        return []
    return [invalid(f"{path}.image", image, "must not have leading or trailing whitespace")]
