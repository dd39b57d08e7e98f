"""The complete check of an object by its type: every unknown and duplicate field, every invalid value.

Slow; ``bodies`` uses it if the fast check fails. Two dialects of error texts: those of Go's JSON decoder
(sigs.k8s.io/json, for bodies) and of the converter (apimachinery ``pkg/runtime/converter.go``, for the result of a
strategic merge patch).
"""

import base64
import copy
import json
import math
import re
from abc import ABC, abstractmethod
from typing import Any, Final

from pilothouse.api.schema import Definition, Field, Type
from pilothouse.machinery import go_types
from pilothouse.machinery.quantities import PATTERN, QuantityError, canonical
from pilothouse.machinery.times import TimeError, format_micro_time, format_time, parse_micro_time, parse_time

# sigs.k8s.io/json stops collecting here.
MAX_STRICT_ERRORS: Final = 100


class DecodeError(ValueError):
    """A body that does not match its type. ``message`` is upstream's text, without its prefix."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SavedError(DecodeError):
    """An error that Go's JSON decoder keeps while it continues: only the first is returned, and only if the rest can be
    decoded.

    Errors of types with an ``UnmarshalJSON`` (times, quantities, IntOrString) are returned immediately.
    """


class _Members(list[tuple[str, Any]]):
    """The members of a JSON object in order, duplicates included."""


class _Literal(str):
    """A JSON number that is not an integer, as written."""

    __slots__ = ()


def walk_text(body: bytes, definition: Definition) -> "Walk":
    """Walk a JSON text. Raises ``json.JSONDecodeError`` if it is not JSON, ``DecodeError`` if it is too deep."""
    walk = Walk(definition, JsonDialect())
    try:
        walk.run(_read(body))
    except RecursionError:
        raise DecodeError("exceeded max depth") from None
    return walk


def read_untyped(body: bytes) -> tuple[Any, list[str]]:
    """The value of a valid JSON text, and ``duplicate field "a.b"`` for each duplicate member."""
    errors: dict[str, None] = {}
    try:
        value = _read(body)
        _find_duplicates(value, "", errors)
        return plain(value), list(errors)[:MAX_STRICT_ERRORS]
    except RecursionError:
        raise DecodeError("exceeded max depth") from None


def _find_duplicates(value: Any, path: str, errors: dict[str, None]) -> None:
    if isinstance(value, _Members):
        names: set[str] = set()
        for name, member in value:
            inner = f"{path}.{name}" if path else name
            if name in names:
                errors[f'duplicate field "{inner}"'] = None
            names.add(name)
            _find_duplicates(member, inner, errors)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_duplicates(item, f"{path}[{index}]", errors)


def _read(body: bytes) -> Any:
    text = body.decode("utf-8", "replace")
    return json.loads(
        text, object_pairs_hook=_Members, parse_float=_Literal, parse_int=_integer, parse_constant=_reject
    )


def _reject(word: str) -> Any:
    """Python's decoder accepts NaN and Infinity, JSON does not."""
    raise json.JSONDecodeError("not JSON", word, 0)


def _integer(text: str) -> int | _Literal:
    # No field has more than 64 bits; thousands of digits are not converted.
    return int(text) if len(text) < 40 else _Literal(text)


def walk_document(document: dict[str, Any], definition: Definition) -> "Walk":
    """Walk a decoded document, in the dialect of the converter."""
    walk = Walk(definition, ConverterDialect())
    try:
        walk.run(document)
    except RecursionError:
        raise DecodeError("exceeded max depth") from None
    return walk


class Walk:
    """One walk. The results are complete after ``run``, which raises ``DecodeError`` for what Go rejects."""

    def __init__(self, definition: Definition, dialect: "Dialect") -> None:
        self.document: dict[str, Any] = {}
        self.unknown: list[str] = []
        self.duplicates: list[str] = []
        self.strict_errors: list[str] = []
        self._definition = definition
        self._dialect = dialect
        self._seen: set[str] = set()
        self._saved: SavedError | None = None

    def run(self, value: Any) -> None:
        """Check ``value`` and set the results."""
        location = _Location(None, None, "")
        if value is None:
            return
        if not isinstance(value, _Members | dict):
            raise self._dialect.type_error(value, location, Type("object", definition=self._definition))
        self.document = self._object(value, self._definition, "", location, {})
        if self._saved is not None:
            raise self._saved

    def _report(self, all_errors: list[str], kind: str, path: str) -> None:
        message = f'{kind} field "{path}"'
        if message not in self._seen and len(self.strict_errors) < MAX_STRICT_ERRORS:
            self._seen.add(message)
            all_errors.append(path)
            self.strict_errors.append(message)

    def _object(
        self, value: Any, definition: Definition, path: str, location: "_Location", result: dict[str, Any]
    ) -> dict[str, Any]:
        names: set[str] = set()
        for name, member in _members(value):
            inner_path = f"{path}.{name}" if path else name
            field = definition.fields.get(name)
            if field is None:
                self._report(self.unknown, "unknown", inner_path)
                continue
            if name in names:
                self._report(self.duplicates, "duplicate", inner_path)
            names.add(name)
            if member is None:
                # Null is the zero value, and replaces an earlier duplicate.
                result.pop(name, None)
                continue
            inner = location.child(definition, field)
            result[name] = self._value(member, field.type, inner_path, inner, result.get(name))
        for name, printed in definition.printed.items():
            if name not in result:
                result[name] = copy.deepcopy(printed)
        return result

    def _value(self, value: Any, type_: Type, path: str, location: "_Location", old: Any) -> Any:
        try:
            return self._read_value(value, type_, path, location, old)
        except SavedError as error:
            self._saved = self._saved or error
            return None

    def _read_value(self, value: Any, type_: Type, path: str, location: "_Location", old: Any) -> Any:
        """``old`` is the value of an earlier duplicate: Go decodes into it, so that maps and objects are merged."""
        match type_.name:
            case "object":
                if not isinstance(value, _Members | dict):
                    raise self._dialect.type_error(value, location, type_)
                start = old if isinstance(old, dict) else {}
                return self._object(value, type_.definition, path, location, start)
            case "list":
                return self._list(value, type_, path, location)
            case "map":
                return self._map(value, type_, path, location, old)
            case "any":
                return plain(value)
            case _:
                return self._dialect.scalar(value, type_, location)

    def _list(self, value: Any, type_: Type, path: str, location: "_Location") -> list[Any]:
        if not isinstance(value, list) or isinstance(value, _Members):
            raise self._dialect.type_error(value, location, type_)
        element = type_.element
        assert element is not None, "a list has elements"
        return [
            zero(element) if item is None else self._value(item, element, f"{path}[{index}]", location, None)
            for index, item in enumerate(value)
        ]

    def _map(self, value: Any, type_: Type, path: str, location: "_Location", old: Any) -> dict[str, Any]:
        if not isinstance(value, _Members | dict):
            raise self._dialect.type_error(value, location, type_)
        element = type_.element
        assert element is not None, "a map has values"
        result: dict[str, Any] = old if isinstance(old, dict) else {}
        names: set[str] = set()
        for name, member in _members(value):
            inner_path = f"{path}.{name}"
            if name in names:
                self._report(self.duplicates, "duplicate", inner_path)
            names.add(name)
            name = clean_text(name)
            result[name] = zero(element) if member is None else self._value(member, element, inner_path, location, None)
        return result


class _Location:
    """The location of a value in Go's errors: the field that contains it, and the path of names, without indexes."""

    __slots__ = ("definition", "field", "parent", "path")

    def __init__(
        self, definition: Definition | None, field: Field | None, path: str, parent: "_Location | None" = None
    ) -> None:
        self.definition = definition
        self.field = field
        self.path = path
        self.parent = parent

    def child(self, definition: Definition, field: Field) -> "_Location":
        return _Location(definition, field, f"{self.path}.{field.name}" if self.path else field.name, self)

    @property
    def go_path(self) -> str:
        """``path`` as in Go's JSON decoder: with embedded structs."""
        if self.definition is None or self.field is None:
            return self.path
        old = self.parent.go_path if self.parent is not None else ""
        embedded = go_types.embedded_path(self.definition, self.field)
        return ".".join(part for part in (old, embedded, self.field.name) if part)

    def type_name(self, type_: Type) -> str:
        """The Go name of ``type_``, which is the type of the field or of an element in it."""
        if self.definition is None or self.field is None:
            return go_types.name_of(type_)
        return go_types.name_of(type_, go_types.string_type(self.definition, self.field))


def _members(value: Any) -> Any:
    return value if isinstance(value, _Members) else value.items()


def plain(value: Any) -> Any:
    """A value without the wrappers of the walk; of duplicates the last one."""
    if isinstance(value, _Members):
        return {clean_text(name): plain(member) for name, member in value}
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, _Literal):
        return float64(value)
    return clean_text(value) if isinstance(value, str) else value


def clean_text(text: str) -> str:
    """``text`` with unpaired surrogates replaced, as by Go; they cannot be encoded."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def zero(type_: Type) -> Any:
    """The value for null in a list or a map."""
    match type_.name:
        case "string":
            return ""
        case "int32" | "int64" | "number" | "int-or-string":
            return 0
        case "bool":
            return False
        case "quantity":
            return "0"
        case "object":
            return copy.deepcopy(dict(type_.definition.printed))
        case _:
            return None


# Dialects -----------------------------------------------------------------------------------------------------------


class Dialect(ABC):
    """The messages of errors, and the decoding of scalars."""

    @abstractmethod
    def type_error(self, value: Any, location: _Location, type_: Type) -> DecodeError:
        """The error for a value of the wrong type."""

    def scalar(self, value: Any, type_: Type, location: _Location) -> Any:
        """The value in canonical form. Raises ``DecodeError``."""
        match type_.name:
            case "string":
                if isinstance(value, str) and not isinstance(value, _Literal):
                    return clean_text(value)
            case "bool":
                if isinstance(value, bool):
                    return value
            case "int32" | "int64":
                if is_integer(value) and fits(value, 32 if type_.name == "int32" else 64):
                    return value
            case "number":
                if is_integer(value):
                    return value
                if isinstance(value, float | _Literal):
                    return float64(value)
            case "bytes":
                if isinstance(value, str) and not isinstance(value, _Literal):
                    return base64_text(value)
            case "quantity":
                return quantity_text(value)
            case "time" | "micro-time":
                return time_text(value, type_.name)
            case "int-or-string":
                return int_or_string(value)
        raise self.type_error(value, location, type_)


class JsonDialect(Dialect):
    """Go's JSON decoder: ``json: cannot unmarshal string into Go struct field PodSpec.spec.x of type int32``."""

    def type_error(self, value: Any, location: _Location, type_: Type) -> DecodeError:
        """Names the innermost struct and the path of fields that led to the value."""
        kind = json_kind(value)
        if type_.name in ("int32", "int64") and kind == "number":
            kind = f"number {value}"
        name = location.type_name(type_)
        return SavedError(f"json: cannot unmarshal {kind} into Go {_target(location)} of type {name}")

    def scalar(self, value: Any, type_: Type, location: _Location) -> Any:
        """As in the base class. For types with an ``UnmarshalJSON`` Go adds the field to the error."""
        try:
            if type_.name == "bytes" and isinstance(value, list) and not isinstance(value, _Members):
                return _bytes_text(value, location)
            return super().scalar(value, type_, location)
        except SavedError:
            raise
        except DecodeError as error:
            raise DecodeError(error.message.replace("into Go value of", f"into Go {_target(location)} of")) from None


def _bytes_text(value: list[Any], location: _Location) -> str:
    """A list of numbers, which Go's decoder also accepts for ``[]byte``."""
    for item in value:
        if not is_integer(item) or not 0 <= item < 256:
            kind = json_kind(item)
            kind = f"number {item}" if kind == "number" else kind
            raise SavedError(f"json: cannot unmarshal {kind} into Go {_target(location)} of type uint8")
    return base64.b64encode(bytes(value)).decode()


def _target(location: _Location) -> str:
    if location.definition is None:
        return "value"
    return f"struct field {location.definition.go_name}.{location.go_path}"


class ConverterDialect(Dialect):
    """The converter from maps to structs: ``unrecognized type: int32``, ``cannot restore slice from map``."""

    def type_error(self, value: Any, location: _Location, type_: Type) -> DecodeError:
        """Names types only, never the field."""
        kind = go_kind(value)
        match type_.name:
            case "object":
                return DecodeError(f"cannot restore struct from: {kind}")
            case "map":
                return DecodeError(f"cannot restore map from {kind}")
            case "list" | "bytes":
                return DecodeError(f"cannot restore slice from {kind}")
        target = {"number": "float64"}.get(type_.name, type_.name)
        # Go converts these (an integer to a character), so upstream fails one step later.
        if (kind == "int64" and target == "string") or (kind == "float64" and target in ("int32", "int64")):
            return DecodeError(f"cannot convert {kind} to {location.type_name(type_)}")
        return DecodeError(f"unrecognized type: {target}")

    def scalar(self, value: Any, type_: Type, location: _Location) -> Any:
        """As in JSON, but integral floats are integers."""
        if type_.name in ("int32", "int64") and isinstance(value, float) and value.is_integer():
            value = int(value)
        return super().scalar(value, type_, location)


def json_kind(value: Any) -> str:
    """The kind of a JSON value, as in Go's errors."""
    match value:
        case bool():
            return "bool"
        case _Members() | dict():
            return "object"
        case list():
            return "array"
        case int() | float() | _Literal():
            return "number"
        case _:
            return "string"


def go_kind(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case dict():
            return "map"
        case list():
            return "slice"
        case int():
            return "int64"
        case float():
            return "float64"
        case _:
            return "string"


# Scalars ------------------------------------------------------------------------------------------------------------


def is_integer(value: Any) -> bool:
    """Whether it is a JSON integer; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def fits(value: int, bits: int) -> bool:
    """Whether it fits in a signed integer with this many bits."""
    return -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def float64(value: float | str) -> float:
    """The number as a float64. Raises ``SavedError`` if it overflows."""
    number = float(value)
    if math.isinf(number):
        raise SavedError(f"json: cannot unmarshal number {value} into Go value of type float64")
    return number


def quantity_text(value: Any) -> str:
    if isinstance(value, bool | list | dict):
        raise DecodeError(f"quantities must match the regular expression '{PATTERN}'")
    try:
        return canonical(str(value).strip())
    except QuantityError as error:
        raise DecodeError(str(error)) from None


def time_text(value: Any, kind: str) -> str:
    if not isinstance(value, str) or isinstance(value, _Literal):
        raise DecodeError(f"json: cannot unmarshal {json_kind(value)} into Go value of type string")
    try:
        if kind == "time":
            return format_time(parse_time(value))
        return format_micro_time(parse_micro_time(value))
    except TimeError as error:
        raise DecodeError(str(error)) from None


def int_or_string(value: Any) -> int | str:
    """A 32-bit integer or a string."""
    if isinstance(value, str) and not isinstance(value, _Literal):
        return clean_text(value)
    if is_integer(value) and fits(value, 32):
        return int(value)
    kind = json_kind(value)
    described = f"number {value}" if kind == "number" else kind
    raise DecodeError(f"json: cannot unmarshal {described} into Go value of type int32")


_base64 = re.compile("[A-Za-z0-9+/]*={0,2}").fullmatch


def base64_text(text: str) -> str:
    """The text, if it is base64 with padding. Line ends are allowed, and removed, as in Go."""
    packed = text.replace("\r", "").replace("\n", "")
    if len(packed) % 4 or _base64(packed) is None:
        raise SavedError(f"illegal base64 data at input byte {_corrupt_offset(text)}")
    return packed


_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")


def _corrupt_offset(text: str) -> int:
    """The offset in the error of Go's decoder about invalid base64 (encoding/base64 ``decodeQuantum``)."""
    data = text.encode("utf-8", "replace")
    offset, letters = 0, 0
    while offset < len(data):
        char = chr(data[offset])
        offset += 1
        if char in "\r\n":
            continue
        if char in _LETTERS:
            letters = (letters + 1) % 4
        elif char != "=" or letters < 2:
            return offset - 1
        else:
            remaining = [(position, byte) for position, byte in enumerate(data[offset:], offset) if byte not in b"\r\n"]
            if letters == 2:
                if not remaining:
                    return len(data)
                if remaining[0][1] != ord("="):
                    return remaining[0][0]
                remaining = remaining[1:]
            return remaining[0][0] if remaining else len(data)
    return offset - letters
