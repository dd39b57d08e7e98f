"""Structural schemas: pruning, defaulting, validation of custom objects.

After apiextensions-apiserver's ``pkg/apiserver/schema/{pruning,defaulting}`` and kube-openapi's
``pkg/validation/validate``, whose words the messages have (v0.36).
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.customresources.formats import FORMATS
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.patterns import PatternError, compiled

Node = Mapping[str, Any]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")
_NOTHING: Node = {}


class _Missing:
    """No value, where None is one."""


_MISSING = _Missing()


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def prune(value: Any, node: Node, path: str = "", *, root: bool = True) -> list[str]:
    """Remove what the schema does not know, in place; the removed fields as ``unknown field "spec.x"``."""
    removed: list[str] = []
    if isinstance(value, list):
        items = node.get("items") or _NOTHING
        for position, item in enumerate(value):
            removed += prune(item, items, f"{path}[{position}]", root=False)
        return removed
    if not isinstance(value, dict):
        return removed
    keeps = bool(node.get(_PRESERVE))
    whole = root or bool(node.get(_EMBEDDED))
    properties = node.get("properties") or _NOTHING
    additional = node.get("additionalProperties")
    for name in list(value):
        if whole and name in _OBJECT_FIELDS:
            continue
        below = properties.get(name)
        if below is not None:
            removed += prune(value[name], below, _join(path, name), root=False)
        elif isinstance(additional, dict):
            removed += prune(value[name], additional, _join(path, name), root=False)
        elif not additional and not keeps:
            del value[name]
            removed.append(f'unknown field "{_join(path, name)}"')
    return removed


def apply_defaults(value: Any, node: Node) -> None:
    """Fill in defaults, top down, in place; nulls that are not allowed give way to the default, or go."""
    if isinstance(value, dict):
        properties = node.get("properties") or _NOTHING
        for name, below in properties.items():
            present = name in value
            if present and value[name] is None and not below.get("nullable"):
                if "default" in below:
                    value[name] = copy.deepcopy(below["default"])
                else:
                    del value[name]
            elif not present and "default" in below:
                value[name] = copy.deepcopy(below["default"])
            if value.get(name) is not None:
                apply_defaults(value[name], below)
        additional = node.get("additionalProperties")
        if isinstance(additional, dict):
            for name in [name for name in value if name not in properties]:
                if value[name] is None and not additional.get("nullable"):
                    del value[name]
                else:
                    apply_defaults(value[name], additional)
    elif isinstance(value, list) and node.get("items"):
        for item in value:
            apply_defaults(item, node["items"])


def validate(value: Any, node: Node, path: str = "", old: Any = _MISSING) -> list[FieldError]:
    """What is wrong with a value. What is the same as in ``old`` is not looked at: it was let in before."""
    if not isinstance(old, _Missing) and value == old:
        return []
    problems: list[FieldError] = []
    if value is None and node.get("nullable"):
        return []
    wanted = ["integer", "string"] if node.get(_INT_OR_STRING) else [node["type"]] if node.get("type") else []
    found = _type_of(value)
    if wanted and found not in wanted and not (found == "integer" and "number" in wanted):
        listed = ",".join(wanted)
        return [errors.invalid_type(path, found, f'{path} in body must be of type {listed}: "{found}"')]
    # In the order of kube-openapi's validators (``pkg/validation/validate/schema.go``).
    problems += _junction_problems(value, node, path)
    if isinstance(value, list):
        problems += _list_problems(value, node, path, old if isinstance(old, list) else _MISSING)
    elif isinstance(value, str):
        problems += _string_problems(value, node, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        problems += _number_problems(value, node, path)
    choices = node.get("enum")
    if choices is not None and value not in choices:
        # Upstream hands choices on as text.
        told = [choice if isinstance(choice, str) else errors.shown(choice) for choice in choices]
        problems.append(errors.not_supported(path, value, told))
    if isinstance(value, dict):
        problems += _object_problems(value, node, path, old if isinstance(old, dict) else _MISSING)
    return problems


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


def _object_problems(value: dict[str, Any], node: Node, path: str, old: Any) -> list[FieldError]:
    # Too few or too many end the look at an object.
    problems = _count_problems(len(value), node, path, "Properties", "properties")
    if problems:
        return problems
    properties = node.get("properties") or _NOTHING
    additional = node.get("additionalProperties")
    for name in node.get("required") or ():
        if name not in value:
            problems.append(errors.required(_join(path, name)))
    for name, member in value.items():
        below = properties.get(name)
        if below is None:
            if not isinstance(additional, dict):
                continue
            below = additional
        before = _MISSING if isinstance(old, _Missing) else old.get(name, _MISSING)
        problems += validate(member, below, _join(path, name), before)
    return problems


def _count_problems(count: int, node: Node, path: str, suffix: str, noun: str) -> list[FieldError]:
    least, most = node.get("min" + suffix), node.get("max" + suffix)
    problems = []
    if most is not None and count > most:
        problems.append(errors.too_many(path, count, most))
    if least is not None and count < least:
        problems.append(errors.invalid_value(path, count, f"{path} in body should have at least {least} {noun}"))
    return problems


def _list_problems(value: list[Any], node: Node, path: str, old: Any) -> list[FieldError]:
    problems: list[FieldError] = []
    items, kind = node.get("items") or _NOTHING, node.get("x-kubernetes-list-type")
    keys = node.get("x-kubernetes-list-map-keys") or ()
    before: dict[str, Any] = {}
    if kind == "map" and not isinstance(old, _Missing):
        before = {_identity(item, keys): item for item in old if isinstance(item, dict)}
    seen: set[str] = set()
    for position, item in enumerate(value):
        where = f"{path}[{position}]"
        identity = _identity(item, keys) if kind == "map" else errors.shown(item)
        if kind in ("map", "set"):
            if identity in seen:
                shown = {key: item.get(key) for key in keys if key in item} if kind == "map" else item
                problems.append(errors.duplicate(where, shown))
            seen.add(identity)
        problems += validate(item, items, where, before.get(identity, _MISSING))
    return problems + _count_problems(len(value), node, path, "Items", "items")


def _identity(item: Any, keys: Any) -> str:
    if not isinstance(item, dict):
        return errors.shown(item)
    return errors.shown([item.get(key) for key in keys])


def _matches(pattern: str, value: str) -> bool:
    try:
        return compiled(pattern).search(value) is not None
    except PatternError:
        return True  # the definition says so


def _string_problems(value: str, node: Node, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    most, least, pattern = node.get("maxLength"), node.get("minLength"), node.get("pattern")
    # The first of these is the only one told.
    if most is not None and len(value) > most:
        problems.append(errors.too_long(path, most))
    elif least is not None and len(value) < least:
        problems.append(errors.invalid_value(path, value, f"{path} in body should be at least {least} chars long"))
    elif pattern is not None and not _matches(pattern, value):
        problems.append(errors.invalid_value(path, value, f"{path} in body should match '{pattern}'"))
    check = FORMATS.get(node.get("format") or "")
    if check is not None and not check(value):
        problems.append(errors.invalid_type(path, value, f'{path} in body must be of type {node["format"]}: "{value}"'))
    return problems


def _number_problems(value: float, node: Node, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    least, most, factor = node.get("minimum"), node.get("maximum"), node.get("multipleOf")
    if most is not None and (value >= most if node.get("exclusiveMaximum") else value > most):
        told = f"less than {most}" if node.get("exclusiveMaximum") else f"less than or equal to {most}"
        problems.append(errors.invalid_value(path, value, f"{path} in body should be {told}"))
    if least is not None and (value <= least if node.get("exclusiveMinimum") else value < least):
        told = f"greater than {least}" if node.get("exclusiveMinimum") else f"greater than or equal to {least}"
        problems.append(errors.invalid_value(path, value, f"{path} in body should be {told}"))
    if factor and not math.isclose(math.remainder(value, factor), 0.0, abs_tol=1e-9):
        problems.append(errors.invalid_value(path, value, f"{path} in body should be a multiple of {factor}"))
    return problems


def _junction_problems(value: Any, node: Node, path: str) -> list[FieldError]:
    """allOf, anyOf, oneOf and not. Upstream reports these without a field."""
    problems: list[FieldError] = []
    every = [validate(value, below, path) for below in node.get("allOf") or ()]
    if any(every):
        for found in every:
            problems += found
        none = ". None validated" if all(every) else ""
        problems.append(_unplaced(f'"{path}" must validate all the schemas (allOf){none}'))
    for word, told in (
        ("anyOf", "must validate at least one schema (anyOf)"),
        ("oneOf", "must validate one and only one schema (oneOf)"),
    ):
        branches = node.get(word)
        if not branches:
            continue
        results = [validate(value, below, path) for below in branches]
        valid = sum(not result for result in results)
        if word == "anyOf" and valid:
            continue
        if word == "oneOf" and valid == 1:
            continue
        tail = ""
        if word == "oneOf":
            tail = ". Found none valid" if not valid else f". Found {valid} valid alternatives"
        problems.append(_unplaced(f'"{path}" {told}{tail}'))
        if not valid:
            problems += sorted(results, key=len)[0]
    if node.get("not") is not None and not validate(value, node["not"], path):
        problems.append(_unplaced(f'"{path}" must not validate the schema (not)'))
    return problems


def _unplaced(text: str) -> FieldError:
    return FieldError("<nil>", "FieldValueInvalid", f'Invalid value: "": {text}')
