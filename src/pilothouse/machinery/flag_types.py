"""Kinds of flag values, read and printed as Go does: pflag 1.0, component-base ``cli/flag`` and ``logs/api`` (v0.36).

A type reads one occurrence of a flag on the command line. What several occurrences mean is the type's too: most take
the last, lists and maps add up, and the first occurrence replaces the default. ``flags`` parses with these.
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

    from pilothouse.machinery import quantities


class FlagType(msgspec.Struct, frozen=True):
    """How a kind of value is read and printed.

    ``name`` is what ``--help`` calls it. ``join`` puts a further occurrence behind those before it; without one the
    last occurrence wins. ``alone`` is the value of a flag that is given without one: only booleans and ``--version``
    may be. ``expects`` says in plain words what a value must be.
    """

    name: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    join: Callable[[Any, Any], Any] | None = None
    alone: str | None = None
    expects: str = ""


def quoted(text: str) -> str:
    """As Go's ``%q`` prints it, for what people type."""
    return json.dumps(text, ensure_ascii=False)


# Numbers and booleans


def parse_bool(text: str) -> bool:
    """The words of Go's ``strconv.ParseBool``, no others."""
    if text in {"1", "t", "T", "TRUE", "true", "True"}:
        return True
    if text in {"0", "f", "F", "FALSE", "false", "False"}:
        return False
    raise _not_for("ParseBool", text)


def show_bool(value: bool) -> str:
    return "true" if value else "false"


class OutOfRange(ValueError):
    """A number that does not fit."""


def _not_for(function: str, text: str) -> ValueError:
    return ValueError(f"strconv.{function}: parsing {quoted(text)}: invalid syntax")


def _too_large(function: str, text: str) -> OutOfRange:
    return OutOfRange(f"strconv.{function}: parsing {quoted(text)}: value out of range")


def _integer(bits: int) -> Callable[[str], int]:
    """``strconv.ParseInt(text, 0, bits)``: the base is in the prefix, ``010`` is eight, ``1_000`` is a thousand."""

    def parse(text: str) -> int:
        body = text[1:] if text[:1] in {"+", "-"} else text
        # Python reads what Go reads, but for three things: blanks, digits of other scripts, and Go's old octal form.
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
    """Verbosity: decimal, never negative."""
    return _unsigned(text, 32)


def _unsigned(text: str, bits: int) -> int:
    if not (text.isascii() and text.isdigit()):
        raise _not_for("ParseUint", text)
    if int(text) >= 1 << bits:
        raise _too_large("ParseUint", text)
    return int(text)


def _float(text: str) -> float:
    is_hexadecimal = "x" in text.lower()
    # Go wants an exponent behind hexadecimal digits.
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
        # A zone ("%eth0") is no part of an address for net.ParseIP.
        return str(ipaddress.ip_address("" if "%" in text else text.strip()))
    except ValueError:
        raise ValueError(f"failed to parse IP: {quoted(text)}") from None


# Lists

Strings = tuple[str, ...]


def parse_csv(text: str) -> Strings:
    """The first record of Go's ``encoding/csv``: commas separate, quotes keep them together, ``""`` is a quote.

    ``a,"b,c"`` is two fields. Raises ``ValueError`` in Go's words.
    """
    if not text:
        return ()
    if '"' not in text:
        return tuple(text.split("\n", 1)[0].removesuffix("\r").split(","))
    fields: list[str] = []
    at = 0
    while True:
        field, at = _quoted_field(text, at) if text.startswith('"', at) else _bare_field(text, at)
        fields.append(field)
        if at >= len(text) or text[at] != ",":
            return tuple(fields)
        at += 1


def _bare_field(text: str, start: int) -> tuple[str, int]:
    end = start
    while end < len(text) and text[end] not in ",\n":
        if text[end] == '"':
            raise ValueError(f'parse error on line 1, column {_column(text, end)}: bare " in non-quoted field')
        end += 1
    return text[start:end], end


def _quoted_field(text: str, start: int) -> tuple[str, int]:
    parts: list[str] = []
    at = start + 1
    while True:
        end = text.find('"', at)
        if end < 0:
            raise _badly_quoted(text, len(text))
        parts.append(text[at:end])
        at = end + 1
        if text.startswith('"', at):
            parts.append('"')
            at += 1
        elif at >= len(text) or text[at] in ",\n":
            return "".join(parts), at
        else:
            raise _badly_quoted(text, end)


def _badly_quoted(text: str, index: int) -> ValueError:
    return ValueError(f'parse error on line 1, column {_column(text, index)}: extraneous or missing " in quoted-field')


def _column(text: str, index: int) -> int:
    """Go counts bytes, from one."""
    return len(text[:index].encode()) + 1


def show_csv(fields: Sequence[str]) -> str:
    """One record of CSV, which ``parse_csv`` reads back."""
    return ",".join(_csv_field(field) for field in fields)


def _show_strings(value: Sequence[str]) -> str:
    return f"[{show_csv(value)}]"


def _csv_field(field: str) -> str:
    needs = field.startswith((" ", "\t")) or any(sign in field for sign in ',"\n\r')
    return '"' + field.replace('"', '""') + '"' if needs else field


def _int32s(text: str) -> tuple[int, ...]:
    parse = _integer(32)
    return tuple(parse(part) for part in text.split(","))


def _show_list(value: Sequence[object]) -> str:
    return f"[{','.join(map(str, value))}]"


# Maps

Pairs = Mapping[str, str]


def _pairs(text: str) -> Pairs:
    """``a=1,b=2``. One pair alone may hold commas; with several, quotes keep them (``"a=1,2",b=3``)."""
    signs = text.count("=")
    if signs == 0:
        raise ValueError(f"{text} must be formatted as key=value")
    parts = (text.strip('"'),) if signs == 1 else parse_csv(text)
    found = {}
    for part in parts:
        key, sign, value = part.partition("=")
        if not sign:
            raise ValueError(f"{part} must be formatted as key=value")
        found[key] = value
    return found


def _show_pairs(value: Pairs) -> str:
    return _show_strings([f"{key}={text}" for key, text in sorted(value.items())])


Multimap = Mapping[str, Strings]
"""Component, and what was said for it in order; "" is the component that was not named."""


def _multimap(text: str) -> Multimap:
    found: dict[str, Strings] = {}
    for part in text.split(","):
        if part:
            component, colon, pair = part.partition(":")
            if not colon:
                component, pair = "", part
            found[component.strip()] = (*found.get(component.strip(), ()), pair.strip())
    return found


def _show_multimap(value: Multimap) -> str:
    return ",".join(f"{component}:{pair}" for component in sorted(value) for pair in value[component])


def _extend(before: Multimap, further: Multimap) -> Multimap:
    return {key: (*before.get(key, ()), *further.get(key, ())) for key in (*before, *further)}


# What only one or two flags are


def _vmodule(text: str) -> Strings:
    found = []
    for part in text.split(","):
        if not part:
            continue
        pattern, _sign, level = part.partition("=")
        if not pattern or not level or "=" in level:
            raise ValueError(f"{quoted(part)} does not have the pattern=N format")
        try:
            # 31 bits, so that it fits an int32 too.
            _unsigned(level, 31)
        except ValueError as error:
            raise ValueError(f"parsing verbosity in {quoted(part)}: {error}") from None
        found.append(part)
    return tuple(found)


def _quantity(text: str) -> str:
    try:
        quantities.parse_quantity(text)
    except quantities.QuantityError as error:
        raise ValueError(str(error)) from None
    return text


def parse_size(text: str) -> int:
    """The whole number that a quantity amounts to, rounded up."""
    return quantities.parse_quantity(text).value


class VersionWord(str):
    """What ``--version`` was last given: ``true``, ``false``, ``raw`` or a version.

    ``reported`` is the last version among all that it was given, or empty: it stays in force whatever comes after it.
    """

    __slots__ = ("reported",)
    reported: str

    def __new__(cls, word: str, reported: str = "") -> "VersionWord":
        made = super().__new__(cls, word)
        made.reported = reported
        return made


def _version(text: str) -> VersionWord:
    """``component-base/version/verflag`` and ``version/dynamic.go`` (v0.36)."""
    if text == "raw":
        return VersionWord("raw")
    if not text.startswith("v"):
        return VersionWord(show_bool(parse_bool(text)))
    own = f"{pilothouse.KUBERNETES_VERSION}+pilothouse.{pilothouse.__version__}"
    if text != own and _semantic(text) != _semantic(own):
        raise ValueError(f"version {quoted(text)} must match major/minor/patch of default version {quoted(own)}")
    return VersionWord(text, text)


def _later_version(before: VersionWord, now: VersionWord) -> VersionWord:
    return now if now.reported else VersionWord(now, before.reported)


_VERSION = r"v?([0-9]+(?:\.[0-9]+)*)([^\n]*)"
_WORDS = r"([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)"
_EXTRA = rf"(?:-{_WORDS})?(?:\+{_WORDS})?\s*"


def _semantic(text: str) -> tuple[int, ...]:
    """Major, minor and patch (``ParseSemantic``, apimachinery v0.36 ``pkg/util/version/version.go``)."""
    found = re.fullmatch(_VERSION, text, re.ASCII)
    if found is None:
        raise ValueError(f"could not parse {quoted(text)} as version")
    numbers = found[1].split(".")
    if len(numbers) != 3:
        raise ValueError(f"illegal version string {quoted(text)}")
    extra = re.fullmatch(_EXTRA, found[2], re.ASCII)
    if extra is None:
        raise ValueError(f"could not parse pre-release/metadata ({found[2]}) in version {quoted(text)}")
    for part in (*numbers, *(part for part in (extra[1] or "").split(".") if part.isdigit())):
        if part.startswith("0") and part != "0":
            raise ValueError(f"illegal zero-prefixed version component {quoted(part)} in {quoted(text)}")
    return tuple(map(int, numbers))


def _named_certificates(text: str) -> tuple[tuple[str, str, Strings], ...]:
    """``certificate,key``, and after a colon the names it is for."""
    files, colon, names = text.partition(":")
    if colon and not names.strip():
        raise ValueError("empty names list is not allowed")
    parts = [part.strip() for part in files.split(",")]
    if len(parts) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    return ((parts[0], parts[1], tuple(name.strip() for name in names.split(",")) if colon else ()),)


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
