"""Pod specs, the rarer parts: affinity, spreading, security, DNS, sources of variables.

After ``validatePodSpec`` and what it calls in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
``pod_templates`` has the common parts and calls the two functions at the end of each half here.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.field_references import OF_VARIABLES, field_problems, resource_problems
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import (
    dns_label_errors,
    dns_search_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)

_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_IDS = "must be between 0 and 2147483647, inclusive"
_MOST_NAMESERVERS = 3
_MOST_SEARCHES = 32
_MOST_OF_SEARCHES = 2048
_CHANGE_POLICIES = ("Always", "OnRootMismatch")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _names(field: str, value: str, told: Iterable[str]) -> list[FieldError]:
    return [errors.invalid_value(field, value, text) for text in told]


def _is_address(text: object) -> bool:
    try:
        ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return True


# Of the pod


_PARTS = frozenset(
    (
        *("dnsConfig", "affinity", "topologySpreadConstraints", "readinessGates", "schedulingGates"),
        *("hostAliases", "runtimeClassName", "preemptionPolicy", "shareProcessNamespace"),
    )
)


def pod_problems(spec: Object, path: str) -> list[FieldError]:
    """What is wrong with the rarer parts of a pod spec."""
    if _PARTS.isdisjoint(spec) and not spec.get("securityContext") and spec.get("dnsPolicy") != "None":
        # Most pods have none of them, and pods are created by the thousand.
        return []
    problems: list[FieldError] = []
    problems += _security_problems(spec, path) + _dns_problems(spec, path)
    if spec.get("affinity"):
        problems += _affinity_problems(spec["affinity"], f"{path}.affinity")
    problems += _spread_problems(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        problems += _names(f"{path}.readinessGates[{position}].conditionType", kind, qualified_name_errors(kind))
    problems += _gate_problems(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    for position, alias in enumerate(spec.get("hostAliases") or ()):
        where = f"{path}.hostAliases[{position}]"
        if not _is_address(alias.get("ip") or ""):
            problems.append(errors.invalid_value(f"{where}.ip", alias.get("ip") or "", _ADDRESS))
        for at, name in enumerate(alias.get("hostnames") or ()):
            problems += _names(f"{where}.hostnames[{at}]", name, dns_subdomain_errors(name))
    name = spec.get("runtimeClassName")
    if name:
        problems += _names(f"{path}.runtimeClassName", name, dns_subdomain_errors(name))
    policy = spec.get("preemptionPolicy")
    if policy not in (None, "Never", "PreemptLowerPriority"):
        problems.append(errors.not_supported(f"{path}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
    return problems


def _security_problems(spec: Object, path: str) -> list[FieldError]:
    context = spec.get("securityContext") or {}
    where = f"{path}.securityContext"
    problems = [
        errors.invalid_value(f"{where}.{field}", context[field], _IDS)
        for field in ("fsGroup", "runAsUser", "runAsGroup")
        if not _is_id(context.get(field))
    ]
    problems += [
        errors.invalid_value(f"{where}.supplementalGroups[{position}]", group, _IDS)
        for position, group in enumerate(context.get("supplementalGroups") or ())
        if not _is_id(group)
    ]
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        told = "ShareProcessNamespace and HostPID cannot both be enabled"
        problems.append(errors.invalid_value(f"{where}.shareProcessNamespace", True, told))
    policy = context.get("fsGroupChangePolicy")
    if policy is not None and policy not in _CHANGE_POLICIES:
        problems.append(errors.not_supported(f"{where}.fsGroupChangePolicy", policy, _CHANGE_POLICIES))
    return problems


def _is_id(value: int | None) -> bool:
    return value is None or 0 <= value <= 2147483647


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
    problems += [
        errors.invalid_value(f"{where}.nameservers[{position}]", server, _ADDRESS)
        for position, server in enumerate(servers)
        if not _is_address(server)
    ]
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
        problems += _names(f"{path}[{position}].name", name, qualified_name_errors(name))
        if name in seen:
            problems.append(errors.duplicate(f"{path}[{position}]", name))
        seen.append(name)
    return problems


# Affinity and spreading


def _affinity_problems(affinity: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    node = affinity.get("nodeAffinity")
    if node is not None:
        problems += _node_problems(node, f"{path}.nodeAffinity")
    for field in ("podAffinity", "podAntiAffinity"):
        found = affinity.get(field) or {}
        for position, term in enumerate(found.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            where = f"{path}.{field}.requiredDuringSchedulingIgnoredDuringExecution[{position}]"
            problems += _term_problems(term, where)
        for position, weighted in enumerate(found.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
            where = f"{path}.{field}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
            problems += _weight_problems(weighted, where)
            problems += _term_problems(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return problems


def _weight_problems(term: Object, path: str) -> list[FieldError]:
    weight = term.get("weight") or 0
    return [] if 1 <= weight <= 100 else [errors.invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]


def _node_problems(affinity: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    wanted = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is not None:
        problems += node_selector_problems(wanted, f"{path}.requiredDuringSchedulingIgnoredDuringExecution")
    for position, weighted in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
        problems += _weight_problems(weighted, where)
        # No node has to have what is only preferred, so that upstream lets the values be what they like.
        problems += _node_term_problems(weighted.get("preference") or {}, f"{where}.preference", values_too=False)
    return problems


def node_selector_problems(selector: Object, path: str) -> list[FieldError]:
    """What is wrong with a choice of nodes, of a pod or of a volume."""
    where, terms = f"{path}.nodeSelectorTerms", selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [errors.required(where, "must have at least one node selector term")]
    problems: list[FieldError] = []
    for position, term in enumerate(terms):
        problems += _node_term_problems(term, f"{where}[{position}]")
    return problems


def _node_term_problems(term: Object, path: str, *, values_too: bool = True) -> list[FieldError]:
    problems: list[FieldError] = []
    for position, wanted in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{position}]"
        operator, values = wanted.get("operator") or "", wanted.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            problems.append(errors.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            told = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            problems.append(errors.not_allowed(f"{where}.values", told))
        elif operator in ("Gt", "Lt") and len(values) != 1:
            told = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            problems.append(errors.required(f"{where}.values", told))
        elif operator not in _NODE_OPERATORS:
            problems.append(errors.invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        key = wanted.get("key") or ""
        problems += _names(f"{where}.key", key, qualified_name_errors(key))
        for at, value in enumerate(values if values_too else ()):
            problems += _names(f"{where}.values[{at}]", value, label_value_errors(value))
    for position, wanted in enumerate(term.get("matchFields") or ()):
        problems += _match_field_problems(wanted, f"{path}.matchFields[{position}]")
    return problems


def _match_field_problems(wanted: Object, path: str) -> list[FieldError]:
    """``ValidateNodeFieldSelectorRequirement``: nodes can be chosen by their names only."""
    problems: list[FieldError] = []
    operator, values, key = wanted.get("operator") or "", wanted.get("values") or (), wanted.get("key") or ""
    if operator not in ("In", "NotIn"):
        problems.append(errors.invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        told = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        problems.append(errors.required(f"{path}.values", told))
    if key != "metadata.name":
        return [*problems, errors.invalid_value(f"{path}.key", key, "not a valid field selector key")]
    for at, value in enumerate(values):
        problems += _names(f"{path}.values[{at}]", value, dns_subdomain_errors(value))
    return problems


def _term_problems(term: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for field in ("labelSelector", "namespaceSelector"):
        if term.get(field) is not None:
            problems += selector_problems(term[field], f"{path}.{field}")
    for name in term.get("namespaces") or ():
        problems += _names(f"{path}.namespace", name, dns_label_errors(name))
    key = term.get("topologyKey") or ""
    if not key:
        problems.append(errors.required(f"{path}.topologyKey", "can not be empty"))
    # Upstream looks at the name of an empty key, too.
    return problems + _names(f"{path}.topologyKey", key, qualified_name_errors(key))


def _spread_problems(constraints: Sequence[Object], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    seen: list[tuple[str, str]] = []
    for position, constraint in enumerate(constraints):
        where = f"{path}[{position}]"
        skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
        if skew <= 0:
            problems.append(errors.invalid_value(f"{where}.maxSkew", skew, "must be greater than zero"))
        if not key:
            problems.append(errors.required(f"{where}.topologyKey", "can not be empty"))
        else:
            problems += _names(f"{where}.topologyKey", key, qualified_name_errors(key))
        action = constraint.get("whenUnsatisfiable") or ""
        if action not in _UNSATISFIABLE:
            problems.append(errors.not_supported(f"{where}.whenUnsatisfiable", action, _UNSATISFIABLE))
        if (key, action) in seen:
            problems.append(errors.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        seen.append((key, action))
        least = constraint.get("minDomains")
        if least is not None and least <= 0:
            problems.append(errors.invalid_value(f"{where}.minDomains", least, "must be greater than zero"))
        elif least is not None and action != "DoNotSchedule":
            told = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            problems.append(errors.invalid_value(f"{where}.minDomains", least, told))
        if constraint.get("labelSelector") is not None:
            problems += selector_problems(constraint["labelSelector"], f"{where}.labelSelector")
    return problems


# Of a container


_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")


def _device_problems(container: Object, path: str, volumes: Mapping[str, bool]) -> list[FieldError]:
    """``ValidateVolumeDevices``: blocks are claimed, and are in no place where something is mounted."""
    problems: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    mounts = container.get("volumeMounts") or ()
    for position, device in enumerate(container.get("volumeDevices") or ()):
        where = f"{path}[{position}]"
        name, place = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            problems.append(errors.required(f"{where}.name"))
        if name in names:
            problems.append(errors.invalid_value(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            problems.append(errors.value_not_found(f"{where}.name", name))
        elif not volumes[name]:
            told = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            problems.append(errors.invalid_value(f"{where}.name", name, told))
        if not place:
            problems.append(errors.required(f"{where}.devicePath"))
        if place in paths:
            problems.append(errors.invalid_value(f"{where}.devicePath", place, "must be unique"))
        if ".." in place.split("/"):
            told = "can not contain backsteps ('..')"
            problems.append(errors.invalid_value(f"{where}.devicePath", place, told))
        else:
            paths.add(place)
        if any(mount.get("name") == name for mount in mounts):
            told = "must not already exist in volumeMounts"
            problems.append(errors.invalid_value(f"{where}.name", name, told))
        if any(mount.get("mountPath") == place for mount in mounts):
            told = "must not already exist as a path in volumeMounts"
            problems.append(errors.invalid_value(f"{where}.devicePath", place, told))
        if name:
            names.add(name)
    return problems


def container_problems(container: Object, path: str, volumes: Mapping[str, bool]) -> list[FieldError]:
    """What is wrong with the rarer parts of a container; ``volumes`` are the names that the pod has, each with whether
    it may be a block device."""
    problems = _device_problems(container, f"{path}.volumeDevices", volumes)
    for position, variable in enumerate(container.get("env") or ()):
        if "valueFrom" in variable:
            problems += _value_problems(variable, f"{path}.env[{position}]")
    for position, source in enumerate(container.get("envFrom") or ()):
        problems += _env_from_problems(source, f"{path}.envFrom[{position}]", f"{path}.envFrom")
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        problems.append(errors.not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    context = container.get("securityContext")
    if context:
        problems += _context_problems(context, f"{path}.securityContext")
    return problems


def _context_problems(context: Object, path: str) -> list[FieldError]:
    problems = [
        errors.invalid_value(f"{path}.{field}", context[field], _IDS)
        for field in ("runAsUser", "runAsGroup")
        if not _is_id(context.get(field))
    ]
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        told = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        problems.append(errors.invalid_value(path, context, told))
    return problems


def _value_problems(variable: Object, path: str) -> list[FieldError]:
    source = variable.get("valueFrom")
    if source is None:
        return []
    given = [field for field, found in source.items() if found is not None]
    where = f"{path}.valueFrom"
    if not given:
        told = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        return [errors.invalid_value(where, "", told)]
    if variable.get("value"):
        return [errors.invalid_value(where, "", "may not be specified when `value` is not empty")]
    if len(given) > 1:
        return [errors.invalid_value(where, "", "may not have more than one field specified at a time")]
    problems: list[FieldError] = []
    if source.get("fieldRef") is not None:
        problems += field_problems(source["fieldRef"], f"{where}.fieldRef", OF_VARIABLES)
    if source.get("resourceFieldRef") is not None:
        problems += resource_problems(source["resourceFieldRef"], f"{where}.resourceFieldRef", in_file=False)
    for field in ("configMapKeyRef", "secretKeyRef"):
        reference = source.get(field)
        if reference is not None:
            problems += [
                errors.required(f"{where}.{field}.{part}") for part in ("name", "key") if not reference.get(part)
            ]
    return problems


def _env_from_problems(source: Object, path: str, whole: str) -> list[FieldError]:
    given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
    if not given:
        return [errors.invalid_value(whole, "", "must specify one of: `configMapRef` or `secretRef`")]
    if len(given) > 1:
        return [errors.invalid_value(whole, "", "may not have more than one field specified at a time")]
    return [errors.required(f"{path}.{field}.name") for field in given if not source[field].get("name")]
