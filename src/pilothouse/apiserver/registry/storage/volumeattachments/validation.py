"""Validation of VolumeAttachments. After kubernetes' ``pkg/apis/storage/validation/validation.go`` (v1.36)."""

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, required, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.validation import validate_csi_driver_name
from pilothouse.apiserver.registry.core.volume_sources import validate_inline_persistent_volume_spec
from pilothouse.apiserver.registry.storage.storageclasses import encoded_size
from pilothouse.machinery.names import dns_subdomain_errors

_MAX_METADATA_BYTES = 256 * 1024
_MAX_MESSAGE_LENGTH = 1024
_INVALID_ERROR_CODE = "must be between 0 and 2147483647, inclusive"


def validate_volume_attachment(obj: Object) -> ErrorList:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    node, volume = spec.get("nodeName") or "", (spec.get("source") or {}).get("persistentVolumeName")
    errors = validate_csi_driver_name(spec.get("attacher") or "", "spec.attacher")
    errors += _validate_attachment_source(spec.get("source") or {}, "spec.source")
    errors += [invalid("spec.nodeName", node, msg) for msg in dns_subdomain_errors(node)]
    if encoded_size(status.get("attachmentMetadata") or {}) > _MAX_METADATA_BYTES:
        errors.append(too_long("status.attachmentMetadata", _MAX_METADATA_BYTES))
    for field in ("attachError", "detachError"):
        errors += _validate_volume_error(status.get(field) or {}, f"status.{field}")
    if volume is None:
        return errors
    return errors + [invalid("spec.source.persistentVolumeName", volume, msg) for msg in dns_subdomain_errors(volume)]


def _validate_attachment_source(source: Object, path: str) -> ErrorList:
    name, inline = source.get("persistentVolumeName"), source.get("inlineVolumeSpec")
    detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if name is None and inline is None:
        return [required(path, detail)]
    if name is not None and inline is not None:
        return [forbidden(path, detail)]
    if inline is not None:
        return validate_inline_persistent_volume_spec(inline, f"{path}.inlineVolumeSpec")
    return [] if name else [required(f"{path}.persistentVolumeName", "must specify non empty persistentVolumeName")]


def _validate_volume_error(error: Object, path: str) -> ErrorList:
    """``validateVolumeError``."""
    errors: ErrorList = []
    if len((error.get("message") or "").encode()) > _MAX_MESSAGE_LENGTH:
        # Upstream reports another limit than the one that it checks.
        errors.append(too_long(f"{path}.message", _MAX_METADATA_BYTES))
    code = error.get("errorCode")
    if code is not None and code < 0:
        errors.append(invalid(f"{path}.errorCode", code, _INVALID_ERROR_CODE))
    return errors
