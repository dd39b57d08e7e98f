"""Validation of CSINodes. After kubernetes' ``pkg/apis/storage/validation/validation.go`` (v1.36)."""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, duplicate, internal_value, invalid, repeated, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import validate_csi_driver_name
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE, validate_nonnegative_fields
from pilothouse.machinery.names import qualified_name_errors

_MAX_NODE_ID_LENGTH = 256


def validate_csi_node(obj: Object) -> ErrorList:
    errors: ErrorList = []
    driver_names: set[str] = set()
    for position, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name = f"spec.drivers[{position}]", driver.get("name") or ""
        errors += validate_csi_driver_name(name, f"{path}.name")
        errors += _validate_node_id(driver.get("nodeID") or "", f"{path}.nodeID")
        errors += validate_nonnegative_fields(driver.get("allocatable") or {}, f"{path}.allocatable", ("count",))
        if name in driver_names:
            errors.append(duplicate(f"{path}.name", name))
        driver_names.add(name)
        errors += _validate_topology_key(driver.get("topologyKeys") or (), path)
    return errors


def validate_csi_node_update(obj: Object, old: Object) -> ErrorList:
    old_drivers, drivers = (((o.get("spec") or {}).get("drivers") or ()) for o in (old, obj))
    return [
        invalid("spec.drivers", internal_value("storage.CSINodeDriver", _immutable_fields(driver)), IMMUTABLE)
        for old_driver in old_drivers
        for driver in drivers
        if driver.get("name") == old_driver.get("name") and _immutable_fields(driver) != _immutable_fields(old_driver)
    ]


def _validate_node_id(node: str, path: str) -> ErrorList:
    if not node:
        return [required(path)]
    if len(node.encode()) > _MAX_NODE_ID_LENGTH:
        return [invalid(path, node, f"must be {_MAX_NODE_ID_LENGTH} characters or less")]
    return []


def _validate_topology_key(keys: Sequence[str], path: str) -> ErrorList:
    errors: ErrorList = []
    repeated_keys = repeated(keys)
    for position, key in enumerate(keys):
        if not key:
            errors.append(required(path))
        if position in repeated_keys:
            errors.append(duplicate(path, key))
        errors += [invalid(path, keys, msg) for msg in qualified_name_errors(key)]
    return errors


def _immutable_fields(driver: Object) -> Object:
    """The immutable fields of a driver; ``allocatable`` can change."""
    return {field: driver.get(field) for field in ("name", "nodeID", "topologyKeys")}
