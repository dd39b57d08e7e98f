"""Validation of CSIDrivers. After kubernetes' ``pkg/apis/storage/validation/validation.go`` (v1.36)."""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, duplicate, invalid, not_supported
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE, validate_immutable_fields

_LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_MIN_UPDATE_PERIOD_SECONDS = 10
_MIN_TOKEN_SECONDS = 600
_MAX_TOKEN_SECONDS = 1 << 32


def validate_csi_driver(obj: Object) -> ErrorList:
    spec = obj["spec"]
    errors: ErrorList = []
    policy, tokens = spec.get("fsGroupPolicy"), spec.get("tokenRequests") or ()
    if policy not in _FS_GROUP_POLICIES:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES))
    errors += _validate_token_requests(tokens, "spec.tokenRequests")
    errors += [
        not_supported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES)
        for mode in spec.get("volumeLifecycleModes") or ()
        if mode not in _LIFECYCLE_MODES
    ]
    period, in_secrets = spec.get("nodeAllocatableUpdatePeriodSeconds"), spec.get("serviceAccountTokenInSecrets")
    if period is not None and period < _MIN_UPDATE_PERIOD_SECONDS:
        path, detail = "spec.nodeAllocatableUpdatePeriodSeconds", "must be greater than or equal to 10 seconds"
        errors.append(invalid(path, period, detail))
    if in_secrets is not None and not tokens:
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        errors.append(invalid("spec.serviceAccountTokenInSecrets", in_secrets, detail))
    return errors


def validate_csi_driver_update(obj: Object, old: Object) -> ErrorList:
    errors: ErrorList = []
    attach_required = obj["spec"].get("attachRequired")
    if attach_required != old["spec"].get("attachRequired"):
        errors.append(invalid("spec.attachedRequired", attach_required, IMMUTABLE))  # upstream's path
    return errors + validate_immutable_fields(obj["spec"], old["spec"], "spec", {"volumeLifecycleModes": "[]string"})


def _validate_token_requests(requests: Sequence[Object], path: str) -> ErrorList:
    """``validateTokenRequests``: audiences must be unique."""
    errors: ErrorList = []
    audiences: list[str] = []
    for position, request in enumerate(requests):
        child_path, audience, seconds = (
            f"{path}[{position}]",
            request.get("audience") or "",
            request.get("expirationSeconds"),
        )
        if audience in audiences:
            errors.append(duplicate(f"{child_path}.audience", audience))
            continue
        audiences.append(audience)
        if seconds is not None and seconds < _MIN_TOKEN_SECONDS:
            detail = "may not specify a duration less than 10 minutes"
            errors.append(invalid(f"{child_path}.expirationSeconds", seconds, detail))
        if seconds is not None and seconds > _MAX_TOKEN_SECONDS:
            detail = "may not specify a duration larger than 2^32 seconds"
            errors.append(invalid(f"{child_path}.expirationSeconds", seconds, detail))
    return errors
