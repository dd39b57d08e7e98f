"""PersistentVolumes."""

from collections.abc import Iterable
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.quantities import canonicalize

with lazy_imports():
    from pilothouse.apiserver.registry.core.persistentvolumes import printers as persistent_volume_printers
    from pilothouse.apiserver.registry.core.persistentvolumes import validation as persistent_volume_validation
    from pilothouse.apiserver.registry.core.persistentvolumes import warnings as persistent_volume_warnings


class PersistentVolumeStrategy(Strategy):
    """``v1`` PersistentVolumes. The server sets ``lastPhaseTransitionTime``."""

    return_deleted_object = True
    create_steps = ("object meta", "object", "additional")
    update_steps = ("object meta", "object", "additional", "object meta", "object", "update")

    def set_defaults(self, obj: Object) -> None:
        set_defaults_persistent_volume(obj)

    def prepare_for_create(self, obj: Object, now: str) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": now}

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        status, old_status = ensure_object(obj, "status"), old.get("status") or {}
        if status["phase"] != old_status.get("phase"):
            if status.get("lastPhaseTransitionTime") in (None, old_status.get("lastPhaseTransitionTime")):
                status["lastPhaseTransitionTime"] = now
        elif old_status.get("lastPhaseTransitionTime"):
            status.setdefault("lastPhaseTransitionTime", old_status["lastPhaseTransitionTime"])

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return persistent_volume_warnings.warnings_for_persistent_volume(obj)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        return persistent_volume_validation.validate_persistent_volume(obj)

    def validate_additional(self, obj: Object) -> ErrorList:
        return persistent_volume_validation.check_mount_option(obj)

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return [] if obj["spec"] == old["spec"] else self.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return persistent_volume_validation.validate_persistent_volume_update(obj, old)


def set_defaults_persistent_volume(obj: Object) -> None:
    spec = ensure_object(obj, "spec")
    canonicalize(spec.get("capacity"))
    set_default_fields(ensure_object(obj, "status"), {"phase": "Pending"})
    set_default_fields(spec, {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})
    path = spec.get("hostPath")
    if path is not None:
        path.setdefault("type", "")
    for field, defaults in _SOURCE_DEFAULTS.items():
        if spec.get(field) is not None:
            set_default_fields(spec[field], defaults)


_SOURCE_DEFAULTS: dict[str, dict[str, Any]] = {
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False, "kind": "Shared"},
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}


REGISTRATION = Registration(
    PersistentVolumeStrategy(),
    printer=lambda: persistent_volume_printers.PRINTER,
)
