"""Secrets."""

import base64
from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.core.secrets import validation as secret_validation
    from pilothouse.apiserver.registry.core.secrets import warnings as secret_warnings


class SecretStrategy(Strategy):
    """``v1`` Secrets. ``stringData`` is merged into ``data``; ``type`` is immutable."""

    update_steps = ("object meta update", "update", "object meta", "object")

    selectable = {"type": ("type",)}  # read only

    def set_defaults(self, obj: Object) -> None:
        set_defaults_secret(obj)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return secret_warnings.warnings_for_secret(obj) if obj.get("type") == "kubernetes.io/tls" else ()

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        return secret_validation.validate_secret(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return secret_validation.validate_secret_update(obj, old)

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def set_defaults_secret(obj: Object) -> None:
    if not obj.get("type"):
        obj["type"] = "Opaque"
    for key, value in (obj.get("data") or {}).items():
        if value is None:
            # Go decodes null as an empty byte slice.
            obj["data"][key] = ""
    string_data = obj.pop("stringData", None)
    if string_data:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in string_data.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def print_secret(value: Doc, now: Now) -> Row:
    return [value.get("type", ""), len(value.get("data") or ())]


REGISTRATION = Registration(
    SecretStrategy(),
    printer=lambda: Printer((NAME, *columns("Type", "Data"), AGE), print_secret),
)
