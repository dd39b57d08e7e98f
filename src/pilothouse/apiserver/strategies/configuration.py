"""ConfigMaps and Secrets. After kubernetes' ``pkg/apis/core/validation`` and ``v1/defaults.go`` (v1.36)."""

import base64
import json
from collections.abc import Iterable

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.machinery.json_syntax import syntax_error
from pilothouse.machinery.names import config_key_errors

MAX_DATA = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def _key_problems(data: Iterable[str], path: str) -> list[FieldError]:
    return [errors.invalid_value(f"{path}[{key}]", key, text) for key in data for text in config_key_errors(key)]


def _immutable_problems(obj: Object, old: Object, fields: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    problems = []
    if not obj.get("immutable"):
        problems.append(errors.not_allowed("immutable", _IMMUTABLE))
    return problems + [
        errors.not_allowed(field, _IMMUTABLE) for field in fields if (obj.get(field) or {}) != (old.get(field) or {})
    ]


class AccountStrategy(Strategy):
    """Secrets are referred to by name (pkg/registry/core/serviceaccount/strategy.go, v1.36)."""

    def prepare_create(self, obj: Object, now: str) -> None:
        _keep_names(obj)

    def prepare_update(self, obj: Object, old: Object) -> None:
        _keep_names(obj)


def _keep_names(account: Object) -> None:
    if account.get("secrets"):
        account["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in account["secrets"]]


class ConfigMapStrategy(Strategy):
    """At most 1 MiB, and fixed once it says so."""

    def validate(self, obj: Object) -> list[FieldError]:
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        problems = _key_problems(data, "data") + _key_problems(binary, "binaryData")
        problems += [
            errors.invalid_value(f"data[{key}]", key, "duplicate of key present in binaryData")
            for key in data
            if key in binary
        ]
        size = sum(len(text.encode()) for text in data.values()) + sum(len(text) * 3 // 4 for text in binary.values())
        if size > MAX_DATA:
            problems.append(errors.too_long("[]", MAX_DATA))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return _immutable_problems(obj, old, ("data", "binaryData")) + self.validate_again(obj)


_REQUIRED_KEYS = {
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


_OF_REGISTRIES = ("kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg")
_JSON_TYPES = {str: "string", bool: "bool", int: "number", float: "number", list: "array"}


def _object_fault(text: bytes) -> str:
    """Why it is no JSON object, as Go's decoder has it."""
    fault = syntax_error(text)
    if fault is not None:
        return fault
    kind = _JSON_TYPES.get(type(json.loads(text)))
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}" if kind else ""


class SecretStrategy(Strategy):
    """stringData becomes data; the type never changes."""

    selectable = {"type": ("type",)}  # read only

    def default(self, obj: Object) -> None:
        if not obj.get("type"):
            obj["type"] = "Opaque"
        for key, value in (obj.get("data") or {}).items():
            if value is None:
                # No bytes, as Go reads it.
                obj["data"][key] = ""
        text = obj.pop("stringData", None)
        if text:
            encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate(self, obj: Object) -> list[FieldError]:
        data = obj.get("data") or {}
        problems = _key_problems(data, "data")
        if sum(len(text) * 3 // 4 for text in data.values()) > MAX_DATA:
            problems.append(errors.too_long("data", MAX_DATA))
        kind = obj.get("type") or ""
        # Upstream means the key to be in place of the %s (validation.go, ValidateSecret); clients see it as it is.
        odd = "data[%s]" if kind == "kubernetes.io/ssh-auth" else "data"
        problems += [
            errors.required(f"{odd}[{key}]")
            for key in _REQUIRED_KEYS.get(kind, ())
            if key not in data or (kind.endswith("ssh-auth") and not data[key])
        ]
        if kind in _OF_REGISTRIES and not problems:
            key = _REQUIRED_KEYS[kind][0]
            why = _object_fault(base64.b64decode(data[key]))
            problems += [errors.invalid_value(f"data[{key}]", "<secret contents redacted>", why)] if why else []
        if kind == "kubernetes.io/basic-auth" and "username" not in data and "password" not in data:
            problems += [errors.required("data[%s][username]"), errors.required("data[%s][password]")]
        if kind == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(
            "kubernetes.io/service-account.name"
        ):
            problems.append(errors.required("metadata.annotations[kubernetes.io/service-account.name]"))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = _immutable_problems(obj, old, ("data",))
        if obj.get("type") != old.get("type"):
            problems.insert(0, errors.invalid_value("type", obj.get("type"), "field is immutable"))
        return problems + self.validate_again(obj)

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"
