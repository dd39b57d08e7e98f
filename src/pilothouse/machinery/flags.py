"""Command-line flags as Go's pflag reads them: the programs here take upstream's flags, so they parse as upstream does.

``--name=value`` and ``--name value``; a boolean takes a value only with ``=``; ``_`` in a name reads as ``-``; lists
are comma-separated and repeatable; ``-v4``, ``-v=4`` and ``-v 4`` are the same. Flags are grouped, and ``--help``
prints the groups in the order in which they were added. Used by ``controllermanager`` and ``cli``; knows neither.
"""

import ipaddress
import shutil
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilothouse.machinery import durations


class FlagError(ValueError):
    """A command line that can't be used. The text names the flag, the reason and, where there is one, the way out."""


@dataclass(frozen=True, slots=True)
class FlagType:
    """How a kind of value is read and printed. ``name`` is what ``--help`` calls it."""

    name: str
    parse: Callable[[str], Any]
    show: Callable[[Any], str] = str
    repeats: bool = False


def _bool(text: str) -> bool:
    # The words of Go's strconv.ParseBool, no others.
    if text in {"1", "t", "T", "TRUE", "true", "True"}:
        return True
    if text in {"0", "f", "F", "FALSE", "false", "False"}:
        return False
    raise ValueError(f'strconv.ParseBool: parsing "{text}": invalid syntax')


def _integer(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text, 0 if text.lstrip("+-").lower().startswith(("0x", "0o", "0b")) else 10)
        except ValueError:
            raise ValueError(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise ValueError(f'strconv.ParseInt: parsing "{text}": value out of range')
        return number

    return parse


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def _strings(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",")) if text else ()


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError(f'failed to parse IP: "{text}"') from None


def _show_float(value: float) -> str:
    return f"{value:g}"


def _show_strings(value: Sequence[str]) -> str:
    return f"[{','.join(value)}]"


def _show_bool(value: bool) -> str:
    return "true" if value else "false"


BOOL = FlagType("", _bool, _show_bool)
STRING = FlagType("string", str)
INT = FlagType("int", _integer(64))
INT32 = FlagType("int32", _integer(32))
FLOAT = FlagType("float", _float, _show_float)
DURATION = FlagType("duration", durations.parse_duration, durations.format_duration)
STRINGS = FlagType("strings", _strings, _show_strings, repeats=True)
IP = FlagType("ip", _ip)
LEVEL = FlagType("Level", _integer(32))


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    ``default`` is a value of its type; ``shorthand`` is one letter. ``extra`` marks what upstream lacks.
    """

    name: str
    type: FlagType
    default: Any
    help: str
    shorthand: str = ""
    extra: bool = False
    ignored: bool = False
    """Accepted for compatibility, with one warning when given: it can't mean anything here."""

    def __post_init__(self) -> None:
        assert "_" not in self.name or self.name == "concurrent_rc_syncs", f"flag {self.name}: names use dashes"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a command line said: every flag's value, which ones were given, and the words that were no flags."""

    values: Mapping[str, Any]
    given: tuple[str, ...]
    arguments: tuple[str, ...]
    help: bool = False

    def __getitem__(self, name: str) -> Any:
        return self.values[normalize(name)]


def normalize(name: str) -> str:
    """Flag names compare with ``_`` read as ``-`` (component-base ``cli/flag``, v0.36)."""
    return name.replace("_", "-")


class FlagSet:
    """The flags of one program, in named groups."""

    def __init__(self, usage: str) -> None:
        self.usage = usage
        self.groups: dict[str, list[Flag]] = {}
        self._by_name: dict[str, Flag] = {}
        self._by_letter: dict[str, Flag] = {}

    def add(self, group: str, *flags: Flag) -> None:
        """Add flags to a group, made at its first use. Two flags of one name are a mistake of the program."""
        rows = self.groups.setdefault(group, [])
        for flag in flags:
            name = normalize(flag.name)
            assert name not in self._by_name, f"flag --{flag.name} is defined twice"
            rows.append(flag)
            self._by_name[name] = flag
            if flag.shorthand:
                self._by_letter[flag.shorthand] = flag

    def __contains__(self, name: str) -> bool:
        return normalize(name) in self._by_name

    def flag(self, name: str) -> Flag:
        """The flag of that name. Raises ``KeyError``."""
        return self._by_name[normalize(name)]

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Read a command line. Raises ``FlagError`` at the first word that can't be understood."""
        values: dict[str, Any] = {name: flag.default for name, flag in self._by_name.items()}
        given: dict[str, None] = {}
        arguments: list[str] = []
        wants_help = False
        words = list(argv)
        while words:
            word = words.pop(0)
            if word == "--":
                arguments += words
                break
            if not word.startswith("-") or word == "-":
                arguments.append(word)
                continue
            if word in {"-h", "--help"} and "help" not in self._by_name:
                wants_help = True
                continue
            flag, spelled, text = self._long(word) if word.startswith("--") else self._short(word)
            if text is None:
                if flag.type is BOOL:
                    text = "true"
                elif words:
                    text = words.pop(0)
                else:
                    raise FlagError(f"flag needs an argument: {_needing(flag, spelled)}")
            self._set(flag, spelled, text, values, given)
        return Parsed(values=values, given=tuple(given), arguments=tuple(arguments), help=wants_help)

    def _long(self, word: str) -> tuple[Flag, str, str | None]:
        name, separator, text = word[2:].partition("=")
        flag = self._by_name.get(normalize(name)) if name else None
        if flag is None:
            if not name or name.startswith("-"):
                raise FlagError(f"bad flag syntax: {word}")
            raise FlagError(f"unknown flag: --{name}")
        return flag, f"--{flag.name}", text if separator else None

    def _short(self, word: str) -> tuple[Flag, str, str | None]:
        flag = self._by_letter.get(word[1])
        if flag is None:
            raise FlagError(f"unknown shorthand flag: {word[1]!r} in {word}")
        rest = word[2:]
        spelled = f"-{flag.shorthand}, --{flag.name}"
        if not rest:
            return flag, spelled, None
        return flag, spelled, rest.removeprefix("=")

    def _set(self, flag: Flag, spelled: str, text: str, values: dict[str, Any], given: dict[str, None]) -> None:
        try:
            value = flag.type.parse(text)
        except ValueError as error:
            raise FlagError(f'invalid argument "{text}" for "{spelled}" flag: {error}') from None
        name = normalize(flag.name)
        if flag.type.repeats and name in given:
            value = (*values[name], *value)
        values[name] = value
        given[name] = None

    def help(self, width: int | None = None) -> str:
        """The text of ``--help``: usage, then every group."""
        columns = width or shutil.get_terminal_size((120, 24)).columns
        parts = [self.usage.rstrip(), ""]
        for title, flags in self.groups.items():
            if not flags:
                continue
            parts += [f"{title[:1].upper()}{title[1:]} flags:", ""]
            for flag in sorted(flags, key=lambda f: f.name):
                parts += _describe(flag, columns)
            parts.append("")
        return "\n".join(parts)


def _needing(flag: Flag, spelled: str) -> str:
    return spelled if spelled.startswith("--") else f"{flag.shorthand!r} in -{flag.shorthand}"


def _describe(flag: Flag, columns: int) -> list[str]:
    head = f"  -{flag.shorthand}, --{flag.name}" if flag.shorthand else f"      --{flag.name}"
    if flag.type.name:
        head += f" {flag.type.name}"
    notes = flag.help
    if flag.ignored:
        notes += " (accepted for compatibility, no effect)" if notes else "Accepted for compatibility, no effect"
    if flag.extra:
        notes += " [pilothouse only]"
    if flag.default:
        notes += f" (default {_quoted(flag)})"
    body = textwrap.wrap(notes, max(columns - 16, 40)) or [""]
    return [head, *(f"                {line}" for line in body)]


def _quoted(flag: Flag) -> str:
    shown = flag.type.show(flag.default)
    return f'"{shown}"' if flag.type is STRING else shown
