"""The functions that templates may call: Go's own, KWOK's, and the part of sprig that stages use.

The order of arguments is sprig's: the value of a pipe is the last one. ``CONTEXT`` are those that depend on the cluster
or the time; the caller of ``render`` passes them.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable
from typing import Any

import yaml

from pilothouse.machinery.durations import DurationError, format_duration, parse_duration
from pilothouse.machinery.go_text import print_float, print_value, quote

CONTEXT = frozenset(
    {
        "Now", "now", "StartTime", "Version", "NodeConditions", "NodeIP", "NodeName", "NodePort", "NodeIPWith",
        "NodeIPsWith", "PodIP", "PodIPWith", "PodIPsWith", "randInt", "randAlphaNum", "uuidv4",
    }
)  # fmt: skip
"""Functions that depend on more than their arguments."""


class FunctionError(ValueError):
    """A function cannot be evaluated for these arguments."""


def truth(value: Any) -> bool:
    """Go's ``IsTrue``: whatever is empty, zero or missing is false."""
    return bool(value)


def show(value: Any) -> str:
    """A value as an action prints it."""
    if isinstance(value, str):
        return value
    return "<no value>" if value is None else print_value(value)


# Go's own


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _equal(first: Any, *others: Any) -> bool:
    if not others:
        raise FunctionError("missing argument for comparison")
    for other in others:
        if first is None or other is None:
            if first is other:
                return True
            continue
        if _kind(first) != _kind(other):
            raise FunctionError(f"incompatible types for comparison: {show(first)} and {show(other)}")
        if first == other:
            return True
    return False


def _less(a: Any, b: Any) -> bool:
    if _kind(a) != _kind(b) or _kind(a) not in ("number", "str"):
        raise FunctionError(f"incompatible types for comparison: {show(a)} and {show(b)}")
    return bool(a < b)


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if value is None:
            raise FunctionError("index of nothing")
        if isinstance(value, dict):
            if not isinstance(key, str):
                raise FunctionError(f"value has type {_kind(key)}; should be string")
            value = value.get(key)
        elif isinstance(value, list):
            if not isinstance(key, int) or isinstance(key, bool):
                raise FunctionError(f"cannot index a list with {show(key)}")
            if not 0 <= key < len(value):
                raise FunctionError(f"index out of range: {key}")
            value = value[key]
        else:
            raise FunctionError(f"can't index item of {show(value)}")
    return value


def _slice(value: Any, *bounds: int) -> Any:
    if not isinstance(value, list | str) or len(bounds) > 2:
        raise FunctionError(f"can't slice {show(value)}")
    start, stop = (*bounds, *(0, len(value))[len(bounds) :])
    if not 0 <= start <= stop <= len(value):
        raise FunctionError(f"slice index out of range: {start}:{stop}")
    return value[start:stop]


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if not isinstance(value, dict | list):
        raise FunctionError(f"len of {show(value)}")
    return len(value)


_VERB = re.compile(r"%(?P<flags>[-+0 #]*)(?P<width>\d*)(?:\.(?P<precision>\d+))?(?P<verb>.)")


def _printf(pattern: str, *arguments: Any) -> str:
    remaining = list(arguments)

    def fill(match: re.Match[str]) -> str:
        verb = match["verb"]
        if verb == "%":
            return "%"
        if not remaining:
            return f"%!{verb}(MISSING)"
        return _format(remaining.pop(0), verb, match["flags"], match["width"], match["precision"])

    text = _VERB.sub(fill, pattern)
    return text + (f"%!(EXTRA {', '.join(f'{_kind(a)}={show(a)}' for a in remaining)})" if remaining else "")


def _format(value: Any, verb: str, flags: str, width: str, precision: str | None) -> str:
    match verb:
        case "s" | "v":
            text = print_value(value)
        case "q":
            text = quote(str(value))
        case "t":
            text = print_value(value)
        case "d" | "x" | "X" | "o" | "b" | "c":
            text = format(_integer(value), verb)
        case "f" | "F" | "e" | "g":
            text = format(float(_number(value)), f".{precision or 6}{verb}")
        case _:
            raise FunctionError(f"printf verb %{verb} is not supported")
    if "+" in flags and verb in "dfFeg" and not text.startswith("-"):
        text = "+" + text
    size = int(width or 0)
    return text.ljust(size) if "-" in flags else text.rjust(size, "0" if "0" in flags else " ")


# KWOK's (``pkg/utils/gotpl/funcs.go``)


def _kwok_quote(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.startswith('"') else quote(text)


def _yaml(value: Any, indent: int = 0) -> str:
    text = yaml.dump(value, Dumper=_DUMPER, default_flow_style=False, allow_unicode=True, width=1 << 20)
    if text.endswith("\n...\n"):
        text = text[:-4]
    return ("\n" + text).replace("\n", "\n" + "  " * indent) if indent > 0 else text


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


# sprig's


def _number(value: Any) -> int | float:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float):
        return value
    try:
        return int(value, 0)
    except (TypeError, ValueError):
        try:
            return float(value)
        except (TypeError, ValueError):
            return 0  # sprig's casts never fail


def _integer(value: Any) -> int:
    return int(_number(value))


def _divide(a: Any, b: Any) -> int:
    if _integer(b) == 0:
        raise FunctionError("integer divide by zero")
    quotient = abs(_integer(a)) // abs(_integer(b))
    return quotient if (_integer(a) < 0) == (_integer(b) < 0) else -quotient


def _modulo(a: Any, b: Any) -> int:
    return _integer(a) - _integer(b) * _divide(a, b)


def _dict(*pairs: Any) -> dict[str, Any]:
    return {show(pairs[index]): pairs[index + 1] if index + 1 < len(pairs) else "" for index in range(0, len(pairs), 2)}


def _default(fallback: Any, value: Any = None) -> Any:
    return value if truth(value) else fallback


def _coalesce(*values: Any) -> Any:
    return next((value for value in values if truth(value)), None)


def _join(separator: str, values: Any) -> str:
    return separator.join(show(value) for value in (values if isinstance(values, list) else [values]))


def _merge(*maps: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for mapping in reversed(maps):
        merged.update(mapping or {})
    return merged


def _until(count: Any) -> list[int]:
    return list(range(_integer(count)))


def _indent(spaces: int, text: str) -> str:
    pad = " " * spaces
    return pad + text.replace("\n", "\n" + pad)


def _truncate(length: int, text: str) -> str:
    return text[:length] if length >= 0 else text[length:]


def _sprig_quote(*values: Any) -> str:
    return " ".join(quote(show(value)) for value in values if value is not None)


def _duration(value: Any) -> str:
    try:
        return format_duration(parse_duration(value) if isinstance(value, str) else float(_number(value)))
    except DurationError as error:
        raise FunctionError(str(error)) from error


def _from_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise FunctionError(f"not JSON: {error}") from error


def _as_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise FunctionError(f"expects a list, got {show(value)}")
    return value


def _round(value: Any, digits: int = 0) -> str:
    return print_float(round(float(_number(value)), digits))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    # Go
    "eq": _equal,
    "ne": lambda a, b: not _equal(a, b),
    "lt": _less,
    "le": lambda a, b: not _less(b, a),
    "gt": lambda a, b: _less(b, a),
    "ge": lambda a, b: not _less(a, b),
    "not": lambda value: not truth(value),
    "index": _index,
    "slice": _slice,
    "len": _length,
    "print": lambda *values: "".join(show(value) for value in values),
    "println": lambda *values: " ".join(show(value) for value in values) + "\n",
    "printf": _printf,
    # KWOK
    "Quote": _kwok_quote,
    "YAML": _yaml,
    # sprig: values
    "default": _default,
    "empty": lambda value=None: not truth(value),
    "coalesce": _coalesce,
    "ternary": lambda yes, no, test: yes if truth(test) else no,
    "toString": show,
    "int": _integer,
    "int64": _integer,
    "float64": lambda value: float(_number(value)),
    "toJson": lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")),
    "fromJson": _from_json,
    "kindIs": lambda kind, value: {"string": "str", "map": "dict", "slice": "list"}.get(kind, kind) == _kind(value),
    # sprig: numbers
    "add": lambda *values: sum(_integer(value) for value in values),
    "add1": lambda value: _integer(value) + 1,
    "sub": lambda a, b: _integer(a) - _integer(b),
    "mul": lambda *values: math.prod(map(_integer, values)),
    "div": _divide,
    "mod": _modulo,
    "min": lambda *values: min(_integer(value) for value in values),
    "max": lambda *values: max(_integer(value) for value in values),
    "round": _round,
    "until": _until,
    # sprig: strings
    "quote": _sprig_quote,
    "squote": lambda *values: " ".join(f"'{show(value)}'" for value in values if value is not None),
    "upper": str.upper,
    "lower": str.lower,
    "title": str.title,
    "trim": str.strip,
    "trimAll": lambda cut, text: text.strip(cut),
    "trimPrefix": lambda cut, text: text.removeprefix(cut),
    "trimSuffix": lambda cut, text: text.removesuffix(cut),
    "replace": lambda old, new, text: text.replace(old, new),
    "contains": lambda part, text: part in text,
    "hasPrefix": lambda part, text: text.startswith(part),
    "hasSuffix": lambda part, text: text.endswith(part),
    "repeat": lambda count, text: text * _integer(count),
    "trunc": _truncate,
    "indent": _indent,
    "nindent": lambda spaces, text: "\n" + _indent(spaces, text),
    "splitList": lambda separator, text: text.split(separator),
    "join": _join,
    "cat": lambda *values: " ".join(show(value) for value in values),
    "b64enc": lambda text: base64.b64encode(text.encode()).decode(),
    "b64dec": lambda text: base64.b64decode(text).decode(),
    "sha256sum": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "duration": _duration,
    # sprig: lists and maps
    "list": lambda *values: list(values),
    "first": lambda values: _as_list(values)[0] if values else None,
    "last": lambda values: _as_list(values)[-1] if values else None,
    "rest": lambda values: _as_list(values)[1:],
    "append": lambda values, value: [*_as_list(values), value],
    "concat": lambda *lists: [item for sequence in lists for item in sequence],
    "has": lambda value, values: value in (values or []),
    "uniq": lambda values: list(dict.fromkeys(values)),
    "sortAlpha": lambda values: sorted(map(show, values)),
    "dict": _dict,
    "get": lambda mapping, key: mapping.get(key, ""),
    "hasKey": lambda mapping, key: key in mapping,
    "keys": lambda *maps: [key for mapping in maps for key in sorted(mapping)],
    "values": lambda mapping: [mapping[key] for key in sorted(mapping)],
    "merge": _merge,
}
