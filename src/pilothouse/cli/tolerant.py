"""Parses command lines of the programs that ours replace: unknown flags are ignored with a warning."""

from collections.abc import Sequence

from pilothouse.env.logging import Log
from pilothouse.machinery.flags import FlagSet, normalize

_log = Log("flags")


def known_words(flags: FlagSet, args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments of known flags, and the unknown flags as they were given.

    The next argument is the value of an unknown flag unless it has one after ``=`` or that argument is a flag itself,
    because it is unknown whether the flag is boolean.
    """
    accepted: list[str] = []
    unknown: list[str] = []
    left = list(reversed(args))
    while left:
        word = left.pop()
        name, sign, _value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name or name in flags or normalize(name) == "help":
            accepted.append(word)
            takes_next = word.startswith("--") and name in flags and not sign and flags.flag(name).type.alone is None
            if takes_next and left:
                accepted.append(left.pop())
            continue
        unknown.append(word)
        if not sign and left and not left[-1].startswith("-"):
            left.pop()
    return accepted, unknown


def warn(unknown: Sequence[str]) -> None:
    """One warning for each ignored flag."""
    for word in unknown:
        _log.warning("Unsupported flag is ignored", flag=word.partition("=")[0])
