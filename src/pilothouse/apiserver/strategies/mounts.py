"""Where a container finds volumes: mounts, and block devices.

After ``ValidateVolumeMounts`` and ``ValidateVolumeDevices`` in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Mapping

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.volume_sources import descending_path_problems

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIONS = ("Disabled", "Enabled", "IfPossible")


def mount_problems(container: Object, path: str, volumes: Mapping[str, bool]) -> list[FieldError]:
    """What is wrong with the mounts of a container; ``volumes`` are the names that the pod has."""
    problems: list[FieldError] = []
    mounted: set[str] = set()
    devices = container.get("volumeDevices") or ()
    for position, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}[{position}]"
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            problems.append(errors.required(f"{where}.name"))
        if name not in volumes:
            problems.append(errors.value_not_found(f"{where}.name", name))
        if not target:
            problems.append(errors.required(f"{where}.mountPath"))
        if target in mounted:
            problems.append(errors.invalid_value(f"{where}.mountPath", target, "must be unique"))
        mounted.add(target)
        if any(device.get("name") == name for device in devices):
            told = "must not already exist in volumeDevices"
            problems.append(errors.invalid_value(f"{where}.name", name, told))
        if any(device.get("devicePath") == target for device in devices):
            told = "must not already exist as a path in volumeDevices"
            problems.append(errors.invalid_value(f"{where}.mountPath", target, told))
        if len(mount) > 2:
            problems += _rarer_problems(container, mount, path, where)
    return problems


def _rarer_problems(container: Object, mount: Object, path: str, where: str) -> list[FieldError]:
    """The rarer parts of a mount. Upstream mostly does not say of which one."""
    problems: list[FieldError] = []
    below, expanded = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if below:
        problems += descending_path_problems(below, f"{path}.subPath")
    if expanded:
        if below:
            told = "subPathExpr and subPath are mutually exclusive"
            problems.append(errors.invalid_value(f"{where}.subPathExpr", expanded, told))
        problems += descending_path_problems(expanded, f"{path}.subPathExpr")
    propagation = mount.get("mountPropagation")
    if propagation is not None and propagation not in _PROPAGATIONS:
        problems.append(errors.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS))
    if propagation == "Bidirectional" and (container.get("securityContext") or {}).get("privileged") is not True:
        told = "Bidirectional mount propagation is available only to privileged containers"
        problems.append(errors.not_allowed(f"{path}.mountPropagation", told))
    recursion, field = mount.get("recursiveReadOnly"), f"{path}.recursiveReadOnly"
    if recursion is not None and recursion not in _RECURSIONS:
        problems.append(errors.not_supported(field, recursion, _RECURSIONS))
    elif recursion in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            problems.append(errors.not_allowed(field, "may only be specified when readOnly is true"))
        if propagation not in (None, "None"):
            told = "may only be specified when mountPropagation is None or not specified"
            problems.append(errors.not_allowed(field, told))
    return problems


def device_problems(container: Object, path: str, volumes: Mapping[str, bool]) -> list[FieldError]:
    """``ValidateVolumeDevices``: blocks are claimed, and are in no place where something is mounted."""
    problems: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    mounts = container.get("volumeMounts") or ()
    for position, device in enumerate(container.get("volumeDevices") or ()):
        where = f"{path}[{position}]"
        name, place = device.get("name") or "", device.get("devicePath") or ""
        if not name:
            problems.append(errors.required(f"{where}.name"))
        if name in names:
            problems.append(errors.invalid_value(f"{where}.name", name, "must be unique"))
        if name not in volumes:
            problems.append(errors.value_not_found(f"{where}.name", name))
        elif not volumes[name]:
            told = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            problems.append(errors.invalid_value(f"{where}.name", name, told))
        if not place:
            problems.append(errors.required(f"{where}.devicePath"))
        if place in paths:
            problems.append(errors.invalid_value(f"{where}.devicePath", place, "must be unique"))
        if ".." in place.split("/"):
            told = "can not contain backsteps ('..')"
            problems.append(errors.invalid_value(f"{where}.devicePath", place, told))
        else:
            paths.add(place)
        if any(mount.get("name") == name for mount in mounts):
            told = "must not already exist in volumeMounts"
            problems.append(errors.invalid_value(f"{where}.name", name, told))
        if any(mount.get("mountPath") == place for mount in mounts):
            told = "must not already exist as a path in volumeMounts"
            problems.append(errors.invalid_value(f"{where}.devicePath", place, told))
        if name:
            names.add(name)
    return problems
