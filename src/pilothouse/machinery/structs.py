"""msgspec structs created from schema definitions at run time, so that bodies are checked in C.

``bodies`` decodes with them first and only walks a body in Python if they reject it. Quantities and times are decoded
to canonical form, as the API server stores them.
"""

import re
import threading
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from pilothouse.api.schema import Definition, Field, Type
from pilothouse.machinery.quantities import canonical
from pilothouse.machinery.times import format_micro_time, format_time, parse_micro_time, parse_time

Int32 = Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class _Text:
    """A string in canonical form; each kind is a type of its own for msgspec's hooks."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class QuantityText(_Text):
    """``500m``."""


class TimeText(_Text):
    """``2026-01-01T00:00:00Z``."""


class MicroTimeText(_Text):
    """``2026-01-01T00:00:00.000000Z``."""


class Unset:
    """The value of an absent field that Go encodes anyway, as ``printed``."""

    __slots__ = ("nulls", "printed", "quotes")

    def __init__(self, printed: Any) -> None:
        self.printed = printed
        text = msgspec.json.encode(printed)
        self.quotes = 2 + text.count(b'"')
        """The number of quotes that the name and the value add to a text."""
        self.nulls = text.count(b"null")


@lru_cache(maxsize=1024)
def _unset_values(text: bytes) -> Unset:
    return Unset(msgspec.json.decode(text))


_SCALARS: dict[str, Any] = {
    "string": str,
    "bool": bool,
    "int32": Int32,
    "int64": Int64,
    "number": int | float,
    "quantity": QuantityText,
    "int-or-string": Int32 | str,
    "time": TimeText,
    "micro-time": MicroTimeText,
    "bytes": bytes,
    "any": Any,
}

_SELF = "Itself"
_classes: dict[tuple[int, bool], tuple[Definition, type[msgspec.Struct]]] = {}


def struct_for(definition: Definition, *, forbid_unknown: bool = True) -> type[msgspec.Struct]:
    """The struct type of a definition, created once.

    Every field is optional; an absent field is ``UNSET``, a null is ``None``, so that encoding writes exactly the
    fields that were read, and those that Go encodes although they are unset. Attribute names are meaningless: only
    decode, encode, and compare.
    """
    key = id(definition), forbid_unknown
    if key in _classes:
        return _classes[key][1]
    attributes = {f"f{index}": field for index, field in enumerate(definition.fields.values())}
    class_ = msgspec.defstruct(
        definition.go_name,
        [
            (name, _field_type(field, definition, forbid_unknown), _default(field, definition))
            for name, field in attributes.items()
        ],
        rename={name: field.name for name, field in attributes.items()},
        forbid_unknown_fields=forbid_unknown,
        gc=False,
        kw_only=True,
    )
    # msgspec resolves string annotations in the attributes of the class.
    setattr(class_, _SELF, class_)
    class_.UnsetType = msgspec.UnsetType  # type: ignore[attr-defined]
    # The definition is kept with the class, so that its id is not reused.
    _classes[key] = definition, class_
    return class_


def _default(field: Field, definition: Definition) -> Any:
    if field.name not in definition.printed:
        return msgspec.UNSET
    return _unset_values(msgspec.json.encode(definition.printed[field.name]))


def _field_type(field: Field, inside: Definition, forbid_unknown: bool) -> Any:
    shape, innermost = "{}", field.type
    while innermost.element is not None:
        shape = shape.format("list[{}]" if innermost.name == "list" else "dict[str, {}]")
        innermost = innermost.element
    if innermost.name == "object" and innermost.definition is inside:
        # JSONSchemaProps contains itself: such a field is annotated by name.
        return shape.format(_SELF) + " | None | UnsetType"
    return _wire_type(field.type, forbid_unknown) | None | msgspec.UnsetType


def _wire_type(type_: Type, forbid_unknown: bool) -> Any:
    match type_.name:
        case "list":
            assert type_.element is not None, "a list has elements"
            return list[_wire_type(type_.element, forbid_unknown)]  # type: ignore[misc]
        case "map":
            assert type_.element is not None, "a map has values"
            return dict[str, _wire_type(type_.element, forbid_unknown)]  # type: ignore[misc]
        case "object":
            return struct_for(type_.definition, forbid_unknown=forbid_unknown)
        case scalar:
            return _SCALARS[scalar]


_canonical_time = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ", re.ASCII
).fullmatch


_canonical_micro_time = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z", re.ASCII
).fullmatch


class TextHooks(threading.local):
    """msgspec hooks that decode quantities and times, and encode them canonically.

    Since ``reset``, ``quotes`` counts the quotes in the output that were not in the input: around quantities that were
    numbers, and of fields that were unset; ``nulls`` counts unset fields that are null. Counted per thread.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Count from 0."""
        self.quotes = self.nulls = 0

    def decode(self, kind: type, value: Any) -> _Text:
        """msgspec's ``dec_hook``. Raises ``ValueError`` for invalid texts."""
        if kind is TimeText:
            # Nearly all times were encoded by this code or by Go, and are canonical.
            return TimeText(value if _canonical_time(value) else format_time(parse_time(value)))
        if kind is MicroTimeText:
            return MicroTimeText(value if _canonical_micro_time(value) else format_micro_time(parse_micro_time(value)))
        if not isinstance(value, str):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError("not a quantity")  # noqa: TRY004 - the caller expects one error for bad values
            self.quotes += 2
            value = str(value)
        return QuantityText(canonical(value.strip()))

    def encode(self, value: Any) -> Any:
        """msgspec's ``enc_hook``."""
        if isinstance(value, _Text):
            return value.text
        if isinstance(value, Unset):
            self.quotes += value.quotes
            self.nulls += value.nulls
            return value.printed
        raise TypeError(f"{type(value).__name__} is not JSON")
