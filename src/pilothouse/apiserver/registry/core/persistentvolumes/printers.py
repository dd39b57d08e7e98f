"""The printer of PersistentVolumes, after ``pkg/printers/internalversion/printers.go`` (v1.36)."""

from pilothouse.apiserver.registry.core.persistentvolumeclaims.printers import access_modes, phase_of, storage_class_of
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


def print_persistent_volume(value: Doc, now: Now) -> Row:
    spec = nested_field(value, "spec") or {}
    claim = spec.get("claimRef")
    return [
        nested_field(spec, "capacity", "storage") or "0",
        access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase_of(value),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        storage_class_of(value),
        spec.get("volumeAttributesClassName") or UNSET,
        nested_field(value, "status", "reason") or "",
        spec.get("volumeMode") or UNSET,
    ]


PRINTER = Printer(
    (
        NAME,
        *columns(
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
        ),
        AGE,
        *wide("VolumeMode"),
    ),
    print_persistent_volume,
)
