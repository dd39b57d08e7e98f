"""Defaults and validation of the rules and match resources of webhooks and policies.

After ``validateRuleWithOperations`` and ``validateMatchResources`` in kubernetes'
``pkg/apis/admissionregistration/validation/validation.go`` (v1.36).
"""

from collections.abc import Iterator, Sequence

from pilothouse.apiserver.field_errors import ErrorList, duplicate, invalid, not_supported, repeated, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.machinery.names import path_segment_errors

MATCH_POLICIES = ("Equivalent", "Exact")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTATION_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_STATIC_SUFFIX = ".static.k8s.io"


def set_defaults_rules(rules: Sequence[Object] | None) -> None:
    """The default scope includes namespaced and cluster-scoped resources."""
    for rule in rules or ():
        set_default_fields(rule, {"scope": "*"})


def set_defaults_match_resources(match_resources: Object) -> None:
    """``SetDefaults_MatchResources``: missing selectors match everything."""
    ensure_object(match_resources, "namespaceSelector")
    ensure_object(match_resources, "objectSelector")
    set_default_fields(match_resources, {"matchPolicy": "Equivalent"})
    set_defaults_rules(match_resources.get("resourceRules"))
    set_defaults_rules(match_resources.get("excludeResourceRules"))


def validate_rule_with_operations(rule: Object, path: str) -> ErrorList:
    operations = rule.get("operations") or []
    errors = [] if operations else [required(f"{path}.operations")]
    errors += _validate_wildcard(operations, f"{path}.operations", "operations")
    errors += [
        not_supported(f"{path}.operations[{position}]", operation, _OPERATIONS)
        for position, operation in enumerate(operations)
        if operation not in _OPERATIONS
    ]
    for field, noun in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values, child_path = rule.get(field) or [], f"{path}.{field}"
        errors += [] if values else [required(child_path)]
        errors += _validate_wildcard(values, child_path, noun)
        if field == "apiVersions":
            # A group may be "", a version may not.
            errors += [required(f"{child_path}[{index}]") for index, value in enumerate(values) if not value]
    errors += _validate_resources(rule.get("resources") or [], f"{path}.resources")
    if rule.get("scope") not in _SCOPES:
        errors.append(not_supported(f"{path}.scope", rule.get("scope"), _SCOPES))
    return errors


def _validate_wildcard(values: list[str], path: str, noun: str) -> ErrorList:
    """``*`` must be the only value. ``noun``: the noun in the message."""
    if len(values) < 2 or "*" not in values:
        return []
    return [invalid(path, values, f"if '*' is present, must not specify other {noun}")]


def _validate_resources(resources: list[str], path: str) -> ErrorList:
    """``validateResources``: ``pods``, ``pods/*``, ``*/scale``, ``*`` (no subresources) or ``*/*``; none may include
    another one."""
    errors = [] if resources else [required(path)]
    resources_with_all_subresources, subresources_of_all_resources = set[str](), set[str]()
    has_plain_resource = False
    for position, res_sub in enumerate(resources):
        child_path = f"{path}[{position}]"
        if not res_sub:
            errors.append(required(child_path))
            continue
        resource, slash, subresource = res_sub.partition("/")
        if not slash:
            has_plain_resource = res_sub != "*"  # as upstream, only the last entry without a subresource counts
            continue
        for is_included, pattern in (
            (resource in resources_with_all_subresources, f"{resource}/*"),
            (subresource in subresources_of_all_resources, f"*/{subresource}"),
        ):
            if is_included:
                errors.append(invalid(child_path, res_sub, f"if '{pattern}' is present, must not specify {res_sub}"))
        if subresource == "*":
            resources_with_all_subresources.add(resource)
        if resource == "*":
            subresources_of_all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and has_plain_resource:
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))
    return errors


def validate_match_resources(match_resources: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    if match_resources.get("matchPolicy") not in MATCH_POLICIES:
        errors.append(not_supported(f"{path}.matchPolicy", match_resources.get("matchPolicy"), MATCH_POLICIES))
    for field in ("namespaceSelector", "objectSelector"):
        errors += validate_label_selector(match_resources.get(field) or {}, f"{path}.{field}")
    for field in ("resourceRules", "excludeResourceRules"):
        for position, rule in enumerate(match_resources.get(field) or ()):
            child_path = f"{path}.{field}[{position}]"
            errors += _validate_resource_names(rule.get("resourceNames") or (), f"{child_path}.resourceNames")
            errors += validate_rule_with_operations(rule, child_path)
    return errors


def _validate_resource_names(names: Sequence[str], path: str) -> ErrorList:
    errors: ErrorList = []
    repeated_names = repeated(names)
    for position, name in enumerate(names):
        child_path = f"{path}[{position}]"
        errors += [invalid(child_path, name, msg) for msg in path_segment_errors(name)]
        if position in repeated_names:
            errors.append(duplicate(child_path, name))
    return errors


def validate_mutation_operations(match_resources: Object, path: str) -> ErrorList:
    """A mutating policy cannot match the operation DELETE."""
    return [
        not_supported(f"{path}.resourceRules.operations", operation, _MUTATION_OPERATIONS)
        for rule in match_resources.get("resourceRules") or ()
        for operation in rule.get("operations") or ()
        if operation not in _MUTATION_OPERATIONS
    ]


FAILURE_POLICIES = ("Fail", "Ignore")
REINVOCATION_POLICIES = ("IfNeeded", "Never")


def warnings_for_static_suffix(name: str) -> Iterator[str]:
    """``WarningsForStaticSuffix``: the gate ManifestBasedAdmissionControlConfig, which makes it an error, is off."""
    if name.endswith(_STATIC_SUFFIX):
        message = "reserved for static manifest-based configurations and cannot be managed via the API"
        yield f'metadata.name: names ending with "{_STATIC_SUFFIX}" are {message}'
