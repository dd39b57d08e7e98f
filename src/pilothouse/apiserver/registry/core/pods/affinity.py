"""Validation of affinity, node selectors and topology spread constraints.

After ``validateAffinity``, ``ValidateNodeSelector``, ``validateTopologySpreadConstraints`` and the functions they call
in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    all_invalid,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    of_named_type,
    required,
)
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.label_keys import validate_label_keys
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, label_value_errors, qualified_name_errors

_UNSATISFIABLE_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES = ("Honor", "Ignore")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_POSITIVE = "must be greater than zero"


def validate_affinity(affinity: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    node = affinity.get("nodeAffinity")
    if node is not None:
        errors += _validate_node_affinity(node, f"{path}.nodeAffinity")
    for field in ("podAffinity", "podAntiAffinity"):
        pod_affinity = affinity.get(field) or {}
        for position, term in enumerate(pod_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()):
            child_path = f"{path}.{field}.requiredDuringSchedulingIgnoredDuringExecution[{position}]"
            errors += _validate_pod_affinity_term(term, child_path)
        for position, weighted_term in enumerate(
            pod_affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        ):
            child_path = f"{path}.{field}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
            errors += _validate_weight(weighted_term, child_path)
            errors += _validate_pod_affinity_term(
                weighted_term.get("podAffinityTerm") or {}, f"{child_path}.podAffinityTerm"
            )
    return errors


def _validate_weight(term: Object, path: str) -> ErrorList:
    weight = term.get("weight") or 0
    return [] if 1 <= weight <= 100 else [invalid(f"{path}.weight", weight, "must be in the range 1-100")]


def _validate_node_affinity(affinity: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    node_selector = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if node_selector is not None:
        errors += validate_node_selector(node_selector, f"{path}.requiredDuringSchedulingIgnoredDuringExecution")
    for position, preferred_term in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        child_path = f"{path}.preferredDuringSchedulingIgnoredDuringExecution[{position}]"
        errors += _validate_weight(preferred_term, child_path)
        # Upstream does not validate the values of preferred terms.
        errors += _validate_node_selector_term(
            preferred_term.get("preference") or {}, f"{child_path}.preference", validate_values=False
        )
    return errors


def validate_node_selector(selector: Object, path: str) -> ErrorList:
    child_path, terms = f"{path}.nodeSelectorTerms", selector.get("nodeSelectorTerms") or ()
    if not terms:
        return [required(child_path, "must have at least one node selector term")]
    errors: ErrorList = []
    for position, term in enumerate(terms):
        errors += _validate_node_selector_term(term, f"{child_path}[{position}]")
    return errors


def _validate_node_selector_term(term: Object, path: str, *, validate_values: bool = True) -> ErrorList:
    errors: ErrorList = []
    for position, requirement in enumerate(term.get("matchExpressions") or ()):
        child_path = f"{path}.matchExpressions[{position}]"
        operator, values = requirement.get("operator") or "", requirement.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            errors.append(required(f"{child_path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{child_path}.values", detail))
        elif operator in ("Gt", "Lt") and len(values) != 1:
            errors.append(
                required(f"{child_path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
            )
        elif operator not in _NODE_OPERATORS:
            errors.append(invalid(f"{child_path}.operator", of_named_type(operator), "not a valid selector operator"))
        key = requirement.get("key") or ""
        errors += all_invalid(f"{child_path}.key", key, qualified_name_errors(key))
        for index, value in enumerate(values if validate_values else ()):
            errors += all_invalid(f"{child_path}.values[{index}]", value, label_value_errors(value))
    for position, requirement in enumerate(term.get("matchFields") or ()):
        errors += _validate_node_field_selector_requirement(requirement, f"{path}.matchFields[{position}]")
    return errors


def _validate_node_field_selector_requirement(requirement: Object, path: str) -> ErrorList:
    """``ValidateNodeFieldSelectorRequirement``: the only field is ``metadata.name``."""
    errors: ErrorList = []
    operator, values, key = (
        requirement.get("operator") or "",
        requirement.get("values") or (),
        requirement.get("key") or "",
    )
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", of_named_type(operator), "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", detail))
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += all_invalid(f"{path}.values[{index}]", value, dns_subdomain_errors(value))
    return errors


def _validate_pod_affinity_term(term: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    for field in ("labelSelector", "namespaceSelector"):
        if term.get(field) is not None:
            errors += validate_label_selector(term[field], f"{path}.{field}")
    for name in term.get("namespaces") or ():
        errors += all_invalid(f"{path}.namespace", name, dns_label_errors(name))
    errors += validate_label_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    # Upstream also validates an empty key.
    return errors + all_invalid(f"{path}.topologyKey", key, qualified_name_errors(key))


def validate_topology_spread_constraints(constraints: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    keys = [(c.get("topologyKey") or "", c.get("whenUnsatisfiable") or "") for c in constraints]
    last = {pair: position for position, pair in enumerate(keys)}
    for position, constraint in enumerate(constraints):
        child_path = f"{path}[{position}]"
        max_skew, (key, action) = constraint.get("maxSkew") or 0, keys[position]
        if max_skew <= 0:
            errors.append(invalid(f"{child_path}.maxSkew", max_skew, _POSITIVE))
        if not key:
            errors.append(required(f"{child_path}.topologyKey", "can not be empty"))
        if action not in _UNSATISFIABLE_ACTIONS:
            errors.append(not_supported(f"{child_path}.whenUnsatisfiable", action, _UNSATISFIABLE_ACTIONS))
        # Upstream reports the first of two duplicates.
        if last[key, action] > position:
            errors.append(duplicate(f"{child_path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
        min_domains = constraint.get("minDomains")
        if min_domains is not None and min_domains <= 0:
            errors.append(invalid(f"{child_path}.minDomains", min_domains, _POSITIVE))
        if min_domains is not None and action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.append(invalid(f"{child_path}.minDomains", min_domains, detail))
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in _NODE_POLICIES:
                errors.append(not_supported(f"{child_path}.{field}", policy, _NODE_POLICIES))
        errors += validate_label_keys(constraint, child_path)
        if constraint.get("labelSelector") is not None:
            errors += validate_label_selector(constraint["labelSelector"], f"{child_path}.labelSelector")
    return errors
