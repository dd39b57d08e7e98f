"""Validation of ResourceSlices.

After kubernetes' ``pkg/apis/resource/validation/validation.go`` (v1.36).
"""

import re

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, required, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.affinity import validate_node_selector
from pilothouse.apiserver.registry.core.validation import validate_csi_driver_name
from pilothouse.apiserver.registry.generic.object_fields import validate_immutable_fields
from pilothouse.apiserver.registry.resource.resourceslices.capacity import validate_device_capacity
from pilothouse.apiserver.registry.resource.validation import (
    validate_device_binding_parameters,
    validate_device_taint,
    validate_label,
    validate_map,
    validate_pool_name,
    validate_qualified_name,
    validate_set,
    validate_slice,
)
from pilothouse.machinery.names import dns_subdomain_errors

_MAX_DEVICES, _MAX_DEVICES_WITH_TAINTS_OR_COUNTERS = 128, 64
_MAX_MEMBERS = 32
_MAX_COUNTERS = 32
_MAX_COUNTER_SETS, _MAX_CONSUMED = 8, 2
_MAX_TAINTS = 16
_MAX_VALUE_LENGTH = 64
_MAX_LABEL_LENGTH = 63
_VALUES = ("bool", "int", "string", "version")
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes")
_NUMBER = r"(?:0|[1-9]\d*)"
_PRE = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_version = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PRE}(?:\.{_PRE})*)?(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)


def validate_resource_slice(spec: Object, old: Object | None) -> ErrorList:
    """``validateResourceSliceSpec``. Unchanged capacities and taints of devices are not validated again."""
    errors = validate_csi_driver_name(spec.get("driver") or "", "spec.driver")
    pool = spec.get("pool") or {}
    errors += _validate_pool(pool, "spec.pool")
    if old is not None:
        errors += validate_immutable_fields(pool, old.get("pool") or {}, "spec.pool", {"name": "string"})
        errors += validate_immutable_fields(spec, old, "spec", {"driver": "string", "nodeName": "*string"})
    node_selection_errors, fields_set = _validate_slice_node_selection(spec)
    errors += node_selection_errors
    detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
    if not fields_set:
        errors.append(required("spec", detail))
    elif len(fields_set) > 1:
        errors.append(invalid("spec", f"{{{', '.join(fields_set)}}}", f"{detail}, but multiple fields are set"))
    devices, shared = spec.get("devices") or [], spec.get("sharedCounters") or []
    if devices and shared:
        errors.append(invalid("spec", "", "only one of `sharedCounters` or `devices` is allowed"))
    is_advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    old_devices = {device.get("name"): device for device in (old or {}).get("devices") or ()}
    per_device_node_selection = spec.get("perDeviceNodeSelection") is True
    errors += validate_set(
        devices,
        _MAX_DEVICES_WITH_TAINTS_OR_COUNTERS if is_advanced else _MAX_DEVICES,
        "spec.devices",
        lambda device, path: _validate_device(
            device, old_devices.get(device.get("name")), path, per_device_node_selection
        ),
        lambda device: device.get("name") or "",
    )
    return errors + validate_set(
        shared,
        _MAX_COUNTER_SETS,
        "spec.sharedCounters",
        lambda counter_set, path: _validate_counters(counter_set, path, "name"),
        lambda counter_set: counter_set.get("name") or "",
    )


def _validate_pool(pool: Object, path: str) -> ErrorList:
    errors = validate_pool_name(pool.get("name") or "", f"{path}.name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        errors.append(invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    if generation < 0:
        errors.append(invalid(f"{path}.generation", generation, "must be greater than or equal to zero"))
    return errors


def _validate_slice_node_selection(spec: Object) -> tuple[ErrorList, list[str]]:
    """The errors in the fields that select the nodes of all devices, and the fields that are set."""
    errors, fields_set = _validate_node_selection(spec, "spec", "must be either unset or set to a non-empty string")
    terms = (spec.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    if spec.get("nodeSelector") is not None and len(terms) != 1:
        path, detail = "spec.nodeSelector.nodeSelectorTerms", "must have exactly one node selector term"
        errors.append(invalid(path, internal_value("[]core.NodeSelectorTerm", terms), detail))
    per_device_node_selection = spec.get("perDeviceNodeSelection")
    if per_device_node_selection:
        fields_set.append("`perDeviceNodeSelection`")
    elif per_device_node_selection is not None:
        errors.append(
            invalid("spec.perDeviceNodeSelection", per_device_node_selection, "must be either unset or set to true")
        )
    return errors, fields_set


def _validate_node_selection(spec_or_device: Object, path: str, empty_detail: str) -> tuple[ErrorList, list[str]]:
    errors: ErrorList = []
    fields_set: list[str] = []
    name, selector, all_nodes = (spec_or_device.get(field) for field in _NODE_FIELDS)
    if name:
        fields_set.append("`nodeName`")
        errors += [invalid(f"{path}.nodeName", name, msg) for msg in dns_subdomain_errors(name)]
    elif name is not None:
        errors.append(invalid(f"{path}.nodeName", name, empty_detail))
    if selector is not None:
        fields_set.append("`nodeSelector`")
        errors += validate_node_selector(selector, f"{path}.nodeSelector")
    if all_nodes:
        fields_set.append("`allNodes`")
    elif all_nodes is not None:
        errors.append(invalid(f"{path}.allNodes", all_nodes, "must be either unset or set to true"))
    return errors, fields_set


def _validate_device(device: Object, old: Object | None, path: str, per_device_node_selection: bool) -> ErrorList:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    errors = validate_label(device.get("name") or "", f"{path}.name")
    if len(attributes) + len(capacity) > _MAX_MEMBERS:
        detail = f"the total number of attributes and capacities must not exceed {_MAX_MEMBERS}"
        errors.append(invalid(path, len(attributes) + len(capacity), detail))
    errors += validate_map(attributes, f"{path}.attributes", validate_qualified_name, _validate_attribute)
    if old is None or capacity != (old.get("capacity") or {}):
        is_shared = device.get("allowMultipleAllocations") is True
        errors += validate_map(
            capacity,
            f"{path}.capacity",
            validate_qualified_name,
            lambda item, path: validate_device_capacity(item, path, is_shared=is_shared),
        )
    taints = device.get("taints") or []
    if old is None or taints != (old.get("taints") or []):
        errors += validate_slice(taints, _MAX_TAINTS, f"{path}.taints", validate_device_taint)
    errors += validate_set(
        device.get("consumesCounters") or [],
        _MAX_CONSUMED,
        f"{path}.consumesCounters",
        lambda item, path: _validate_counters(item, path, "counterSet"),
        lambda item: item.get("counterSet") or "",
    )
    return (
        errors
        + _validate_device_node_selection(device, path, per_device_node_selection)
        + validate_device_binding_parameters(device, path)
    )


def _validate_device_node_selection(device: Object, path: str, per_device_node_selection: bool) -> ErrorList:
    """The fields that select the nodes of a device; they require ``perDeviceNodeSelection`` in the slice."""
    if not per_device_node_selection:
        if all(device.get(field) is None for field in _NODE_FIELDS):
            return []
        detail = (
            "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in "
            "the ResourceSlice spec"
        )
        return [invalid(path, None, detail)]
    errors, fields_set = _validate_node_selection(device, path, "must not be empty")
    one_of_detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
        "true in the ResourceSlice spec"
    )
    if not fields_set:
        errors.append(required(path, one_of_detail))
    elif len(fields_set) > 1:
        errors.append(invalid(path, f"{{{', '.join(fields_set)}}}", one_of_detail))
    return errors


def _validate_attribute(attribute: Object, path: str) -> ErrorList:
    string, version = attribute.get("string"), attribute.get("version")
    errors: ErrorList = []
    if string is not None and len(string.encode()) > _MAX_VALUE_LENGTH:
        errors.append(too_long(f"{path}.string", _MAX_VALUE_LENGTH))
    if version is not None:
        child_path = f"{path}.version"
        if _version.fullmatch(version) is None:
            errors.append(invalid(child_path, version, "must be a string compatible with semver.org spec 2.0.0"))
        if len(version.encode()) > _MAX_VALUE_LENGTH:
            errors.append(too_long(child_path, _MAX_VALUE_LENGTH))
    values_set = sum(attribute.get(field) is not None for field in _VALUES)
    if values_set != 1:
        value = internal_value("resource.DeviceAttribute", attribute) if values_set else ""
        errors.append(invalid(path, value, "exactly one value must be specified"))
    return errors


def _validate_counters(counters: Object, path: str, field: str) -> ErrorList:
    """``sharedCounters`` of a slice, or ``consumesCounters`` of a device; ``field`` is the name of the counter set."""
    name, members = counters.get(field) or "", counters.get("counters") or {}
    all_errors = validate_label(name, f"{path}.{field}") if name else [required(f"{path}.{field}")]
    if not members:
        return [*all_errors, required(f"{path}.counters")]
    return all_errors + validate_map(
        members, f"{path}.counters", validate_label, max_size=_MAX_COUNTERS, max_key_length=_MAX_LABEL_LENGTH
    )
