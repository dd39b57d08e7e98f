"""Validation of Secrets. After kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36)."""

import base64
import json

from pilothouse.apiserver.field_errors import ErrorList, invalid, required, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.configmaps import MAX_DATA, validate_config_map_key, validate_immutable
from pilothouse.machinery.json_syntax import syntax_error

_REQUIRED_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


_DOCKER_CONFIG_TYPES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_JSON_TYPES = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}


def _json_object_error(data: bytes) -> str:
    """The error of Go's decoder if the text is not a JSON object; "" if it is."""
    error = syntax_error(data)
    if error is not None:
        return error
    kind = _JSON_TYPES.get(type(json.loads(data)))
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}" if kind else ""


def validate_secret(obj: Object) -> ErrorList:
    data = obj.get("data") or {}
    errors = validate_config_map_key(data, "data")
    if sum(len(value) * 3 // 4 for value in data.values()) > MAX_DATA:
        errors.append(too_long("data", MAX_DATA))
    kind = obj.get("type") or ""
    missing_keys = [
        key for key in _REQUIRED_KEYS.get(kind, ()) if key not in data or (kind.endswith("ssh-auth") and not data[key])
    ]
    errors += [required(f"data[{key}]") for key in missing_keys]
    if kind in _DOCKER_CONFIG_TYPES and not missing_keys:
        key = _REQUIRED_KEYS[kind][0]
        reason = _json_object_error(base64.b64decode(data[key]))
        errors += [invalid(f"data[{key}]", "<secret contents redacted>", reason)] if reason else []
    if kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
        errors += [required("data[username]"), required("data[password]")]
    if kind == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(
        "kubernetes.io/service-account.name"
    ):
        errors.append(required("metadata.annotations[kubernetes.io/service-account.name]"))
    return errors


def validate_secret_update(obj: Object, old: Object) -> ErrorList:
    all_errors = validate_immutable(obj, old, ("data",))
    if obj.get("type") != old.get("type"):
        all_errors.insert(0, invalid("type", obj.get("type"), "field is immutable"))
    return all_errors
