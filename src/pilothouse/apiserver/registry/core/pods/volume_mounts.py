"""Validation of volume mounts and volume devices.

After ``ValidateVolumeMounts`` and ``ValidateVolumeDevices`` in kubernetes' ``pkg/apis/core/validation/validation.go``
(v1.36).
"""

from collections.abc import Mapping

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_found, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.volume_sources import validate_local_descending_path

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY_MODES = ("Disabled", "Enabled", "IfPossible")


def validate_volume_mounts(container: Object, path: str, volumes: Mapping[str, bool]) -> ErrorList:
    """``ValidateVolumeMounts``; ``volumes`` has the names of the pod's valid volumes."""
    errors: ErrorList = []
    mountpoints: set[str] = set()
    devices = container.get("volumeDevices") or ()
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        child_path = f"{path}[{position}]"
        name, mount_path = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(required(f"{child_path}.name"))
        if name not in volumes:
            errors.append(not_found(f"{child_path}.name", name))
        if not mount_path:
            errors.append(required(f"{child_path}.mountPath"))
        if mount_path in mountpoints:
            errors.append(invalid(f"{child_path}.mountPath", mount_path, "must be unique"))
        mountpoints.add(mount_path)
        if any(device.get("name") == name for device in devices):
            errors.append(invalid(f"{child_path}.name", name, "must not already exist in volumeDevices"))
        if any(device.get("devicePath") == mount_path for device in devices):
            errors.append(
                invalid(f"{child_path}.mountPath", mount_path, "must not already exist as a path in volumeDevices")
            )
        if len(mount) > 2:
            errors += _validate_less_common_fields(container, mount, path, child_path)
    return errors


def _validate_less_common_fields(container: Object, mount: Object, path: str, child_path: str) -> ErrorList:
    """The less common fields of a mount; most of upstream's paths have no index."""
    errors: ErrorList = []
    sub_path, sub_path_expr = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if sub_path:
        errors += validate_local_descending_path(sub_path, f"{path}.subPath")
    if sub_path_expr:
        if sub_path:
            errors.append(
                invalid(f"{child_path}.subPathExpr", sub_path_expr, "subPathExpr and subPath are mutually exclusive")
            )
        errors += validate_local_descending_path(sub_path_expr, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in _PROPAGATIONS:
        errors.append(not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and (container.get("securityContext") or {}).get("privileged") is not True:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(f"{path}.mountPropagation", detail))
    recursive_read_only, field_path = mount.get("recursiveReadOnly"), f"{path}.recursiveReadOnly"
    if recursive_read_only is not None and recursive_read_only not in _RECURSIVE_READ_ONLY_MODES:
        errors.append(not_supported(field_path, recursive_read_only, _RECURSIVE_READ_ONLY_MODES))
    elif recursive_read_only in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            errors.append(forbidden(field_path, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            errors.append(forbidden(field_path, "may only be specified when mountPropagation is None or not specified"))
    return errors


def validate_volume_devices(container: Object, path: str, volumes: Mapping[str, bool]) -> ErrorList:
    """``ValidateVolumeDevices``."""
    errors: ErrorList = []
    names: set[str] = set()
    paths: set[str] = set()
    mounts = container.get("volumeMounts") or ()
    for position, device in enumerate(container.get("volumeDevices") or ()):
        child_path = f"{path}[{position}]"
        name, device_path = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            errors.append(required(f"{child_path}.name"))
        if name in names:
            errors.append(invalid(f"{child_path}.name", name, "must be unique"))
        if name not in volumes:
            errors.append(not_found(f"{child_path}.name", name))
        elif not volumes[name]:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{child_path}.name", name, detail))
        if not device_path:
            errors.append(required(f"{child_path}.devicePath"))
        if device_path in paths:
            errors.append(invalid(f"{child_path}.devicePath", device_path, "must be unique"))
        if ".." in device_path.split("/"):
            errors.append(invalid(f"{child_path}.devicePath", device_path, "can not contain backsteps ('..')"))
        else:
            paths.add(device_path)
        if any(mount.get("name") == name for mount in mounts):
            errors.append(invalid(f"{child_path}.name", name, "must not already exist in volumeMounts"))
        if any(mount.get("mountPath") == device_path for mount in mounts):
            errors.append(
                invalid(f"{child_path}.devicePath", device_path, "must not already exist as a path in volumeMounts")
            )
        if name:
            names.add(name)
    return errors
