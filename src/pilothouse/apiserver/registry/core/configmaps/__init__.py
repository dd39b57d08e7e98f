"""ConfigMaps."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, too_long
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.names import config_key_errors

MAX_DATA = 1024 * 1024
_IMMUTABLE = "field is immutable when `immutable` is set"


def validate_config_map_key(data: Iterable[str], path: str) -> ErrorList:
    return [invalid(f"{path}[{key}]", key, msg) for key in data for msg in config_key_errors(key)]


def validate_immutable(obj: Object, old: Object, fields: tuple[str, ...]) -> ErrorList:
    if not old.get("immutable"):
        return []
    errors = []
    if not obj.get("immutable"):
        errors.append(forbidden("immutable", _IMMUTABLE))
    return errors + [
        forbidden(field, _IMMUTABLE) for field in fields if (obj.get(field) or {}) != (old.get(field) or {})
    ]


class ConfigMapStrategy(Strategy):
    """ConfigMaps: at most 1 MiB of data, which cannot change once ``immutable`` is set."""

    update_steps = ("object meta update", "update", "object meta", "object")

    def validate(self, obj: Object) -> ErrorList:
        data, binary_data = obj.get("data") or {}, obj.get("binaryData") or {}
        errors: ErrorList = []
        for key in data:
            errors += validate_config_map_key((key,), "data")
            if key in binary_data:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        errors += validate_config_map_key(binary_data, "binaryData")
        size = sum(len(value.encode()) for value in data.values()) + sum(
            len(value) * 3 // 4 for value in binary_data.values()
        )
        if size > MAX_DATA:
            errors.append(too_long("[]", MAX_DATA))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable(obj, old, ("data", "binaryData"))


def print_config_map(value: Doc, now: Now) -> Row:
    return [len(value.get("data") or ()) + len(value.get("binaryData") or ())]


REGISTRATION = Registration(
    ConfigMapStrategy(),
    printer=lambda: Printer((NAME, *columns("Data"), AGE), print_config_map),
)
