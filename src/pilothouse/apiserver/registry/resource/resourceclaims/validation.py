"""Validation of ResourceClaims, ResourceClaimTemplates and DeviceClasses.

After kubernetes' ``pkg/apis/resource/validation`` (v1.36). ``status_validation`` validates the status of claims.
"""

from collections.abc import Mapping, Set

from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import is_extended_resource_name
from pilothouse.apiserver.registry.generic.meta_validation import validate_template_object_meta
from pilothouse.apiserver.registry.resource.selectors import validate_selectors
from pilothouse.apiserver.registry.resource.validation import (
    request_names,
    validate_device_configuration,
    validate_device_toleration,
    validate_fully_qualified_name,
    validate_label,
    validate_request_references,
    validate_set,
    validate_slice,
)
from pilothouse.machinery.names import dns_subdomain_errors

_MAX_ITEMS = 32
_MAX_FIRST_AVAILABLE = 8
_MODES = ("All", "ExactCount")
_ONE_OF_REQUEST_TYPES = "exactly one of `exactly` or `firstAvailable` is required"


def validate_resource_claim_template(spec: Object) -> ErrorList:
    errors = validate_template_object_meta(spec["metadata"], "spec.metadata")
    return errors + validate_resource_claim_spec(spec["spec"].get("devices") or {}, "spec.spec.devices")


def validate_device_class(spec: Object, old: Object | None) -> ErrorList:
    """``validateDeviceClassSpec``. Unchanged selectors are not compiled again."""
    selectors = spec.get("selectors") or []
    is_unchanged = old is not None and selectors == (old.get("selectors") or [])
    errors = validate_selectors(selectors, "spec.selectors", is_unchanged=is_unchanged)
    errors += validate_slice(spec.get("config") or [], _MAX_ITEMS, "spec.config", validate_device_configuration)
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended_resource_name(name):
        errors.append(invalid("spec.extendedResourceName", name, "must be a valid extended resource name"))
    return errors


def validate_resource_claim_spec(claim: Object, path: str) -> ErrorList:
    requests = claim.get("requests") or []
    names = request_names(requests)
    errors = validate_set(
        requests, _MAX_ITEMS, f"{path}.requests", _validate_device_request, lambda request: request.get("name") or ""
    )
    errors += validate_slice(
        claim.get("constraints") or [],
        _MAX_ITEMS,
        f"{path}.constraints",
        lambda constraint, path: _validate_device_constraint(constraint, path, names),
    )
    return errors + validate_slice(
        claim.get("config") or [],
        _MAX_ITEMS,
        f"{path}.config",
        lambda config, path: (
            validate_request_references(config.get("requests") or [], f"{path}.requests", names)
            + validate_device_configuration(config, path)
        ),
    )


def _validate_device_request(request: Object, path: str) -> ErrorList:
    """``validateDeviceRequest``: exactly one of ``exactly`` and ``firstAvailable``."""
    errors = validate_label(request.get("name") or "", f"{path}.name")
    exactly, subrequests = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is not None and subrequests:
        return [*errors, invalid(path, None, f"{_ONE_OF_REQUEST_TYPES}, but multiple fields are set")]
    if exactly is not None:
        return errors + _validate_device_sub_request(exactly, f"{path}.exactly")
    if not subrequests:
        return [*errors, required(path, _ONE_OF_REQUEST_TYPES)]
    return errors + validate_set(
        subrequests,
        _MAX_FIRST_AVAILABLE,
        f"{path}.firstAvailable",
        lambda subrequest, path: (
            validate_label(subrequest.get("name") or "", f"{path}.name")
            + _validate_device_sub_request(subrequest, path)
        ),
        lambda subrequest: subrequest.get("name") or "",
    )


def _validate_device_sub_request(request: Object, path: str) -> ErrorList:
    class_name, child_path = request.get("deviceClassName") or "", f"{path}.deviceClassName"
    errors = [] if class_name else [required(child_path)]
    if class_name:
        errors += [invalid(child_path, class_name, msg) for msg in dns_subdomain_errors(class_name)]
    errors += validate_selectors(request.get("selectors") or [], f"{path}.selectors")
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        errors.append(invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    for position, toleration in enumerate(request.get("tolerations") or ()):
        errors += validate_device_toleration(toleration, f"{path}.tolerations[{position}]")
    return errors


def _validate_device_constraint(constraint: Object, path: str, names: Mapping[str, Set[str]]) -> ErrorList:
    errors = validate_request_references(constraint.get("requests") or [], f"{path}.requests", names)
    for field in ("matchAttribute", "distinctAttribute"):
        if constraint.get(field) is not None:
            return errors + validate_fully_qualified_name(constraint[field], f"{path}.{field}")
    # Upstream's message, although no field is set.
    detail = 'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
    return [*errors, required(path, detail)]
