"""Labels, annotations, label selectors, conditions and domain-prefixed names inside objects: validation.

After apimachinery's ``pkg/apis/meta/v1/validation``, ``pkg/api/validation/objectmeta.go`` and ``pkg/util/validation``
(v0.36).
"""

import re
from collections.abc import Mapping, Sequence

from pilothouse.apiserver.field_errors import (
    ErrorList,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    of_named_type,
    required,
    too_long,
)
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.bounded_cache import bounded_cache
from pilothouse.machinery.names import (
    MAX_CONDITION_REASON,
    condition_reason_errors,
    dns_subdomain_errors,
    label_value_errors,
    qualified_name_errors,
)

_PATH_FORMAT = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_FORBIDDEN_IN_TEMPLATES = (
    *("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences", "finalizers", "managedFields"),
)
_PATH = re.compile(_PATH_FORMAT)
_INVALID_PATH = f"Invalid path (regex used for validation is '{_PATH_FORMAT}')"


def validate_domain_prefixed_path(value: str, path: str) -> ErrorList:
    if not value:
        return [required(path)]
    host, _slash, url_path = value.partition("/")
    if not host or not url_path:
        return [invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, host, msg) for msg in dns_subdomain_errors(host)]
    if not _PATH.fullmatch(url_path):
        errors.append(invalid(path, url_path, _INVALID_PATH))
    return errors


MAX_ANNOTATIONS_SIZE = 256 * 1024
_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")


@bounded_cache(4096, max_length=512)
def _label_errors(key: str, value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(qualified_name_errors(key)), tuple(label_value_errors(value))


def validate_labels(labels: Mapping[str, str], path: str) -> ErrorList:
    errors: ErrorList = []
    for key, value in labels.items():
        key_errors, value_errors = _label_errors(key, value)
        errors += [invalid(path, key, msg) for msg in key_errors]
        errors += [invalid(path, value, msg) for msg in value_errors]
    return errors


def validate_annotations(annotations: Mapping[str, str], path: str) -> ErrorList:
    errors: ErrorList = []
    size = 0
    for key, value in annotations.items():
        errors += [invalid(path, key, msg) for msg in qualified_name_errors(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > MAX_ANNOTATIONS_SIZE:
        errors.append(too_long(path, MAX_ANNOTATIONS_SIZE))
    return errors


def validate_label_selector(selector: Object, path: str) -> ErrorList:
    errors = validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for position, expression in enumerate(selector.get("matchExpressions") or ()):
        child_path = f"{path}.matchExpressions[{position}]"
        operator, values = expression.get("operator") or "", expression.get("values") or []
        if operator in ("In", "NotIn") and not values:
            errors.append(required(f"{child_path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            errors.append(
                forbidden(f"{child_path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
        elif operator not in _OPERATORS:
            errors.append(invalid(f"{child_path}.operator", of_named_type(operator), "not a valid selector operator"))
        errors += [
            invalid(f"{child_path}.key", expression.get("key") or "", msg)
            for msg in qualified_name_errors(expression.get("key") or "")
        ]
        for index, value in enumerate(values):
            errors += [invalid(f"{child_path}.values[{index}]", value, msg) for msg in label_value_errors(value)]
    return errors


_STATUSES = ("False", "True", "Unknown")
_MAX_MESSAGE = 32768


def validate_conditions(conditions: Sequence[Object], path: str) -> ErrorList:
    """``ValidateConditions`` (apimachinery ``pkg/apis/meta/v1/validation``, v0.36)."""
    errors: ErrorList = []
    condition_types: set[str] = set()
    for position, condition in enumerate(conditions):
        child_path = f"{path}[{position}]"
        type_, reason = condition.get("type") or "", condition.get("reason") or ""
        if type_ in condition_types:
            errors.append(duplicate(f"{child_path}.type", type_))
        condition_types.add(type_)
        errors += [invalid(f"{child_path}.type", type_, msg) for msg in qualified_name_errors(type_)]
        if condition.get("status") not in _STATUSES:
            errors.append(not_supported(f"{child_path}.status", condition.get("status") or "", _STATUSES))
        observed_generation = condition.get("observedGeneration") or 0
        if observed_generation < 0:
            errors.append(
                invalid(
                    f"{child_path}.observedGeneration", observed_generation, "must be greater than or equal to zero"
                )
            )
        if not condition.get("lastTransitionTime"):
            errors.append(required(f"{child_path}.lastTransitionTime"))
        if not reason:
            errors.append(required(f"{child_path}.reason"))
        errors += [invalid(f"{child_path}.reason", reason, msg) for msg in condition_reason_errors(reason) if reason]
        errors += [
            too_long(f"{child_path}.{field}", limit)
            for field, limit in (("reason", MAX_CONDITION_REASON), ("message", _MAX_MESSAGE))
            if len((condition.get(field) or "").encode()) > limit
        ]
    return errors


def validate_template_object_meta(meta: Object, path: str) -> ErrorList:
    """The errors in the metadata of a template for objects, which has labels and annotations only
    (``ValidateTemplateObjectMeta``)."""
    errors = validate_annotations(meta.get("annotations") or {}, f"{path}.annotations")
    errors += validate_labels(meta.get("labels") or {}, f"{path}.labels")
    return errors + [
        forbidden(f"{path}.{'uID' if field == 'uid' else field}", "cannot be set")  # upstream derives it from Go's UID
        for field in _FORBIDDEN_IN_TEMPLATES
        if meta.get(field)
    ]
