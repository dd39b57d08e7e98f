"""Validation of ResourceQuotas. After kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36)."""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, of_named_type, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import (
    is_quota_huge_page_resource_name,
    resource_name_errors,
    validate_resource_quantity,
)
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE

_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)


def validate_resource_quota(obj: Object) -> ErrorList:
    errors = _validate_resource_quota_list(obj["spec"].get("hard"), "spec.hard")
    scopes = obj["spec"].get("scopes") or []
    errors += _validate_resource_quota_scopes(obj["spec"], scopes)
    return errors


def validate_resource_quota_update(obj: Object, old: Object) -> ErrorList:
    scopes = obj["spec"].get("scopes")
    if set(scopes or ()) == set(old["spec"].get("scopes") or ()):
        return []
    return [invalid("spec.scopes", scopes, IMMUTABLE)]


def validate_resource_quota_status_update(obj: Object, old: Object) -> ErrorList:
    status = obj.get("status") or {}
    return [
        error
        for field in ("hard", "used")
        for error in _validate_resource_quota_list(status.get(field), f"status.{field}")
    ]


def _validate_resource_quota_list(quantities: Object | None, path: str) -> ErrorList:
    errors: ErrorList = []
    for name, quantity in (quantities or {}).items():
        errors += _validate_resource_quota_resource_name(name, f"{path}[{name}]") + validate_resource_quantity(
            name, quantity, f"{path}[{name}]"
        )
    return errors


_SCOPE_RESOURCES = {"BestEffort": ("pods",), "VolumeAttributesClass": ("persistentvolumeclaims", "requests.storage")}
_POD_COMPUTE_RESOURCES = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")


def _validate_resource_quota_scopes(spec: Object, scopes: list[str]) -> ErrorList:
    errors: ErrorList = []
    counts = {scope: _count_unsupported_resources(spec, scope) for scope in _SCOPES}
    # The messages have all scopes, and are created once.
    if any(scope not in _SCOPES or counts[scope] for scope in scopes):
        invalid_scope = invalid("spec.scopes", scopes, "unsupported scope")
        invalid_for_resources = invalid("spec.scopes", scopes, _UNSUPPORTED_SCOPE)
        for scope in scopes:
            errors += [invalid_for_resources] * counts[scope] if scope in _SCOPES else [invalid_scope]
            if len(errors) > _MAX_ERRORS:
                return errors
    errors += _conflicts(scopes, "spec.scopes", scopes)
    selector: Object = spec.get("scopeSelector") or {}
    path = "spec.scopeSelector.matchExpressions"
    selected_scopes = []
    unsupported_scope_errors: ErrorList = []  # created once, on demand: its message has all scopes
    for term in selector.get("matchExpressions") or ():
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", of_named_type(scope), "unsupported scope"))
        if len(errors) > _MAX_ERRORS:
            return errors
        if count := counts.get(scope, 0):
            if not unsupported_scope_errors:
                unsupported_scope_errors = [
                    invalid(path, internal_value("*core.ScopeSelector", selector), _UNSUPPORTED_SCOPE)
                ]
            errors += unsupported_scope_errors * count
        if scope in _EXISTS_ONLY_SCOPES and operator != "Exists":
            errors.append(invalid(f"{path}.operator", of_named_type(operator), _EXISTS_ONLY_TEXT))
        if operator in ("In", "NotIn"):
            if not values:
                errors.append(required(f"{path}.values", _VALUES_REQUIRED))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                errors.append(invalid(f"{path}.values", values, _VALUES_FORBIDDEN))
        else:
            errors.append(invalid(f"{path}.operator", of_named_type(operator), "not a valid selector operator"))
        selected_scopes.append(scope)
    # As upstream, with ``spec.scopes`` as value.
    return errors + _conflicts(selected_scopes, path, spec.get("scopes"))


_EXISTS_ONLY_SCOPES = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_EXISTS_ONLY_TEXT = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_VALUES_REQUIRED = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
_VALUES_FORBIDDEN = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"


_UNSUPPORTED_SCOPE = "unsupported scope applied to resource"
_MAX_ERRORS = 10_000
"""There may be one for each pair of a scope and a resource."""


def _count_unsupported_resources(spec: Object, scope: str) -> int:
    """The number of resources in ``hard`` that the scope does not support
    (``IsResourceQuotaScopeValidForResource``)."""
    supported = _SCOPE_RESOURCES.get(scope, ("pods", *_POD_COMPUTE_RESOURCES))
    return sum(
        _is_standard_quota_resource(name) and name not in supported and scope in _SCOPES
        for name in spec.get("hard") or {}
    )


def _conflicts(scopes: list[str], path: str, bad_value: object) -> ErrorList:
    return [
        invalid(path, bad_value, "conflicting scopes")
        for pair in (("BestEffort", "NotBestEffort"), ("NotTerminating", "Terminating"))
        if all(scope in scopes for scope in pair)
    ]


_STANDARD_QUOTA_RESOURCES = frozenset(
    (
        *("cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage"),
        *("requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage", "pods"),
        *("resourcequotas", "services", "replicationcontrollers", "secrets", "persistentvolumeclaims", "configmaps"),
        *("services.nodeports", "services.loadbalancers"),
    )
)


def _is_standard_quota_resource(name: str) -> bool:
    return name in _STANDARD_QUOTA_RESOURCES or is_quota_huge_page_resource_name(name)


def _validate_resource_quota_resource_name(name: str, path: str) -> ErrorList:
    """``ValidateResourceQuotaResourceName``: names without a domain must be standard quota resources."""
    msgs = resource_name_errors(name)
    if "/" not in name and not _is_standard_quota_resource(name):
        msgs = [*msgs, "must be a standard resource for quota"]
    return [invalid(path, name, msg) for msg in msgs]
