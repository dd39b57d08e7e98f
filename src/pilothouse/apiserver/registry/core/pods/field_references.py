"""Validation of ``fieldRef`` and ``resourceFieldRef`` (downward API), in environment variables and volumes.

After ``validateObjectFieldSelector`` and ``validateContainerResourceFieldSelector`` in kubernetes'
``pkg/apis/core/validation/validation.go``, and ``pkg/apis/core/pods/helpers.go`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.names import qualified_name_errors
from pilothouse.machinery.quantities import QuantityError, canonical

ENV_FIELD_PATHS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)
VOLUME_FIELD_PATHS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_FIELD_LABELS = frozenset(
    (*ENV_FIELD_PATHS, *VOLUME_FIELD_PATHS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_SUBSCRIPTABLE_PATHS = ("metadata.annotations", "metadata.labels")
_RESOURCES = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_MEMORY_DIVISORS = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
_DIVISORS = {
    "cpu": (("1m", "1"), "only divisor's values 1m and 1 are supported with the cpu resource"),
    **{
        name: (
            _MEMORY_DIVISORS,
            f"only divisor's values {', '.join(_MEMORY_DIVISORS)} are supported with the {noun} resource",
        )
        for name, noun in (
            ("memory", "memory"),
            ("ephemeral-storage", "local ephemeral storage"),
            ("hugepages", "hugepages"),
        )
    },
}


def validate_object_field_selector(reference: Object, path: str, allowed: Sequence[str]) -> ErrorList:
    version, field_path = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field_path:
        return [required(f"{path}.fieldPath")]
    name, key = _split_maybe_subscripted_path(field_path)
    reason = ""
    if version != "v1":
        reason = f"unsupported pod version: {version}"
    elif key is not None and name not in _SUBSCRIPTABLE_PATHS:
        reason = f"field label does not support subscript: {field_path}"
    elif key is None and name not in _FIELD_LABELS and name != "spec.host":
        reason = f"field label not supported: {field_path}"
    if reason:
        return [invalid(f"{path}.fieldPath", field_path, f"error converting fieldPath: {reason}")]
    if key is not None:
        msgs = qualified_name_errors(key.lower() if name == "metadata.annotations" else key)
        return [invalid(path, key, msg) for msg in msgs]
    name = "spec.nodeName" if name == "spec.host" else name
    return [] if name in allowed else [not_supported(f"{path}.fieldPath", name, sorted(allowed), plain=True)]


def _split_maybe_subscripted_path(path: str) -> tuple[str, str | None]:
    """``SplitMaybeSubscriptedPath``: ``metadata.labels['x']`` → (``metadata.labels``, ``x``)."""
    name, bracket, key = path.removesuffix("']").partition("['")
    return (name, key) if path.endswith("']") and bracket and name else (path, None)


def validate_container_resource_field_selector(reference: Object, path: str, *, in_volume: bool) -> ErrorList:
    """The errors in a ``resourceFieldRef``. In volumes ``containerName`` is required."""
    name = reference.get("resource") or ""
    errors: ErrorList = []
    if in_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not name:
        errors.append(required(f"{path}.resource"))
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", name, _RESOURCES, plain=True))
    kind = "hugepages" if name.startswith(_HUGE_PAGES) else name.partition(".")[2] if name in _RESOURCES else ""
    divisor = _canonical_divisor(reference.get("divisor"))
    if kind and divisor != "0" and divisor not in _DIVISORS[kind][0]:
        errors.append(invalid(f"{path}.divisor", name, _DIVISORS[kind][1]))
    return errors


def _canonical_divisor(divisor: object) -> str:
    try:
        return canonical(str(divisor or "0"))
    except QuantityError:
        return "0"  # reported when the type is decoded
