"""Validation of the annotations of pods and pod templates.

After ``ValidatePodSpecificAnnotations``, ``ValidatePodSpecificAnnotationUpdates`` and
``validateSeccompAnnotationsAndFields`` in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
"""

import re
from collections.abc import Mapping

import msgspec

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.app_armor import APP_ARMOR_PREFIX
from pilothouse.apiserver.registry.core.pods.security_context import visit_containers
from pilothouse.apiserver.registry.core.validation import validate_tolerations
from pilothouse.apiserver.registry.core.volume_sources import validate_local_descending_path
from pilothouse.machinery.go_text import quote

MIRROR = "kubernetes.io/config.mirror"
_TOLERATIONS = "scheduler.alpha.kubernetes.io/tolerations"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP = "container.seccomp.security.alpha.kubernetes.io/"
_VALIDATED_KEYS = (MIRROR, _TOLERATIONS, _DELETION_COST, _SECCOMP_POD, _SECCOMP, APP_ARMOR_PREFIX)
_SECCOMP_PROFILES = ("runtime/default", "docker/default", "unconfined")
_LOCALHOST_PREFIX = "localhost/"
_cost = re.compile("-?[0-9]+", re.ASCII)

Annotations = Mapping[str, str]


def validate_pod_annotations(annotations: Annotations, spec: Object, path: str) -> ErrorList:
    """``ValidatePodSpecificAnnotations`` of a pod with this spec."""
    if not any(key.startswith(_VALIDATED_KEYS) for key in annotations):
        return []
    errors: ErrorList = []
    if MIRROR in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR}]", annotations[MIRROR], detail))
    if annotations.get(_TOLERATIONS):
        errors += _validate_tolerations_annotation(annotations[_TOLERATIONS], path)
    if not _is_valid_deletion_cost(annotations):
        errors.append(invalid(f"{path}[{_DELETION_COST}]", annotations[_DELETION_COST], "must be a 32bit integer"))
    for key, profile in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP):
            errors += _validate_seccomp_annotation(profile, f"{path}.{key}")
    container_names: set[str] | None = None
    for key, profile in annotations.items():
        if not key.startswith(APP_ARMOR_PREFIX):
            continue
        if container_names is None:
            container_names = {
                container.get("name") or "" for _container_path, container in visit_containers(spec, path)
            }
        name = key.removeprefix(APP_ARMOR_PREFIX)
        if name not in container_names:
            errors.append(invalid(f"{path}[{key}]", name, "container not found"))
        if profile not in ("", "runtime/default", "unconfined") and not profile.startswith(_LOCALHOST_PREFIX):
            errors.append(invalid(f"{path}[{key}]", profile, f"invalid AppArmor profile name: {quote(profile)}"))
    return errors


def validate_pod_annotations_update(
    annotations: Annotations, old_annotations: Annotations, spec: Object, path: str
) -> ErrorList:
    """``ValidatePodSpecificAnnotationUpdates``."""
    if annotations == old_annotations:
        return []
    errors: ErrorList = []
    for key, value in old_annotations.items():
        if annotations.get(key) != value:
            errors += _validate_immutable_annotations(key, f"{path}[{key}]", "remove or update")
    for key in annotations:
        if key not in old_annotations:
            errors += _validate_immutable_annotations(key, f"{path}[{key}]", "add")
    if not _is_valid_deletion_cost(old_annotations):
        # An invalid stored value is accepted.
        annotations = {key: value for key, value in annotations.items() if key != _DELETION_COST}
    return errors + validate_pod_annotations(annotations, spec, path)


def _validate_immutable_annotations(key: str, path: str, verb: str) -> ErrorList:
    if key.startswith(APP_ARMOR_PREFIX):
        return [forbidden(path, f"may not {verb} AppArmor annotations")]
    return [forbidden(path, f"may not {verb} mirror pod annotation")] if key == MIRROR else []


def _validate_tolerations_annotation(annotation: str, path: str) -> ErrorList:
    try:
        tolerations = msgspec.json.decode(annotation, type=list[dict[str, object]] | None)
    except msgspec.MsgspecError as error:
        return [invalid(path, _TOLERATIONS, str(error))]
    return validate_tolerations(tolerations or (), f"{path}.{_TOLERATIONS}")


def _is_valid_deletion_cost(annotations: Annotations) -> bool:
    """Whether the pod deletion cost is missing or a number as Go formats it."""
    value = annotations.get(_DELETION_COST)
    if value is None:
        return True
    if _cost.fullmatch(value) is None or (value[0] == "0" and value != "0"):
        return False
    return -(1 << 31) <= int(value) < 1 << 31


def _validate_seccomp_annotation(profile: str, path: str) -> ErrorList:
    if profile in _SECCOMP_PROFILES:
        return []
    if profile.startswith(_LOCALHOST_PREFIX):
        return validate_local_descending_path(profile.removeprefix(_LOCALHOST_PREFIX), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


# Profiles in annotations and fields ---------------------------------------------------------------------------------


def validate_profile_annotations(annotations: Annotations, spec: Object, path: str) -> ErrorList:
    """Seccomp and AppArmor profiles in annotations must match those in fields. Only for creates and for templates."""
    if not any(key.startswith((_SECCOMP_POD, _SECCOMP, APP_ARMOR_PREFIX)) for key in annotations):
        return []
    pod_security_context: Object = spec.get("securityContext") or {}
    child_path = f"{path}.securityContext.seccompProfile"
    errors = _validate_match(
        "seccomp", annotations.get(_SECCOMP_POD), pod_security_context.get("seccompProfile"), child_path
    )
    containers = list(visit_containers(spec, path))
    for container_path, container in containers:
        profile = (container.get("securityContext") or {}).get("seccompProfile")
        annotation = annotations.get(f"{_SECCOMP}{container.get('name') or ''}")
        errors += _validate_match("seccomp", annotation, profile, f"{container_path}.securityContext.seccompProfile")
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    for container_path, container in containers:
        profile = (container.get("securityContext") or {}).get("appArmorProfile") or pod_security_context.get(
            "appArmorProfile"
        )
        annotation = annotations.get(f"{APP_ARMOR_PREFIX}{container.get('name') or ''}")
        errors += _validate_match("apparmor", annotation, profile, f"{container_path}.securityContext.appArmorProfile")
    return errors


def _validate_match(kind: str, annotation: str | None, profile: Object | None, path: str) -> ErrorList:
    """``validateSeccompAnnotationsAndFieldsMatch``, ``validateAppArmorAnnotationsAndFieldsMatchOnCreate``."""
    if annotation is None or profile is None:
        return []
    match profile.get("type"):
        case "Unconfined":
            matches = annotation == "unconfined"
        case "RuntimeDefault":
            matches = annotation == "runtime/default" or (kind == "seccomp" and annotation == "docker/default")
        case "Localhost":
            matches = annotation.startswith(_LOCALHOST_PREFIX)
            if matches and annotation.removeprefix(_LOCALHOST_PREFIX) != profile.get("localhostProfile"):
                return [forbidden(f"{path}.localhostProfile", f"{kind} profile in annotation and field must match")]
        case _:
            matches = True
    return [] if matches else [forbidden(f"{path}.type", f"{kind} type in annotation and field must match")]
