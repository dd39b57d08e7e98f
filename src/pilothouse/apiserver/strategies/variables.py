"""Where a container's variables come from.

After ``ValidateEnv``, ``ValidateEnvFrom`` and what they call in kubernetes'
``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Iterable, Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.field_references import OF_VARIABLES, field_problems, resource_problems
from pilothouse.apiserver.strategies.security_contexts import visited
from pilothouse.machinery.names import config_key_errors, dns_label_errors, dns_subdomain_errors

_NAME = "a valid environment variable name must consist only of printable ASCII characters other than '='"
_ONE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def variable_problems(variables: Sequence[Object], path: str) -> list[FieldError]:
    """What is wrong with variables that are listed."""
    problems: list[FieldError] = []
    for position, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            problems.append(errors.required(f"{path}[{position}].name"))
        elif not _is_name(name):
            problems.append(errors.invalid_value(f"{path}[{position}].name", name, _NAME))
        source = variable.get("valueFrom")
        if source is not None:
            problems += _source_problems(variable, source, f"{path}[{position}].valueFrom")
    return problems


def _is_name(text: str) -> bool:
    return text.isascii() and text.isprintable() and "=" not in text


def _source_problems(variable: Object, source: Object, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    given = [field for field in _SOURCES if source.get(field) is not None]
    for field in given:
        reference, where = source[field], f"{path}.{field}"
        match field:
            case "fieldRef":
                problems += field_problems(reference, where, OF_VARIABLES)
            case "resourceFieldRef":
                problems += resource_problems(reference, where, in_file=False)
            case "fileKeyRef":
                problems += _file_problems(reference, where)
            case _:
                problems += _key_problems(reference, where)
    if not given:
        problems.append(errors.invalid_value(path, "", _ONE))
    elif variable.get("value"):
        problems.append(errors.invalid_value(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        problems.append(errors.invalid_value(path, "", "may not have more than one field specified at a time"))
    return problems


def _all(path: str, value: str, texts: Iterable[str]) -> list[FieldError]:
    return [errors.invalid_value(path, value, text) for text in texts]


def _key_problems(reference: Object, path: str) -> list[FieldError]:
    """A key of a ConfigMap or a Secret. A name that is missing is one that is no name."""
    name, key = reference.get("name") or "", reference.get("key") or ""
    problems = _all(f"{path}.name", name, dns_subdomain_errors(name))
    if not key:
        return [*problems, errors.required(f"{path}.key")]
    return problems + _all(f"{path}.key", key, config_key_errors(key))


def _file_problems(reference: Object, path: str) -> list[FieldError]:
    """A key of a file that an init container writes."""
    key, volume, file = (reference.get(field) or "" for field in ("key", "volumeName", "path"))
    problems: list[FieldError] = []
    if not key:
        problems.append(errors.required(f"{path}.key"))
    elif not _is_name(key):
        problems.append(errors.invalid_value(f"{path}.key", key, _NAME))
    if not volume:
        problems.append(errors.required(f"{path}.volumeName"))
    else:
        problems += _all(f"{path}.volumeName", volume, dns_label_errors(volume))
    if not file:
        problems.append(errors.required(f"{path}.path"))
    elif ".." in file.split("/"):
        problems.append(errors.invalid_value(f"{path}.path", file, "must not contain '..'"))
    return problems


def whole_source_problems(sources: Sequence[Object], path: str) -> list[FieldError]:
    """What is wrong with ConfigMaps and Secrets of which all keys become variables."""
    problems: list[FieldError] = []
    for position, source in enumerate(sources):
        where, prefix = f"{path}[{position}]", source.get("prefix")
        if prefix and not _is_name(prefix):
            problems.append(errors.invalid_value(f"{where}.prefix", prefix, _NAME))
        given = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in given:
            name = source[field].get("name")
            if not name:
                problems.append(errors.required(f"{where}.{field}.name"))
            else:
                # As the beginning of a name, which may end with a hyphen.
                rest = name[:-2] + "a" if len(name) > 1 and name.endswith("-") else name
                problems += _all(f"{where}.{field}.name", name, dns_subdomain_errors(rest))
        # Upstream names the list rather than the one.
        if not given:
            problems.append(errors.invalid_value(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            problems.append(errors.invalid_value(path, "", "may not have more than one field specified at a time"))
    return problems


def file_volume_problems(spec: Object, path: str) -> list[FieldError]:
    """Files with variables are in volumes that are empty at first (``validateFileKeyRefVolumes``)."""
    problems: list[FieldError] = []
    volumes: dict[str, Object] | None = None
    for where, container in visited(spec, path):
        for position, variable in enumerate(container.get("env") or ()):
            reference = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if reference is None:
                continue
            if volumes is None:
                volumes = {volume.get("name") or "": volume for volume in spec.get("volumes") or ()}
            name = reference.get("volumeName") or ""
            field = f"{where}.env[{position}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                problems.append(errors.value_not_found(field, name))
            elif volumes[name].get("emptyDir") is None:
                problems.append(errors.invalid_value(field, name, "referenced volume must be of type emptyDir"))
    return problems
