"""Command lines of programs that ours stand in for: flags that we do not have are left out, with a warning each."""

from collections.abc import Sequence

from pilothouse.env.logging import Log
from pilothouse.machinery.flags import FlagSet, normalize

_log = Log("flags")


def known_words(flags: FlagSet, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that belong to known flags, and the unknown flags as they were written.

    An unknown flag takes the next word for its value unless it has one behind ``=`` or that word is a flag itself:
    nothing says whether it is a switch.
    """
    known: list[str] = []
    unknown: list[str] = []
    left = list(reversed(words))
    while left:
        word = left.pop()
        name, sign, _value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or not name or name in flags or normalize(name) == "help":
            known.append(word)
            takes_next = word.startswith("--") and name in flags and not sign and flags.flag(name).type.alone is None
            if takes_next and left:
                known.append(left.pop())
            continue
        unknown.append(word)
        if not sign and left and not left[-1].startswith("-"):
            left.pop()
    return known, unknown


def warn(unknown: Sequence[str]) -> None:
    """One warning for each flag that was left out."""
    for word in unknown:
        _log.warning("Unsupported flag is ignored", flag=word.partition("=")[0])
