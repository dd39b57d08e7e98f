"""Validation of FlowSchemas. After kubernetes' ``pkg/apis/flowcontrol/validation/validation.go`` (v1.36)."""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, forbidden, internal_value, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.flowcontrol.validation import mandatory_specs
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors

_MAX_MATCHING_PRECEDENCE = 10000
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}


def validate_flow_schema(obj: Object) -> ErrorList:
    spec, name = obj["spec"], obj["metadata"].get("name") or ""
    errors = _validate_matching_precedence(spec["matchingPrecedence"], name)
    method, level = spec.get("distinguisherMethod"), (spec.get("priorityLevelConfiguration") or {}).get("name")
    if method is not None and method.get("type") not in _METHODS:
        bad_value = internal_value("*flowcontrol.FlowDistinguisherMethod", method)
        errors.append(not_supported("spec.distinguisherMethod.type", bad_value, _METHODS))
    path = "spec.priorityLevelConfiguration.name"
    if not level:
        errors.append(required(path, "must reference a priority level"))
    else:
        errors += [invalid(path, level, msg) for msg in dns_subdomain_errors(level)]
    for position, rule in enumerate(spec.get("rules") or ()):
        errors += _validate_policy_rules_with_subjects(rule, f"spec.rules[{position}]")
    mandatory_spec = mandatory_specs().get(f"flowschemas/{name}")
    if mandatory_spec is not None and spec != mandatory_spec:
        detail = f"spec of '{name}' must equal the fixed value"
        errors.append(invalid("spec", internal_value("flowcontrol.FlowSchemaSpec", spec), detail))
    return errors


# FlowSchemas ---------------------------------------------------------------------------------------------------------


def _validate_matching_precedence(precedence: int, name: str) -> ErrorList:
    violations = {
        "must be a positive value": precedence <= 0,
        f"must not be greater than {_MAX_MATCHING_PRECEDENCE}": precedence > _MAX_MATCHING_PRECEDENCE,
        "only the schema named 'exempt' may have matchingPrecedence 1": precedence == 1 and name != "exempt",
    }
    return [
        invalid("spec.matchingPrecedence", precedence, detail)
        for detail, is_violated in violations.items()
        if is_violated
    ]


def _validate_policy_rules_with_subjects(rule: Object, path: str) -> ErrorList:
    subjects, resource_rules, non_resource_rules = (
        rule.get(field) or () for field in ("subjects", "resourceRules", "nonResourceRules")
    )
    errors: ErrorList = []
    for position, subject in enumerate(subjects):
        errors += _validate_subject(subject, f"{path}.subjects[{position}]")
    if not subjects:
        errors.append(required(f"{path}.subjects", "subjects must contain at least one value"))
    if not resource_rules and not non_resource_rules:
        errors.append(required(path, "at least one of resourceRules and nonResourceRules has to be non-empty"))
    for position, resource_rule in enumerate(resource_rules):
        errors += _validate_resource_policy_rule(resource_rule, f"{path}.resourceRules[{position}]")
    for position, non_resource_rule in enumerate(non_resource_rules):
        errors += _validate_non_resource_policy_rule(non_resource_rule, f"{path}.nonResourceRules[{position}]")
    return errors


def _validate_subject(subject: Object, path: str) -> ErrorList:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        return [not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))]
    field = _SUBJECTS[kind]
    child_path, value = f"{path}.{field}", subject.get(field)
    errors: ErrorList = []
    if value is None:
        errors.append(required(child_path, f"{field} is required when subject kind is '{kind}'"))
    elif not value.get("name"):
        errors.append(required(f"{child_path}.name"))
    if value is not None and kind == "ServiceAccount":
        errors += _validate_service_account_subject(value, child_path)
    for other_field in ("serviceAccount", "user", "group"):
        if other_field != field and subject.get(other_field) is not None:
            other_kind = next(name for name, subject_field in _SUBJECTS.items() if subject_field == other_field)
            errors.append(
                forbidden(
                    f"{path}.{other_field}", f"{other_field} is forbidden when subject kind is not '{other_kind}'"
                )
            )
    return errors


def _validate_service_account_subject(account: Object, path: str) -> ErrorList:
    name, namespace = account.get("name") or "", account.get("namespace") or ""
    errors: ErrorList = []
    if name not in ("", "*"):
        errors += [invalid(f"{path}.name", name, msg) for msg in dns_subdomain_errors(name)]
    child_path = f"{path}.namespace"
    if not namespace:
        return [*errors, required(child_path, "must specify namespace for service account")]
    return errors + [invalid(child_path, namespace, msg) for msg in dns_label_errors(namespace)]


def _validate_wildcard(values: Sequence[str], path: str, noun: str) -> ErrorList:
    if "*" not in values or len(values) < 2:
        return []
    return [invalid(path, list(values), f"if '*' is present, must not specify other {noun}")]


def _validate_verb(verbs: Sequence[str], path: str) -> ErrorList:
    if not verbs:
        return [required(path, "verbs must contain at least one value")]
    if "*" in verbs:
        return _validate_wildcard(verbs, path, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [not_supported(path, list(verbs), _VERBS)]


def _validate_resource_policy_rule(rule: Object, path: str) -> ErrorList:
    errors = _validate_verb(rule.get("verbs") or (), f"{path}.verbs")
    for field, noun, singular in (
        ("apiGroups", "api groups", "api group"),
        ("resources", "resources", "resource"),
    ):
        values, child_path = rule.get(field) or (), f"{path}.{field}"
        if not values:
            errors.append(required(child_path, f"resource rules must supply at least one {singular}"))
        errors += _validate_wildcard(values, child_path, noun)
    namespaces, child_path = rule.get("namespaces") or (), f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(required(child_path, detail))
    elif "*" in namespaces:
        errors += _validate_wildcard(namespaces, child_path, "namespaces")
    else:
        prefix = "each member of this list must be '*' or a DNS-1123 label; "
        errors += [
            invalid(f"{child_path}[{position}]", namespace, prefix + msg)
            for position, namespace in enumerate(namespaces)
            for msg in dns_label_errors(namespace)
        ]
    return errors


def _validate_non_resource_policy_rule(rule: Object, path: str) -> ErrorList:
    errors = _validate_verb(rule.get("verbs") or (), f"{path}.verbs")
    urls, child_path = rule.get("nonResourceURLs") or (), f"{path}.nonResourceURLs"
    if not urls:
        errors.append(required(child_path, "nonResourceURLs must contain at least one value"))
    elif "*" in urls:
        errors += _validate_wildcard(urls, child_path, "non-resource URLs")
    else:
        for position, url in enumerate(urls):
            detail = _url_error(url)
            errors += [invalid(f"{child_path}[{position}]", url, detail)] if detail else []
    return errors


def _url_error(url: str) -> str:
    stars = url.count("*")
    rules = (
        (not url, "must not be empty"),
        (not url.startswith("/"), "must start with slash"),
        (" " in url, "must not contain white-space"),
        ("//" in url, "must not contain double slash"),
        (stars > 1 or (stars == 1 and not url.endswith("/*")), "wildcard can only do suffix matching"),
    )
    return next((detail for is_violated, detail in rules if is_violated), "")
