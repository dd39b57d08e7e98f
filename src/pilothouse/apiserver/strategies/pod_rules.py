"""Pod specs, the rarer parts that are about the pod as a whole.

After ``ValidatePodSpec`` and what it calls in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36), in its
order. ``pod_templates`` has the common parts and calls the functions here.
"""

from collections.abc import Iterable, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.affinities import affinity_problems, spread_problems
from pilothouse.apiserver.strategies.amounts import requirement_problems
from pilothouse.apiserver.strategies.network_forms import address_problems
from pilothouse.apiserver.strategies.security_contexts import (
    host_process_problems,
    host_users_problems,
    pod_context_problems,
    system_problems,
)
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
_LATER_PARTS = frozenset(("runtimeClassName", "overhead", "os"))
_USUAL_PREEMPTION = (None, "PreemptLowerPriority")


def _names(field: str, value: str, told: Iterable[str]) -> list[FieldError]:
    return [errors.invalid_value(field, value, text) for text in told]


def pod_problems(spec: Object, path: str, *, plain: bool) -> list[FieldError]:
    """What is wrong with the rarer parts of a pod spec that are judged first. ``plain``: no container has anything that
    rests on the pod."""
    if _PARTS.isdisjoint(spec) and not spec.get("securityContext") and spec.get("dnsPolicy") != "None":
        # Most pods have none of them, and pods are created by the thousand.
        return [] if plain else host_process_problems(spec, path)
    problems = pod_context_problems(spec, path)
    if spec.get("affinity"):
        problems += affinity_problems(spec["affinity"], f"{path}.affinity")
    problems += _dns_problems(spec, path)
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        problems += _names(f"{path}.readinessGates[{position}].conditionType", kind, qualified_name_errors(kind))
    problems += _gate_problems(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    problems += spread_problems(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    problems += host_process_problems(spec, path)
    return problems + host_users_problems(spec, path) + _override_problems(spec, f"{path}.hostnameOverride")


def alias_problems(aliases: Sequence[Object], path: str) -> list[FieldError]:
    """What is wrong with names that a pod has for addresses."""
    problems: list[FieldError] = []
    for position, alias in enumerate(aliases):
        where = f"{path}[{position}]"
        problems += address_problems(alias.get("ip") or "", f"{where}.ip")
        for at, name in enumerate(alias.get("hostnames") or ()):
            problems += _names(f"{where}.hostnames[{at}]", name, dns_subdomain_errors(name))
    return problems


def later_problems(spec: Object, path: str) -> list[FieldError]:
    """What is wrong with the rarer parts of a pod spec that are judged last."""
    policy = spec.get("preemptionPolicy")
    if policy in _USUAL_PREEMPTION and _LATER_PARTS.isdisjoint(spec):
        return []
    problems: list[FieldError] = []
    name = spec.get("runtimeClassName")
    if name is not None:
        problems += _names(f"{path}.runtimeClassName", name, dns_subdomain_errors(name))
    if policy == "":
        problems.append(errors.required(f"{path}.preemptionPolicy"))
    elif policy is not None and policy not in _PREEMPTION:
        problems.append(errors.not_supported(f"{path}.preemptionPolicy", policy, _PREEMPTION))
    if spec.get("overhead"):
        problems += requirement_problems({"limits": spec["overhead"]}, f"{path}.overhead")
    return problems + system_problems(spec, path)


def _dns_problems(spec: Object, path: str) -> list[FieldError]:
    config, where = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [errors.required(where, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            told = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [errors.required(f"{where}.nameservers", told)]
    if config is None:
        return []
    problems: list[FieldError] = []
    servers: Sequence[str] = config.get("nameservers") or ()
    if len(servers) > _MOST_NAMESERVERS:
        told = f"must not have more than {_MOST_NAMESERVERS} nameservers"
        problems.append(errors.invalid_value(f"{where}.nameservers", list(servers), told))
    for position, server in enumerate(servers):
        problems += address_problems(server, f"{where}.nameservers[{position}]")
    searches: Sequence[str] = config.get("searches") or ()
    if len(searches) > _MOST_SEARCHES:
        told = f"must not have more than {_MOST_SEARCHES} search paths"
        problems.append(errors.invalid_value(f"{where}.searches", list(searches), told))
    if len(" ".join(searches)) > _MOST_OF_SEARCHES:
        told = f"must not have more than {_MOST_OF_SEARCHES} characters (including spaces) in the search list"
        problems.append(errors.invalid_value(f"{where}.searches", list(searches), told))
    for position, search in enumerate(searches):
        domain = search.removesuffix(".")
        if search != ".":
            problems += _names(f"{where}.searches[{position}]", domain, dns_search_errors(domain))
    problems += [
        errors.required(f"{where}.options[{position}]", "must not be empty")
        for position, option in enumerate(config.get("options") or ())
        if not option.get("name")
    ]
    return problems


def _gate_problems(gates: Sequence[Object], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: list[str] = []
    for position, gate in enumerate(gates):
        name = gate.get("name") or ""
        problems += _names(f"{path}[{position}]", name, qualified_name_errors(name))
        if name in seen:
            problems.append(errors.duplicate(f"{path}[{position}]", name))
        seen.append(name)
    return problems


def _override_problems(spec: Object, path: str) -> list[FieldError]:
    """The name that a pod has for itself whatever it is called otherwise (``validatePodHostName``)."""
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    problems = [
        errors.not_allowed(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name.encode()) > _LONGEST_HOSTNAME:
        problems.append(errors.too_long(path, _LONGEST_HOSTNAME))
    return problems + _names(path, name, dns_subdomain_errors(name))
