"""Affinity of pods and nodes, and how pods are spread.

After ``validateAffinity``, ``ValidateNodeSelector``, ``validateTopologySpreadConstraints`` and what they call in
kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36). ``pod_rules`` calls them; volumes choose nodes, too.
"""

from collections.abc import Iterable, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.label_keys import label_key_problems
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, label_value_errors, qualified_name_errors

_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES = ("Honor", "Ignore")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_POSITIVE = "must be greater than zero"


def _names(field: str, value: str, told: Iterable[str]) -> list[FieldError]:
    return [errors.invalid_value(field, value, text) for text in told]


def affinity_problems(affinity: Object, path: str) -> list[FieldError]:
    """What is wrong with the affinity of a pod."""
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
    problems += label_key_problems(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        problems.append(errors.required(f"{path}.topologyKey", "can not be empty"))
    # Upstream looks at the name of an empty key, too.
    return problems + _names(f"{path}.topologyKey", key, qualified_name_errors(key))


def spread_problems(constraints: Sequence[Object], path: str) -> list[FieldError]:
    """What is wrong with how the pods like this one are spread."""
    problems: list[FieldError] = []
    kinds = [(each.get("topologyKey") or "", each.get("whenUnsatisfiable") or "") for each in constraints]
    for position, constraint in enumerate(constraints):
        where = f"{path}[{position}]"
        skew, (key, action) = constraint.get("maxSkew") or 0, kinds[position]
        if skew <= 0:
            problems.append(errors.invalid_value(f"{where}.maxSkew", skew, _POSITIVE))
        if not key:
            problems.append(errors.required(f"{where}.topologyKey", "can not be empty"))
        if action not in _UNSATISFIABLE:
            problems.append(errors.not_supported(f"{where}.whenUnsatisfiable", action, _UNSATISFIABLE))
        # Of two that are the same, the one is named that has another after it.
        if (key, action) in kinds[position + 1 :]:
            problems.append(errors.duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        least = constraint.get("minDomains")
        if least is not None and least <= 0:
            problems.append(errors.invalid_value(f"{where}.minDomains", least, _POSITIVE))
        if least is not None and action != "DoNotSchedule":
            told = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            problems.append(errors.invalid_value(f"{where}.minDomains", least, told))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in _NODE_POLICIES:
                problems.append(errors.not_supported(f"{where}.{field}", policy, _NODE_POLICIES))
        problems += label_key_problems(constraint, where)
        if constraint.get("labelSelector") is not None:
            problems += selector_problems(constraint["labelSelector"], f"{where}.labelSelector")
    return problems
