"""How Go formats values, for messages that must be equal to upstream's.

``quote`` is the verb %q, ``print_value`` and ``print_selector`` the verb %v, ``compact_json`` is ``encoding/json``,
``open_error`` an error of ``os.Open``.
"""

import math
import os
from decimal import Decimal
from typing import Any, Literal

import msgspec

from pilothouse.api.meta import LabelSelector

_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


def open_error(path: str | os.PathLike[str], error: OSError) -> str:
    """``open x.yaml: no such file or directory``, as ``os.PathError`` is printed."""
    return f"open {os.fspath(path)}: {(error.strerror or str(error)).lower()}"


def quote(text: str) -> str:
    """``text`` in double quotes as ``strconv.Quote`` writes it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_quoted_character(c) for c in text) + '"'


def _quoted_character(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def print_value(value: Any) -> str:
    """A decoded JSON value as ``fmt`` prints it with %v: ``map[a:1 b:[x y]]``, keys sorted, ``<nil>`` for null."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return print_float(value)
        case int() if not -(1 << 63) <= value < 1 << 63:
            return print_float(float(value))
        case dict():
            return "map[" + " ".join(f"{key}:{print_value(value[key])}" for key in sorted(value)) + "]"
        case list() | tuple():
            return "[" + " ".join(print_value(item) for item in value) + "]"
        case _:
            return str(value)


def print_float(value: float) -> str:
    """A float64 as %v prints it: shortest digits, exponent form below 1e-4 and from 1e6 on."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    if value == 0 or 1e-4 <= abs(value) < 1e6:
        return repr(value).removesuffix(".0")
    digits = Decimal(repr(value)).normalize()
    sign, figures, _exponent = digits.as_tuple()
    mantissa = "".join(map(str, figures))
    return f"{'-' * sign}{mantissa[0]}{'.' * (len(mantissa) > 1)}{mantissa[1:]}e{digits.adjusted():+03d}"


def print_selector(selector: LabelSelector | None) -> str:
    """A ``*metav1.LabelSelector`` as formatted by %v and %+v: by its generated ``String`` (apimachinery 0.36,
    ``pkg/apis/meta/v1/generated.pb.go``), which has every field."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted(selector.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{expr.key},Operator:{expr.operator},Values:[{' '.join(expr.values)}],}},"
        for expr in selector.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def compact_json(value: Any, *, in_order: bool = False) -> str:
    """``value`` as ``encoding/json`` encodes it: no spaces, HTML-escaped.

    Go sorts maps by key, which ``in_order`` does; fields of structs keep their order.
    """
    order: Literal["deterministic"] | None = "deterministic" if in_order else None
    return html_escaped(msgspec.json.encode(value, order=order).decode())


def html_escaped(text: str) -> str:
    """JSON with ``<``, ``>``, ``&`` and JavaScript's two line separators escaped."""
    if "<" in text or ">" in text or "&" in text:
        text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    if not text.isascii():
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text


class FormattedValue(str):
    """A value that is already formatted for a message, for example by its Go type."""

    __slots__ = ()
