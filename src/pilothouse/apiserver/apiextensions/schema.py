"""Structural schemas: pruning, defaulting and validation of custom objects.

After apiextensions-apiserver's ``pkg/apiserver/schema/{pruning,defaulting}`` and kube-openapi's
``pkg/validation/validate``, with its messages (v0.36).
"""

import copy
import math
from collections.abc import Mapping
from typing import Any

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.field_errors import ErrorList, FieldError
from pilothouse.machinery.patterns import PatternError, compiled
from pilothouse.machinery.string_formats import FORMATS

Node = Mapping[str, Any]
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_EMBEDDED = "x-kubernetes-embedded-resource"
_INT_OR_STRING = "x-kubernetes-int-or-string"
_LIST_TYPE, _KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_OBJECT_FIELDS = ("apiVersion", "kind", "metadata")
_EMPTY_SCHEMA: Node = {}


class _Missing:
    """The type of ``_MISSING``: no value, as opposed to a null."""


_MISSING = _Missing()


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def prune(value: Any, node: Node, path: str = "", *, root: bool = True) -> list[str]:
    """Remove fields that the schema does not specify, in place; returns ``unknown field "spec.x"`` for each."""
    removed: list[str] = []
    if isinstance(value, list):
        items = node.get("items") or _EMPTY_SCHEMA
        for position, item in enumerate(value):
            removed += prune(item, items, f"{path}[{position}]", root=False)
        return removed
    if not isinstance(value, dict):
        return removed
    preserves_unknown = bool(node.get(_PRESERVE))
    is_resource = root or bool(node.get(_EMBEDDED))
    properties = node.get("properties") or _EMPTY_SCHEMA
    additional = node.get("additionalProperties")
    for name in list(value):
        if is_resource and name in _OBJECT_FIELDS:
            continue
        property_schema = properties.get(name)
        if property_schema is not None:
            removed += prune(value[name], property_schema, _join(path, name), root=False)
        elif isinstance(additional, dict):
            removed += prune(value[name], additional, _join(path, name), root=False)
        elif not additional and not preserves_unknown:
            del value[name]
            removed.append(f'unknown field "{_join(path, name)}"')
    return removed


def prune_nulls(value: Any, node: Node) -> None:
    """Remove nulls of non-nullable fields without a default, in place (``PruneNonNullableNullsWithoutDefaults``)."""
    if isinstance(value, dict):
        properties, additional = node.get("properties") or _EMPTY_SCHEMA, node.get("additionalProperties")
        for name in list(value):
            member_schema = properties.get(name, additional)
            if not isinstance(member_schema, dict):
                continue
            if value[name] is None and not member_schema.get("nullable") and "default" not in member_schema:
                del value[name]
            else:
                prune_nulls(value[name], member_schema)
    elif isinstance(value, list) and node.get("items"):
        for item in value:
            prune_nulls(item, node["items"])


def apply_defaults(value: Any, node: Node) -> None:
    """Apply defaults, top down, in place; nulls that are not nullable are replaced by the default or removed."""
    if isinstance(value, dict):
        properties = node.get("properties") or _EMPTY_SCHEMA
        for name, property_schema in properties.items():
            present = name in value
            if present and value[name] is None and not property_schema.get("nullable"):
                if "default" in property_schema:
                    value[name] = copy.deepcopy(property_schema["default"])
                else:
                    del value[name]
            elif not present and "default" in property_schema:
                value[name] = copy.deepcopy(property_schema["default"])
            if value.get(name) is not None:
                apply_defaults(value[name], property_schema)
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


def validate(value: Any, node: Node, path: str = "", old: Any = _MISSING) -> ErrorList:
    """The errors in a value. Parts that are equal to ``old`` are not validated again (ratcheting)."""
    if not isinstance(old, _Missing) and json_equal(value, old):
        return []
    errors = _validate_type(value, node, path)
    # In the order of kube-openapi's validators (``pkg/validation/validate/schema.go``); all of them run.
    if value is not None:
        errors += _validate_junctors(value, node, path, old)
    if isinstance(value, str):
        errors += _validate_string(value, node, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        errors += _validate_number(value, node, path)
    elif isinstance(value, list):
        errors += _validate_list(value, node, path, old if isinstance(old, list) else _MISSING)
    enum = node.get("enum")
    if enum and not any(_equals_allowed(value, allowed) for allowed in enum if allowed is not None):
        # Upstream reports the enum as strings. It rejects null even if the enum contains it.
        text = [allowed if isinstance(allowed, str) else field_errors.format_value(allowed) for allowed in enum]
        errors.append(field_errors.not_supported(path, value, text, plain=True))
    if isinstance(value, dict):
        errors += _validate_object(value, node, path, old if isinstance(old, dict) else _MISSING)
    return errors


def json_equal(first: Any, second: Any) -> bool:
    """Whether two JSON values are equal. In Python ``True == 1``."""
    if first != second:
        return False
    if isinstance(first, dict):
        return all(json_equal(value, second[name]) for name, value in first.items())
    if isinstance(first, list):
        return all(map(json_equal, first, second))
    return isinstance(first, bool) == isinstance(second, bool)


def _equals_allowed(value: Any, allowed: Any) -> bool:
    """Whether a value is one of an enum. Upstream converts it to the type of the allowed one: 2.5 to the integer 2."""
    if isinstance(value, float) and type(allowed) is int:
        return int(value) == allowed
    return json_equal(value, allowed)


def _validate_type(value: Any, node: Node, path: str) -> ErrorList:
    expected = ["integer", "string"] if node.get(_INT_OR_STRING) else [node["type"]] if node.get("type") else []
    if value is None:
        return [_type_error(path, ",".join(expected), "null")] if expected and not node.get("nullable") else []
    actual, detail = _type_of(value)
    fits = actual in expected or (actual == "integer" and "number" in expected)
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) <= _MAX_EXACT
    fits = fits or (is_whole and "integer" in expected)
    format_ = _effective_format(node, expected)
    if format_ and not isinstance(value, str | list) and not fits and detail != format_:
        return [_type_error(path, format_, detail)]
    if format_ and isinstance(value, str | list) and expected in ([], ["string"]):
        return []  # strings are validated by the format
    return [_type_error(path, ",".join(expected), actual)] if expected and not fits else []


def _type_error(path: str, expected: str, actual: str) -> FieldError:
    return field_errors.type_invalid(
        path, actual, f"{path} in body must be of type {expected}: {field_errors.format_value(actual)}"
    )


def _effective_format(node: Node, expected: list[str]) -> str:
    """The format, unless upstream ignores it for values of that type (apiextensions ``validation/formats.go``)."""
    format_: str = node.get("format") or ""
    if expected == ["integer"]:
        return format_ if format_ in ("int32", "int64") else ""
    if expected == ["number"]:
        return format_ if format_ in ("float", "double") else ""
    return format_ if expected in ([], ["string"]) and (format_ in FORMATS or format_ == "password") else ""


def _type_of(value: Any) -> tuple[str, str]:
    """The JSON schema type of a value, and the format of Go's type for it."""
    match value:
        case bool():
            return "boolean", ""
        case int() if -_MAX_INT <= value < _MAX_INT:
            return "integer", "int64"
        case int() | float():
            return "number", "float64"
        case str():
            return "string", ""
        case dict():
            return "object", ""
        case _:
            return "array", ""


_MAX_INT = 1 << 63
_MAX_EXACT = (1 << 53) - 1
"""Larger floats may represent a different integer (go-openapi ``swag.IsFloat64AJSONInteger``)."""


def _validate_object(value: dict[str, Any], node: Node, path: str, old: Any) -> ErrorList:
    errors = _validate_count(len(value), node, path, "Properties", "properties")
    properties = node.get("properties") or _EMPTY_SCHEMA
    additional = node.get("additionalProperties")
    for name, member in value.items():
        member_schema, member_path = properties.get(name), _join(path, name)
        if member_schema is None:
            if not isinstance(additional, dict):
                continue
            # As upstream, with a dot also at the root, which defaults may have.
            member_schema, member_path = additional, f"{path}.{name}"
        old_member = _MISSING if isinstance(old, _Missing) else old.get(name, _MISSING)
        errors += validate(member, member_schema, member_path, old_member)
    for name in node.get("required") or ():
        if name not in value:
            errors.append(field_errors.required(_join(path, name)))
    return errors


def _validate_count(count: int, node: Node, path: str, suffix: str, noun: str) -> ErrorList:
    minimum, maximum = node.get("min" + suffix), node.get("max" + suffix)
    field, errors = path or "<nil>", []
    if minimum is not None and count < minimum:
        errors.append(field_errors.invalid(field, count, f"{path} in body should have at least {minimum} {noun}"))
    if maximum is not None and count > maximum:
        errors.append(field_errors.too_many(field, count, maximum))
    return errors


def _validate_list(value: list[Any], node: Node, path: str, old: Any) -> ErrorList:
    errors: ErrorList = []
    items, keys = node.get("items") or _EMPTY_SCHEMA, node.get(_KEYS) or ()
    old_items: dict[str, Any] = {}
    if node.get(_LIST_TYPE) == "map" and not isinstance(old, _Missing):
        old_items = {_identity(item, keys): item for item in old if isinstance(item, dict)}
    for position, item in enumerate(value):
        old_item = old_items.get(_identity(item, keys), _MISSING) if old_items else _MISSING
        errors += validate(item, items, f"{path}[{position}]", old_item)
    return errors + _validate_count(len(value), node, path, "Items", "items")


def _identity(item: Any, keys: Any) -> str:
    """The values of a list item's keys (lists of type map)."""
    if not isinstance(item, dict):
        return field_errors.format_value({})
    return field_errors.format_value([item.get(key, _EMPTY_SCHEMA) for key in keys])


def validate_list(value: Any, node: Node, path: str = "") -> ErrorList:
    """The errors about duplicate items in lists of type set or map (apiextensions
    ``pkg/apiserver/schema/listtype``)."""
    errors: ErrorList = []
    if isinstance(value, list):
        if node.get(_LIST_TYPE) == "set":
            errors += _duplicate_errors([field_errors.format_value(item) for item in value], value, path)
        elif node.get(_LIST_TYPE) == "map":
            errors += _duplicate_item_errors(value, node.get(_KEYS) or (), path)
        if node.get("items"):
            for position, item in enumerate(value):
                errors += validate_list(item, node["items"], f"{path}[{position}]")
    elif isinstance(value, dict):
        properties, additional = node.get("properties") or _EMPTY_SCHEMA, node.get("additionalProperties")
        for name, member in value.items():
            if name in properties:
                errors += validate_list(member, properties[name], _join(path, name))
            elif isinstance(additional, dict):
                errors += validate_list(member, additional, f"{path}[{name}]")
    return errors


def _duplicate_item_errors(items: list[Any], keys: Any, path: str) -> ErrorList:
    for position, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            detail = "must be an object for an array of list-type map"
            return [field_errors.invalid(f"{path}[{position}]", item, detail)]
    values = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    return _duplicate_errors([_identity(item, keys) for item in items], values, path)


def _duplicate_errors(identities: list[str], values: list[Any], path: str) -> ErrorList:
    """One error for each item that occurs more than once."""
    errors: ErrorList = []
    counts: dict[str, int] = {}
    for position, identity in enumerate(identities):
        counts[identity] = counts.get(identity, 0) + 1
        if counts[identity] == 2:
            errors.append(field_errors.duplicate(f"{path}[{position}]", values[position]))
    return errors


def _matches(pattern: str, value: str) -> bool:
    try:
        return compiled(pattern).search(value) is not None
    except PatternError:
        return True  # the pattern is reported with the definition


def _validate_string(value: str, node: Node, path: str) -> ErrorList:
    errors: ErrorList = []
    maximum, minimum, pattern = node.get("maxLength"), node.get("minLength"), node.get("pattern")
    # Only the first error is reported.
    if maximum is not None and len(value) > maximum:
        errors.append(field_errors.too_long(path, maximum))
    elif minimum is not None and len(value) < minimum:
        errors.append(field_errors.invalid(path, value, f"{path} in body should be at least {minimum} chars long"))
    elif pattern is not None and not _matches(pattern, value):
        errors.append(field_errors.invalid(path, value, f"{path} in body should match '{pattern}'"))
    check = FORMATS.get(node.get("format") or "")
    if check is not None and not check(value):
        errors.append(
            field_errors.type_invalid(path, value, f'{path} in body must be of type {node["format"]}: "{value}"')
        )
    return errors


def _validate_number(value: float, node: Node, path: str) -> ErrorList:
    errors = _validate_range(value, node, path)
    minimum, maximum, factor = (_bound(node.get(name), value) for name in ("minimum", "maximum", "multipleOf"))
    if factor is not None and factor <= 0:
        text = f"factor MultipleOf declared for {path} must be positive: {field_errors.format_value(factor)}"
        errors.append(field_errors.invalid(path, factor, text))
    elif factor is not None and not _is_multiple(value, factor):
        errors.append(field_errors.invalid(path, value, f"{path} in body should be a multiple of {factor}"))
    if minimum is not None and (value <= minimum if node.get("exclusiveMinimum") else value < minimum):
        text = f"greater than {minimum}" if node.get("exclusiveMinimum") else f"greater than or equal to {minimum}"
        errors.append(field_errors.invalid(path, value, f"{path} in body should be {text}"))
    if maximum is not None and (value >= maximum if node.get("exclusiveMaximum") else value > maximum):
        text = f"less than {maximum}" if node.get("exclusiveMaximum") else f"less than or equal to {maximum}"
        errors.append(field_errors.invalid(path, value, f"{path} in body should be {text}"))
    return errors


def _bound(bound: float | None, value: float) -> float | None:
    """The bound for a value: upstream compares integers with integers."""
    return int(bound) if bound is not None and isinstance(value, int) else bound


_RANGES = {"int32": 1 << 31, "int64": _MAX_INT, "": _MAX_INT}
_MAX_FLOAT32 = (2 - 2**-23) * 2.0**127


def _validate_range(value: float, node: Node, path: str) -> ErrorList:
    """The errors of numbers out of the range of their format (since v1.36). Upstream reports it without a field."""
    if node.get(_INT_OR_STRING):
        return []
    kind = node.get("type") or ""
    format_ = _effective_format(node, [kind])
    if kind == "integer":
        is_whole = isinstance(value, int) or value.is_integer()
        fits = is_whole and -_RANGES[format_] <= value < _RANGES[format_]
    else:
        fits = format_ != "float" or abs(value) <= _MAX_FLOAT32
    if fits:
        return []
    format_text = f"with format {format_}" if format_ else "(default format)"
    return [_error_without_field(f"Checked value must be of type {kind} {format_text} in {path}")]


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and float(factor).is_integer():
        return value % int(factor) == 0
    quotient = 1 / factor * value if factor < 1 else value / factor
    return abs(quotient) <= _MAX_EXACT and math.isclose(quotient, round(quotient), rel_tol=1e-9)


def _validate_junctors(value: Any, node: Node, path: str, old: Any) -> ErrorList:
    """Validate anyOf, oneOf, allOf and not. Upstream reports these without a field."""
    errors: ErrorList = []
    for keyword, text in (
        ("anyOf", "must validate at least one schema (anyOf)"),
        ("oneOf", "must validate one and only one schema (oneOf)"),
    ):
        branches = node.get(keyword)
        if not branches:
            continue
        results = [validate(value, branch, path, old) for branch in branches]
        valid = sum(not result for result in results)
        if keyword == "anyOf" and valid:
            continue
        if keyword == "oneOf" and valid == 1:
            continue
        suffix = ""
        if keyword == "oneOf":
            suffix = ". Found none valid" if not valid else f". Found {valid} valid alternatives"
        errors.append(_error_without_field(f'"{path}" {text}{suffix}'))
        if not valid:
            errors += sorted(results, key=len)[0]
    all_of_results = [validate(value, branch, path, old) for branch in node.get("allOf") or ()]
    if any(all_of_results):
        for branch_errors in all_of_results:
            errors += branch_errors
        suffix = ". None validated" if all(all_of_results) else ""
        errors.append(_error_without_field(f'"{path}" must validate all the schemas (allOf){suffix}'))
    if node.get("not") is not None and not validate(value, node["not"], path, old):
        errors.append(_error_without_field(f'"{path}" must not validate the schema (not)'))
    return errors


def _error_without_field(text: str) -> FieldError:
    return FieldError("<nil>", "FieldValueInvalid", f'Invalid value: "": {text}')
