"""Command-line flags as parsed by Go's pflag, because the programs here have upstream's flags.

``--name=value`` and ``--name value``; a boolean takes a value only with ``=``; ``_`` in a name is the same as ``-``;
letters may be joined (``-hv4``); ``-v4``, ``-v=4`` and ``-v 4`` are the same. Types of values are in ``flag_types``.
Flags are grouped, and ``--help`` prints the groups in the order in which they were added. Used by ``controllermanager``
and ``cli``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flag_types import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    INT32,
    IP,
    LEVEL,
    STRING,
    STRINGS,
    FlagType,
    OutOfRange,
    quoted,
)

with lazy_imports():
    import difflib
    import shutil
    import textwrap

__all__ = [
    "BOOL",
    "DURATION",
    "FLOAT",
    "INT",
    "INT32",
    "IP",
    "LEVEL",
    "STRING",
    "STRINGS",
    "Flag",
    "FlagError",
    "FlagSet",
    "FlagType",
    "Parsed",
    "normalize",
]


_SIMILAR = 0.75
"""The similarity, from 0 to 1, from which one name is suggested as a misspelling of another."""


class FlagError(ValueError):
    """An invalid command line. The text names the flag, the reason and, if there is one, the solution."""


class Flag(msgspec.Struct, frozen=True):
    """One flag.

    ``default`` is a value of its type; ``shorthand`` is one letter. ``extra`` marks flags that upstream lacks.
    """

    name: str
    type: FlagType
    default: Any
    help: str
    shorthand: str = ""
    extra: bool = False
    ignored: bool = False
    """Accepted for compatibility, with a warning when it is given: it has no effect."""
    deprecated: str = ""
    """The warning when it is given. As with pflag, such a flag is not in ``--help``."""
    note: str = ""
    """How it differs from upstream's; appended to the help text."""
    choices: tuple[str, ...] = ()
    """The possible values, for shell completion."""

    def __post_init__(self) -> None:
        assert "_" not in self.name or self.name == "concurrent_rc_syncs", f"flag {self.name}: names use dashes"

    @property
    def shown_default(self) -> str:
        return self.type.show(self.default)


class Parsed(msgspec.Struct, frozen=True):
    """A parsed command line: every flag's value, which ones were given, and the positional arguments."""

    values: Mapping[str, Any]
    given: tuple[str, ...]
    arguments: tuple[str, ...]
    help: bool = False
    texts: Mapping[str, tuple[str, ...]] = {}
    """The given texts of a flag, in order."""

    def __getitem__(self, name: str) -> Any:
        return self.values[normalize(name)]


def normalize(name: str) -> str:
    """Flag names are compared with ``_`` replaced by ``-`` (component-base ``cli/flag``, v0.36)."""
    return name.replace("_", "-")


def closest(name: str, names: Sequence[str]) -> str:
    """The closest known name, for a hint; empty if there is none."""
    similar = difflib.get_close_matches(name, names, n=1, cutoff=_SIMILAR)
    # Transposed letters of a short name make the similarity too low.
    similar += [candidate for candidate in names if sorted(candidate) == sorted(name)]
    return next(iter(similar), "")


class FlagSet:
    """The flags of one program, in named groups.

    ``plain``: errors about values are in plain words. Otherwise they are Go's, for programs that replace upstream's.
    """

    def __init__(self, usage: str, *, plain: bool = False) -> None:
        self.usage = usage
        self.plain = plain
        self.groups: dict[str, list[Flag]] = {}
        self._by_name: dict[str, Flag] = {}
        self._by_letter: dict[str, Flag] = {}

    def add(self, group: str, *flags: Flag) -> None:
        """Add flags to a group, which is created at its first use. Two flags of one name are a bug."""
        group_flags = self.groups.setdefault(group, [])
        for flag in flags:
            name = normalize(flag.name)
            assert name not in self._by_name, f"flag --{flag.name} is defined twice"
            group_flags.append(flag)
            self._by_name[name] = flag
            if flag.shorthand:
                self._by_letter[flag.shorthand] = flag

    def __contains__(self, name: str) -> bool:
        return normalize(name) in self._by_name

    def __iter__(self) -> Iterator[Flag]:
        return iter(self._by_name.values())

    def flag(self, name: str) -> Flag:
        """The flag of that name. Raises ``KeyError``."""
        return self._by_name[normalize(name)]

    def parse(self, argv: Sequence[str]) -> Parsed:
        """Parse a command line. Raises ``FlagError`` at the first invalid word."""
        reading = _Parser(self, argv)
        reading.read()
        values = {name: flag.default for name, flag in self._by_name.items()}
        values.update(reading.values)
        texts = {name: tuple(texts) for name, texts in reading.texts.items()}
        return Parsed(values, tuple(reading.values), tuple(reading.arguments), reading.wants_help, texts)

    def similar(self, name: str) -> str:
        """The closest flag that is not deprecated; empty if there is none."""
        return closest(normalize(name), [name for name, flag in self._by_name.items() if not flag.deprecated])

    def by_shorthand(self, letter: str) -> Flag | None:
        return self._by_letter.get(letter)

    def show(self, parsed: Parsed) -> dict[str, str]:
        """Every flag's value as Go prints it, sorted by name."""
        return {flag.name: flag.type.show(parsed[flag.name]) for flag in sorted(self, key=lambda f: f.name)}

    def help(self, width: int | None = None) -> str:
        """The text of ``--help``: usage, then every group."""
        columns = width or shutil.get_terminal_size((120, 24)).columns
        lines = [self.usage.rstrip(), ""]
        for title, flags in self.groups.items():
            visible = sorted((flag for flag in flags if not flag.deprecated), key=lambda f: f.name)
            if not visible:
                continue
            lines += [f"{title[:1].upper()}{title[1:]} flags:", ""]
            for flag in visible:
                lines += _describe(flag, columns)
            lines.append("")
        return "\n".join(lines)


class _Parser:
    """The parser of one command line, from left to right."""

    def __init__(self, flags: FlagSet, argv: Sequence[str]) -> None:
        self.values: dict[str, Any] = {}
        self.texts: dict[str, list[str]] = {}
        self.arguments: list[str] = []
        self.wants_help = False
        self._flags = flags
        self._words = list(reversed(argv))

    def read(self) -> None:
        while self._words:
            word = self._words.pop()
            if word == "--":
                self.arguments += reversed(self._words)
                return
            if word.startswith("--"):
                self._long(word)
            elif word.startswith("-") and word != "-":
                self._letters(word)
            else:
                self.arguments.append(word)

    def _long(self, word: str) -> None:
        name, sign, text = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {word}")
        if name not in self._flags:
            if name != "help":
                similar = self._flags.similar(name)
                hint = f" (did you mean --{similar}?)" if similar else ""
                raise FlagError(f"unknown flag: --{name}{hint}")
            self.wants_help = True
            return
        flag = self._flags.flag(name)
        self._set(flag, text if sign else self._value(flag, f"--{name}"))

    def _letters(self, word: str) -> None:
        letters = word[1:]
        while letters:
            flag = self._flags.by_shorthand(letters[0])
            rest = letters[1:]
            if flag is None:
                if letters[0] != "h":
                    raise FlagError(f"unknown shorthand flag: {letters[0]!r} in -{letters}")
                self.wants_help = True
            elif len(rest) > 1 and rest[0] == "=":
                self._set(flag, rest[1:])
                return
            elif flag.type.alone is not None:
                self._set(flag, flag.type.alone)
            else:
                self._set(flag, rest or self._value(flag, f"{letters[0]!r} in -{letters}"))
                return
            letters = rest

    def _value(self, flag: Flag, flag_text: str) -> str:
        if flag.type.alone is not None:
            return flag.type.alone
        if not self._words:
            raise FlagError(f"flag needs an argument: {flag_text}")
        return self._words.pop()

    def _set(self, flag: Flag, text: str) -> None:
        name = normalize(flag.name)
        if flag.type is IP and not text:
            return  # pflag treats an empty address as unset
        try:
            value = flag.type.parse(text)
        except ValueError as error:
            if self._flags.plain and flag.type.expects:
                reason = "is too large" if isinstance(error, OutOfRange) else f"must be {flag.type.expects}"
                raise FlagError(f"--{name} {reason}, got {quoted(text)}") from None
            flag_text = f"-{flag.shorthand}, --{name}" if flag.shorthand else f"--{name}"
            raise FlagError(f'invalid argument {quoted(text)} for "{flag_text}" flag: {error}') from None
        if flag.type.join is not None and name in self.values:
            value = flag.type.join(self.values[name], value)
        self.values[name] = value
        self.texts.setdefault(name, []).append(text)


def _describe(flag: Flag, columns: int) -> list[str]:
    head = f"  -{flag.shorthand}, --{flag.name}" if flag.shorthand else f"      --{flag.name}"
    if flag.type.name:
        head += f" {flag.type.name}"
    if flag.type.alone is not None and flag.type is not BOOL:
        head += f"[={flag.type.alone}]"
    width = max(columns - 16, 40)
    paragraphs = explain(flag).split("\n")
    body = [
        line for paragraph in paragraphs for line in textwrap.wrap(paragraph, width, break_on_hyphens=False) or [""]
    ]
    return [head, *(f"                {line}" for line in body)]


def explain(flag: Flag) -> str:
    """The help text with our notes and the default appended."""
    notes = []
    if flag.note:
        notes.append(f"[pilothouse: {flag.note}]")
    elif flag.ignored:
        notes.append("[pilothouse: accepted, no effect]")
    if flag.extra:
        notes.append("[pilothouse only]")
    if flag.default:
        default = flag.shown_default
        notes.append(f'(default "{default}")' if flag.type is STRING else f"(default {default})")
    # After a list with separate lines they start on a new one.
    between = "\n" if "\n" in flag.help else " "
    return f"{flag.help}{between}{' '.join(notes)}".strip()
