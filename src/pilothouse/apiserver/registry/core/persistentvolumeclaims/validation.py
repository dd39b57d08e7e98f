"""Validation of PersistentVolumeClaims. After kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36)."""

from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, forbidden, internal_diff, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import validate_resource_quantity
from pilothouse.apiserver.registry.generic.meta_validation import (
    validate_label_selector,
    validate_template_object_meta,
)
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE, set_or_remove, validate_immutable_fields
from pilothouse.machinery.names import dns_label_errors, dns_subdomain_errors, qualified_name_errors
from pilothouse.machinery.quantities import Quantity, QuantityError, parse_quantity

_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
POSITIVE = "must be greater than zero"
_IMMUTABLE_CLAIM = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_ATTRIBUTES_CLASS = "volumeAttributesClassName"
_RESIZE_STATUSES = (
    *("ControllerResizeInProgress", "ControllerResizeInfeasible"),
    *("NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"),
)
_ZERO = parse_quantity("0")


def is_negative(value: Any) -> bool:
    """Whether ``value`` is a valid quantity below zero."""
    try:
        return parse_quantity(str(value)) < _ZERO
    except QuantityError:
        return False  # reported when the type is decoded


def is_positive(value: Any) -> bool:
    """Whether ``value`` is a valid quantity above zero."""
    try:
        return parse_quantity(str(value)) > _ZERO
    except QuantityError:
        return False


def validate_access_modes(spec: Object, path: str) -> ErrorList:
    modes = spec.get("accessModes") or []
    errors = [not_supported(f"{path}.accessModes", mode, _MODES) for mode in modes if mode not in _MODES]
    if "ReadWriteOncePod" in modes and any(mode in _MODES[:3] for mode in modes):
        errors.append(forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_volume_mode(spec: Object, path: str) -> ErrorList:
    mode = spec.get("volumeMode")
    return [] if mode in _VOLUME_MODES else [not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)]


def validate_persistent_volume_claim_spec(
    spec: Object, path: str, *, allow_invalid_api_group: bool = False
) -> ErrorList:
    """``ValidatePersistentVolumeClaimSpec``. ``allow_invalid_api_group``: accept invalid API groups of data sources
    (``AllowInvalidAPIGroupInDataSourceOrRef``)."""
    errors: ErrorList = []
    if not spec.get("accessModes"):
        errors.append(required(f"{path}.accessModes", "at least 1 access mode is required"))
    if spec.get("selector") is not None:
        errors += validate_label_selector(spec["selector"], f"{path}.selector")
    errors += validate_access_modes(spec, path)
    requests = _requests(spec)
    if "storage" not in requests:
        errors.append(required(f"{path}.resources[storage]"))
    elif not is_positive(requests["storage"]):
        errors.append(invalid(f"{path}.resources[storage]", requests["storage"], POSITIVE))
    errors += _validate_class_name(spec, path, "storageClassName") + validate_volume_mode(spec, path)
    errors += _validate_data_source(spec, path, allow_invalid_api_group=allow_invalid_api_group)
    return errors + _validate_class_name(spec, path, _ATTRIBUTES_CLASS)


def validate_persistent_volume_claim_template(template: Object, path: str) -> ErrorList:
    errors = validate_template_object_meta(template.get("metadata") or {}, f"{path}.metadata")
    return errors + validate_persistent_volume_claim_spec(template.get("spec") or {}, f"{path}.spec")


def _validate_class_name(spec: Object, path: str, field: str) -> ErrorList:
    name = spec.get(field)
    return [invalid(f"{path}.{field}", name, msg) for msg in dns_subdomain_errors(name)] if name else []


def validate_persistent_volume_claim_on_update(obj: Object, old: Object) -> ErrorList:
    spec, old_spec = obj["spec"], old["spec"]
    if spec == old_spec:
        return []
    sources = (old_spec.get(field) or {} for field in ("dataSource", "dataSourceRef"))
    allow_invalid_api_group = any(source.get("apiGroup") is not None for source in sources)
    return validate_persistent_volume_claim_spec(spec, "spec", allow_invalid_api_group=allow_invalid_api_group)


def validate_persistent_volume_claim_update(obj: Object, old: Object) -> ErrorList:
    spec, old_spec = obj["spec"], old["spec"]
    errors: ErrorList = []
    annotation, old_annotation = ((o["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION) for o in (obj, old))
    is_upgraded = (
        old_annotation is not None and old_spec.get("storageClassName") is None and annotation in (None, old_annotation)
    )
    is_upgraded = is_upgraded and spec.get("storageClassName") == old_annotation
    if annotation != old_annotation and not is_upgraded:
        errors.append(invalid(f"metadata.annotations.{_CLASS_ANNOTATION}", annotation or "", IMMUTABLE))
    if spec == old_spec:
        return errors
    status = old.get("status") or {}
    new_clone, old_clone = _munge_mutable_fields(
        spec, old_spec, old_annotation, is_bound=status.get("phase") == "Bound"
    )
    if new_clone != old_clone:
        diff = internal_diff("core.PersistentVolumeClaimSpec", old_clone, new_clone)
        errors.append(forbidden("spec", _IMMUTABLE_CLAIM + diff))
    new_size, old_size = (_storage_quantity(_requests(s)) for s in (spec, old_spec))
    if new_size < old_size and new_size <= _storage_quantity(status.get("capacity") or {}):
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    errors += validate_immutable_fields(spec, old_spec, "", {"volumeMode": "*string"})
    name = spec.get(_ATTRIBUTES_CLASS)
    if (
        not name
        and name != old_spec.get(_ATTRIBUTES_CLASS)
        and status.get("currentVolumeAttributesClassName") is not None
    ):
        new_value = "nil" if name is None else "empty string"
        detail = f"update to {new_value} is forbidden when status.currentVolumeAttributesClassName is not nil"
        errors.append(forbidden(f"spec.{_ATTRIBUTES_CLASS}", detail))
    return errors


def validate_persistent_volume_claim_status_update(obj: Object, old: Object) -> ErrorList:
    status: Object = obj.get("status") or {}
    errors = _validate_basic_resources(status.get("capacity") or {}, "status.capacity")
    path = "status.allocatedResourceStatuses"
    for name, resize_status in (status.get("allocatedResourceStatuses") or {}).items():
        errors += _validate_resource(name, path)
        if resize_status not in _RESIZE_STATUSES:
            # Upstream reports the name of the resource rather than the status.
            errors.append(not_supported(path, name, _RESIZE_STATUSES))
    path = "status.allocatedResources"
    for name, quantity in (status.get("allocatedResources") or {}).items():
        resource_errors = _validate_resource(name, path) or _validate_basic_resources({name: quantity}, path)
        errors += resource_errors or validate_resource_quantity("storage", quantity, f"{path}[{name}]")
    return errors


def _validate_resource(name: str, path: str) -> ErrorList:
    """``validatePersistentVolumeClaimResourceKey``: ``storage`` is the only native resource of a claim."""
    msgs = qualified_name_errors(name)
    if msgs:
        return [invalid(path, name, msg) for msg in msgs]
    is_native = "/" not in name or "kubernetes.io/" in name
    return [not_supported(path, name, ("storage",), plain=True)] if is_native and name != "storage" else []


def _validate_basic_resources(resource_list: Object, path: str) -> ErrorList:
    detail = "must be a valid resource quantity"
    return [
        invalid(f"{path}[{name}]", parse_quantity(str(quantity)).value, detail)
        for name, quantity in resource_list.items()
        if is_negative(quantity)
    ]


def _storage_quantity(resource_list: Object) -> Quantity:
    """The quantity of ``storage``; zero if it is missing."""
    try:
        return parse_quantity(str(resource_list.get("storage") or "0"))
    except QuantityError:
        return _ZERO  # reported when the type is decoded


def _validate_data_source(spec: Object, path: str, *, allow_invalid_api_group: bool) -> ErrorList:
    """``dataSource`` and ``dataSourceRef``, which must be equal unless the latter has a namespace."""
    errors: ErrorList = []
    for field in ("dataSource", "dataSourceRef"):
        source, child_path = spec.get(field), f"{path}.{field}"
        if source is None:
            continue
        errors += [
            required(f"{child_path}.{required_field}")
            for required_field in ("name", "kind")
            if not source.get(required_field)
        ]
        group, kind = source.get("apiGroup") or "", source.get("kind") or ""
        if not group and kind != "PersistentVolumeClaim":
            errors.append(
                invalid(child_path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
            )
        if group and not allow_invalid_api_group:
            msgs = dns_subdomain_errors(group)
            errors += [invalid(f"{child_path}.apiGroup", group, msg) for msg in msgs]
        namespace = source.get("namespace")
        if namespace:
            msgs = dns_label_errors(namespace)
            errors += [invalid(f"{child_path}.namespace", namespace, msg) for msg in msgs]
    data_source, data_source_ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if data_source is not None and data_source_ref is not None:
        if data_source_ref.get("namespace"):
            detail = "may not be specified when dataSourceRef.namespace is specified"
            errors.append(invalid(path, f"{path}.dataSource", detail))
        elif any(
            (data_source.get(required_field) or None) != (data_source_ref.get(required_field) or None)
            for required_field in ("apiGroup", "kind", "name")
        ):
            # Upstream's value is the path of the field, a struct that is printed without its private fields.
            errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _requests(spec: Object) -> Object:
    """``spec.resources.requests``; an invalid stored object may have none."""
    requests: Object = (spec.get("resources") or {}).get("requests") or {}
    return requests


def _munge_mutable_fields(
    spec: Object, old_spec: Object, annotation: str | None, *, is_bound: bool
) -> tuple[Object, Object]:
    """The new and the old spec, with mutable fields set to equal values.

    ``volumeName`` can be set once, as can a class that was not set or only in the annotation. The storage request and
    ``volumeAttributesClassName`` of a bound claim can change.
    """
    new_clone, old_clone = dict(spec), dict(old_spec)
    if not old_spec.get("volumeName"):
        set_or_remove(old_clone, "volumeName", spec.get("volumeName"))
    if old_spec.get("storageClassName") is None and annotation in (None, spec.get("storageClassName")):
        set_or_remove(new_clone, "storageClassName", None)
    if is_bound:
        set_or_remove(new_clone, _ATTRIBUTES_CLASS, old_spec.get(_ATTRIBUTES_CLASS))
        if _requests(spec):
            requests = {**_requests(spec), "storage": _requests(old_spec).get("storage", "0")}
            new_clone["resources"] = {**spec["resources"], "requests": requests}
    return new_clone, old_clone
