"""The printer of PersistentVolumeClaims. After kubernetes' ``pkg/printers/internalversion/printers.go``
(v1.36).
"""

from typing import Any

from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    UNSET,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    nested_field,
    wide,
)

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


def access_modes(modes: Any) -> str:
    return ",".join(abbreviation for mode, abbreviation in _MODES.items() if mode in (modes or ()))


def storage_class_of(value: Doc) -> str:
    annotations = nested_field(value, "metadata", "annotations") or {}
    return annotations.get(_CLASS_ANNOTATION) or nested_field(value, "spec", "storageClassName") or ""


def phase_of(value: Doc) -> str:
    deleting = nested_field(value, "metadata", "deletionTimestamp")
    return "Terminating" if deleting else nested_field(value, "status", "phase") or ""


def print_persistent_volume_claim(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    bound = bool(spec.get("volumeName"))
    return [
        phase_of(value),
        spec.get("volumeName", ""),
        (nested_field(value, "status", "capacity", "storage") or "0") if bound else "",
        access_modes(nested_field(value, "status", "accessModes")) if bound else "",
        storage_class_of(value),
        spec.get("volumeAttributesClassName") or UNSET,
        spec.get("volumeMode") or UNSET,
    ]


PRINTER = Printer(
    (
        NAME,
        *columns("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
        AGE,
        *wide("VolumeMode"),
    ),
    print_persistent_volume_claim,
)
