"""Types of flag values, parsed and printed as by Go: pflag 1.0, component-base ``cli/flag`` and ``logs/api`` (v0.36).

A type parses one occurrence of a flag, and combines several: most use the last one, lists and maps are extended, and
the first occurrence replaces the default. ``flags`` parses with these.
"""

import json
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

import pilothouse
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery import durations

with lazy_imports():
    import ipaddress

    from pilothouse.machinery import cidrs, quantities


class FlagType(msgspec.Struct, frozen=True):
    """How a type of value is parsed and printed.

    ``name`` is shown by ``--help``. ``join`` combines an occurrence with the previous ones; without it the last
    occurrence is used. ``alone`` is the value of a flag without one: only for booleans and ``--version``. ``expects``
    describes valid values in plain words.
    """

    name: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    join: Callable[[Any, Any], Any] | None = None
    alone: str | None = None
    expects: str = ""


def quoted(text: str) -> str:
    """As Go's ``%q`` prints it, for input from the command line."""
    return json.dumps(text, ensure_ascii=False)


# Numbers and booleans


def parse_bool(text: str) -> bool:
    """As Go's ``strconv.ParseBool``."""
    if text in {"1", "t", "T", "TRUE", "true", "True"}:
        return True
    if text in {"0", "f", "F", "FALSE", "false", "False"}:
        return False
    raise _not_for("ParseBool", text)


def show_bool(value: bool) -> str:
    return "true" if value else "false"


class OutOfRange(ValueError):
    """A number out of range."""


def _not_for(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")


def _too_large(function: str, text: str) -> OutOfRange:
    return OutOfRange(f"strconv.{function}: parsing {quoted(text)}: value out of range")


def _integer(bits: int) -> Callable[[str], int]:
    """``strconv.ParseInt(text, 0, bits)``: the base is given by the prefix, ``010`` is eight, ``1_000`` is a
    thousand."""

    def parse(text: str) -> int:
        body = text[1:] if text[:1] in {"+", "-"} else text
        # Python accepts what Go accepts, except for white space, digits of other scripts, and Go's old octal form.
        if not text.isascii() or not body[:1].isdigit() or body.endswith(("\n", " ", "\t")):
            raise _not_for("ParseInt", text)
        if body[0] == "0" and (body[1:2].isdigit() or body[1:2] == "_"):
            body = f"0o{body[1:]}"
        try:
            number = int(body, 0) * (-1 if text.startswith("-") else 1)
        except ValueError:
            raise _not_for("ParseInt", text) from None
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise _too_large("ParseInt", text)
        return number

    return parse


def _level(text: str) -> int:
    """Verbosity: decimal, not negative."""
    return _unsigned(text, 32)


def _unsigned(text: str, bits: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _not_for("ParseUint", text)
    if int(text) >= 1 << bits:
        raise _too_large("ParseUint", text)
    return int(text)


def _float(text: str) -> float:
    is_hexadecimal = "x" in text.lower()
    # Go requires an exponent after hexadecimal digits.
    if not text.isascii() or text != text.strip() or (is_hexadecimal and "p" not in text.lower()):
        raise _not_for("ParseFloat", text)
    try:
        number = float.fromhex(text) if is_hexadecimal else float(text)
    except OverflowError:
        raise _too_large("ParseFloat", text) from None
    except ValueError:
        raise _not_for("ParseFloat", text) from None
    if number in {float("inf"), float("-inf")} and "inf" not in text.lower():
        raise _too_large("ParseFloat", text)
    return number


def _ip(text: str) -> str:
    try:
        # net.ParseIP rejects zones ("%eth0").
        return cidrs.address_text(ipaddress.ip_address("" if "%" in text else text.strip()))
    except ValueError:
        raise ValueError(f"failed to parse IP: {quoted(text)}") from None


# Lists

Strings = tuple[str, ...]


def parse_csv(text: str) -> Strings:
    """The first record of Go's ``encoding/csv``: separated by commas, optionally quoted, ``""`` is a quote.

    ``a,"b,c"`` is two fields. Raises ``ValueError`` with Go's message.
    """
    if not text:
        return ()
    if '"' not in text:
        return tuple(text.split("\n", 1)[0].removesuffix("\r").split(","))
    fields: list[str] = []
    position = 0
    while True:
        field, position = (
            _quoted_field(text, position) if text.startswith('"', position) else _bare_field(text, position)
        )
        fields.append(field)
        if position >= len(text) or text[position] != ",":
            return tuple(fields)
        position += 1


def _bare_field(text: str, start: int) -> tuple[str, int]:
    end = start
    while end < len(text) and text[end] not in ",\n":
        if text[end] == '"':
            raise ValueError(f'parse error on line 1, column {_column(text, end)}: bare " in non-quoted field')
        end += 1
    return text[start:end], end


def _quoted_field(text: str, start: int) -> tuple[str, int]:
    parts: list[str] = []
    position = start + 1
    while True:
        end = text.find('"', position)
        if end < 0:
            raise _badly_quoted(text, len(text))
        parts.append(text[position:end])
        position = end + 1
        if text.startswith('"', position):
            parts.append('"')
            position += 1
        elif position >= len(text) or text[position] in ",\n":
            return "".join(parts), position
        else:
            raise _badly_quoted(text, end)


def _badly_quoted(text: str, index: int) -> ValueError:
    return ValueError(f'parse error on line 1, column {_column(text, index)}: extraneous or missing " in quoted-field')


def _column(text: str, index: int) -> int:
    """Go counts bytes, from one."""
    return len(text[:index].encode()) + 1


def show_csv(fields: Sequence[str]) -> str:
    """Encode a CSV record, as ``parse_csv`` decodes it."""
    return ",".join(_csv_field(field) for field in fields)


def _show_strings(value: Sequence[str]) -> str:
    return f"[{show_csv(value)}]"


def _csv_field(field: str) -> str:
    needs = field.startswith((" ", "\t")) or any(sign in field for sign in ',"\n\r')
    return '"' + field.replace('"', '""') + '"' if needs else field


def _int32s(text: str) -> tuple[int, ...]:
    parse = _integer(32)
    return tuple(parse(item) for item in text.split(","))


def _show_list(value: Sequence[object]) -> str:
    return f"[{','.join(map(str, value))}]"


# Maps

Pairs = Mapping[str, str]


def _pairs(text: str) -> Pairs:
    """``a=1,b=2``. A single pair may contain commas; with several, they are quoted (``"a=1,2",b=3``)."""
    equal_signs = text.count("=")
    if equal_signs == 0:
        raise ValueError(f"{text} must be formatted as key=value")
    texts = (text.strip('"'),) if equal_signs == 1 else parse_csv(text)
    pairs = {}
    for pair in texts:
        key, sign, value = pair.partition("=")
        if not sign:
            raise ValueError(f"{pair} must be formatted as key=value")
        pairs[key] = value
    return pairs


def _show_pairs(value: Pairs) -> str:
    return _show_strings([f"{key}={text}" for key, text in sorted(value.items())])


Multimap = Mapping[str, Strings]
"""Component → its values in order; "" for values without a component."""


def _multimap(text: str) -> Multimap:
    result: dict[str, Strings] = {}
    for item in text.split(","):
        if item:
            component, colon, pair = item.partition(":")
            if not colon:
                component, pair = "", item
            result[component.strip()] = (*result.get(component.strip(), ()), pair.strip())
    return result


def _show_multimap(value: Multimap) -> str:
    return ",".join(f"{component}:{pair}" for component in sorted(value) for pair in value[component])


def _extend(old: Multimap, further: Multimap) -> Multimap:
    return {key: (*old.get(key, ()), *further.get(key, ())) for key in (*old, *further)}


# Types of only one or two flags


def _vmodule(text: str) -> Strings:
    patterns = []
    for item in text.split(","):
        if not item:
            continue
        pattern, _sign, level = item.partition("=")
        if not pattern or not level or "=" in level:
            raise ValueError(f"{quoted(item)} does not have the pattern=N format")
        try:
            # 31 bits, so that it fits an int32 too.
            _unsigned(level, 31)
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quoted(item)}: {error}") from None
        patterns.append(item)
    return tuple(patterns)


def _quantity(text: str) -> str:
    try:
        quantities.parse_quantity(text)
    except quantities.QuantityError as error:
        raise ValueError(str(error)) from None
    return text


def parse_size(text: str) -> int:
    """A quantity as an integer, rounded up."""
    return quantities.parse_quantity(text).value


class VersionWord(str):
    """The value of ``--version``: ``true``, ``false``, ``raw`` or a version.

    ``reported`` is the last version that was given, or empty: it applies whatever is given later.
    """

    __slots__ = ("reported",)
    reported: str

    def __new__(cls, word: str, reported: str = "") -> "VersionWord":
        value = super().__new__(cls, word)
        value.reported = reported
        return value


def _version(text: str) -> VersionWord:
    """``component-base/version/verflag`` and ``version/dynamic.go`` (v0.36)."""
    if text == "raw":
        return VersionWord("raw")
    if not text.startswith("v"):
        return VersionWord(show_bool(parse_bool(text)))
    default = f"{pilothouse.KUBERNETES_VERSION}+pilothouse.{pilothouse.__version__}"
    if text != default and _semantic(text) != _semantic(default):
        raise ValueError(f"version {quoted(text)} must match major/minor/patch of default version {quoted(default)}")
    return VersionWord(text, text)


def _later_version(old: VersionWord, new: VersionWord) -> VersionWord:
    return new if new.reported else VersionWord(new, old.reported)


_VERSION = r"v?([0-9]+(?:\.[0-9]+)*)([^\n]*)"
_WORDS = r"([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)"
_EXTRA = rf"(?:-{_WORDS})?(?:\+{_WORDS})?\s*"


def _semantic(text: str) -> tuple[int, ...]:
    """Major, minor and patch (``ParseSemantic``, apimachinery v0.36 ``pkg/util/version/version.go``)."""
    match = re.fullmatch(_VERSION, text, re.ASCII)
    if match is None:
        raise ValueError(f"could not parse {quoted(text)} as version")
    numbers = match[1].split(".")
    if len(numbers) != 3:
        raise ValueError(f"illegal version string {quoted(text)}")
    extra = re.fullmatch(_EXTRA, match[2], re.ASCII)
    if extra is None:
        raise ValueError(f"could not parse pre-release/metadata ({match[2]}) in version {quoted(text)}")
    for component in (*numbers, *(component for component in (extra[1] or "").split(".") if component.isdigit())):
        if component.startswith("0") and component != "0":
            raise ValueError(f"illegal zero-prefixed version component {quoted(component)} in {quoted(text)}")
    return tuple(map(int, numbers))


def _named_certificates(text: str) -> tuple[tuple[str, str, Strings], ...]:
    """``certificate,key``, and after a colon the names that it is for."""
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    paths = [path.strip() for path in files.split(",")]
    if len(paths) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    return ((paths[0], paths[1], tuple(name.strip() for name in names.split(",")) if colon else ()),)


def _show_certificates(value: Sequence[tuple[str, str, Strings]]) -> str:
    return f"[{';'.join(f'{crt},{key}' + (':' + ','.join(names) if names else '') for crt, key, names in value)}]"


BOOL = FlagType("", parse_bool, show_bool, alone="true", expects="true or false")
STRING = FlagType("string", str)
INT = FlagType("int", _integer(64), expects="a whole number")
INT32 = FlagType("int32", _integer(32), expects="a whole number")
FLOAT = FlagType("float", _float, "{:g}".format, expects="a number")
DURATION = FlagType(
    "duration", durations.parse_duration, durations.format_duration, expects="a duration such as 30s or 1m30s"
)
STRINGS = FlagType("strings", parse_csv, _show_strings, join=operator.add)
INT32S = FlagType("int32Slice", _int32s, _show_list, join=operator.add)
PAIRS = FlagType("stringToString", _pairs, _show_pairs, join=operator.or_)
MULTIMAP = FlagType("colonSeparatedMultimapStringString", _multimap, _show_multimap, join=_extend)
IP = FlagType("ip", _ip, expects="an IP address")
LEVEL = FlagType("Level", _level, expects="a whole number, not negative")
VMODULE = FlagType("pattern=N,...", _vmodule, ",".join, join=operator.add)
QUANTITY = FlagType("quantity", _quantity)
VERSION = FlagType("version", _version, alone="true", join=_later_version)
NAMED_CERTIFICATES = FlagType("namedCertKey", _named_certificates, _show_certificates, join=operator.add)
