"""Validation of environment variables.

After ``ValidateEnv``, ``ValidateEnvFrom`` and the functions they call in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, all_invalid, invalid, not_found, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.field_references import (
    ENV_FIELD_PATHS,
    validate_container_resource_field_selector,
    validate_object_field_selector,
)
from pilothouse.apiserver.registry.core.pods.security_context import visit_containers
from pilothouse.machinery.names import config_key_errors, dns_label_errors, dns_subdomain_errors

_INVALID_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_MISSING_SOURCE = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
)
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def validate_env(variables: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    for position, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.append(required(f"{path}[{position}].name"))
        elif not _is_env_var_name(name):
            errors.append(invalid(f"{path}[{position}].name", name, _INVALID_NAME))
        source = variable.get("valueFrom")
        if source is not None:
            errors += _validate_env_var_value_from(variable, source, f"{path}[{position}].valueFrom")
    return errors


def _is_env_var_name(name: str) -> bool:
    return name.isascii() and name.isprintable() and "=" not in name


def _validate_env_var_value_from(variable: Object, source: Object, path: str) -> ErrorList:
    errors: ErrorList = []
    sources_set = [field for field in _SOURCES if source.get(field) is not None]
    for field in sources_set:
        reference, child_path = source[field], f"{path}.{field}"
        match field:
            case "fieldRef":
                errors += validate_object_field_selector(reference, child_path, ENV_FIELD_PATHS)
            case "resourceFieldRef":
                errors += validate_container_resource_field_selector(reference, child_path, in_volume=False)
            case "fileKeyRef":
                errors += _validate_file_key_selector(reference, child_path)
            case _:
                errors += _validate_key_selector(reference, child_path)
    if not sources_set:
        errors.append(invalid(path, "", _MISSING_SOURCE))
    elif variable.get("value"):
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(sources_set) > 1:
        errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def _validate_key_selector(reference: Object, path: str) -> ErrorList:
    """A key of a ConfigMap or Secret. An empty name is reported as invalid."""
    name, key = reference.get("name") or "", reference.get("key") or ""
    all_errors = all_invalid(f"{path}.name", name, dns_subdomain_errors(name))
    if not key:
        return [*all_errors, required(f"{path}.key")]
    return all_errors + all_invalid(f"{path}.key", key, config_key_errors(key))


def _validate_file_key_selector(reference: Object, path: str) -> ErrorList:
    """``validateFileKeySelector``: a key of a file that an init container writes."""
    key, volume, file = (reference.get(field) or "" for field in ("key", "volumeName", "path"))
    errors: ErrorList = []
    if not key:
        errors.append(required(f"{path}.key"))
    elif not _is_env_var_name(key):
        errors.append(invalid(f"{path}.key", key, _INVALID_NAME))
    if not volume:
        errors.append(required(f"{path}.volumeName"))
    else:
        errors += all_invalid(f"{path}.volumeName", volume, dns_label_errors(volume))
    if not file:
        errors.append(required(f"{path}.path"))
    elif ".." in file.split("/"):
        errors.append(invalid(f"{path}.path", file, "must not contain '..'"))
    return errors


def validate_env_from(sources: Sequence[Object], path: str) -> ErrorList:
    errors: ErrorList = []
    for position, source in enumerate(sources):
        child_path, prefix = f"{path}[{position}]", source.get("prefix")
        if prefix and not _is_env_var_name(prefix):
            errors.append(invalid(f"{child_path}.prefix", prefix, _INVALID_NAME))
        sources_set = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in sources_set:
            name = source[field].get("name")
            if not name:
                errors.append(required(f"{child_path}.{field}.name"))
            else:
                # Upstream validates the name as a prefix, which may end with a hyphen.
                masked = name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name
                errors += all_invalid(f"{child_path}.{field}.name", name, dns_subdomain_errors(masked))
        # Upstream's path is that of the list.
        if not sources_set:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(sources_set) > 1:
            errors.append(invalid(path, "", "may not have more than one field specified at a time"))
    return errors


def validate_file_key_ref_volumes(spec: Object, path: str) -> ErrorList:
    """``validateFileKeyRefVolumes``: the volumes of ``fileKeyRef`` must be of type emptyDir."""
    errors: ErrorList = []
    volumes: dict[str, Object] | None = None
    for child_path, container in visit_containers(spec, path):
        for position, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            if volumes is None:
                volumes = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
            name = reference.get("volumeName") or ""
            field = f"{child_path}.env[{position}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(not_found(field, name))
            elif volumes[name].get("emptyDir") is None:
                errors.append(invalid(field, name, "referenced volume must be of type emptyDir"))
    return errors
