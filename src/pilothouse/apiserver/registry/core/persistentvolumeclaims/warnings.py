"""Warnings about PersistentVolumeClaims. After kubernetes' ``pkg/api/persistentvolumeclaim/util.go`` (v1.36)."""

from collections.abc import Iterator, Mapping

from pilothouse.apiserver.objects import Object
from pilothouse.machinery.quantities import parse_quantity

_BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"


def warnings_for_persistent_volume_claim(obj: Object) -> Iterator[str]:
    if _BETA_STORAGE_CLASS in (obj["metadata"].get("annotations") or ()):
        message = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{_BETA_STORAGE_CLASS}]: {message}"
    yield from warnings_for_persistent_volume_claim_spec(obj.get("spec") or {}, "spec")


def warnings_for_persistent_volume_claim_spec(spec: Object, path: str) -> Iterator[str]:
    resources = spec.get("resources") or {}
    for field in ("requests", "limits"):
        yield from fractional_byte_warning(resources.get(field), "storage", f"{path}.resources.{field}")


def fractional_byte_warning(quantities: Mapping[str, str] | None, resource: str, path: str) -> Iterator[str]:
    """The warning about a number of bytes that is not whole."""
    value = quantities.get(resource) if quantities else None
    # Of canonical quantities, only those with these suffixes can be fractions.
    if value and value[-1] in "mun" and parse_quantity(value).milli_value % 1000:
        yield f'{path}[{resource}]: fractional byte value "{value}" is invalid, must be an integer'
