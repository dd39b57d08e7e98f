"""Which requests webhooks and policies are asked about: rules, and what else they match by.

After ``validateRuleWithOperations`` and ``validateMatchResources`` in kubernetes'
``pkg/apis/admissionregistration/validation/validation.go`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.filling import child, fill
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.machinery.names import path_segment_errors

MATCH = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_OF_MUTATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def default_rules(rules: Sequence[Object] | None) -> None:
    """A rule is about both kinds of resources."""
    for rule in rules or ():
        fill(rule, {"scope": "*"})


def default_matched(matched: Object) -> None:
    """What is not said matches all."""
    child(matched, "namespaceSelector")
    child(matched, "objectSelector")
    fill(matched, {"matchPolicy": "Equivalent"})
    default_rules(matched.get("resourceRules"))
    default_rules(matched.get("excludeResourceRules"))


def rule_problems(rule: Object, path: str) -> list[FieldError]:
    """What is wrong with a rule with operations."""
    operations = rule.get("operations") or []
    problems = [] if operations else [errors.required(f"{path}.operations")]
    problems += _alone(operations, f"{path}.operations", "operations")
    problems += [
        errors.not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS)
        for position, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    for field, called in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values, where = rule.get(field) or [], f"{path}.{field}"
        problems += [] if values else [errors.required(where)]
        problems += _alone(values, where, called)
        if field == "apiVersions":
            # A group may be "", a version may not.
            problems += [errors.required(f"{where}[{at}]") for at, value in enumerate(values) if not value]
    problems += _resource_problems(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") not in _SCOPES:
        problems.append(errors.not_supported(f"{path}.scope", rule.get("scope"), _SCOPES))
    return problems


def _alone(values: list[str], path: str, called: str) -> list[FieldError]:
    """A star says all, so that nothing else is said beside it."""
    if len(values) < 2 or "*" not in values:
        return []
    return [errors.invalid_value(path, values, f"if '*' is present, must not specify other {called}")]


def _resource_problems(resources: list[str], path: str) -> list[FieldError]:
    """``pods``, ``pods/*``, ``*/scale``, ``*`` (no subresources) or ``*/*``, none of which another one covers."""
    problems = [] if resources else [errors.required(path)]
    whole, everywhere = set[str](), set[str]()
    is_plain = False
    for position, text in enumerate(resources):
        where = f"{path}[{position}]"
        if not text:
            problems.append(errors.required(where))
            continue
        resource, slash, part = text.partition("/")
        if not slash:
            is_plain = text != "*"  # as upstream has it: the last one without a subresource counts
            continue
        for covers, form in ((resource in whole, f"{resource}/*"), (part in everywhere, f"*/{part}")):
            if covers:
                problems.append(errors.invalid_value(where, text, f"if '{form}' is present, must not specify {text}"))
        if part == "*":
            whole.add(resource)
        if resource == "*":
            everywhere.add(part)
    if len(resources) > 1 and "*/*" in resources:
        text = "if '*/*' is present, must not specify other resources"
        problems.append(errors.invalid_value(path, resources, text))
    if "*" in resources and is_plain:
        text = "if '*' is present, must not specify other resources without subresources"
        problems.append(errors.invalid_value(path, resources, text))
    return problems


def matched_problems(matched: Object, path: str) -> list[FieldError]:
    """What is wrong with the requests that a policy or a binding of one matches."""
    problems: list[FieldError] = []
    if matched.get("matchPolicy") not in MATCH:
        problems.append(errors.not_supported(f"{path}.matchPolicy", matched.get("matchPolicy"), MATCH))
    for field in ("namespaceSelector", "objectSelector"):
        problems += selector_problems(matched.get(field) or {}, f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(matched.get(field) or ()):
            where = f"{path}.{field}[{position}]"
            problems += _name_problems(rule.get("resourceNames") or (), f"{where}.resourceNames")
            problems += rule_problems(rule, where)
    return problems


def _name_problems(names: Sequence[str], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for position, name in enumerate(names):
        where = f"{path}[{position}]"
        problems += [errors.invalid_value(where, name, text) for text in path_segment_errors(name)]
        if name in names[:position]:
            problems.append(errors.duplicate(where, name))
    return problems


def mutable_problems(matched: Object, path: str) -> list[FieldError]:
    """Of what a mutating policy matches: nothing that is deleted can be mutated."""
    return [
        errors.not_supported(f"{path}.resourceRules.operations", operation, _OF_MUTATIONS)
        for rule in matched.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _OF_MUTATIONS
    ]
