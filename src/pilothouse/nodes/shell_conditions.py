"""``test``, ``[`` and ``[[``: comparisons of texts and numbers (POSIX ``test``). Files are unknown. Pure."""

import operator
import re
from collections.abc import Callable, Sequence

from pilothouse.nodes.shell_words import Unclear

_NUMBER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMERIC: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
_ENDS = {"[": "]", "[[": "]]"}
_INVALID = 2
"""The status for invalid arguments."""


def status_of_test(name: str, arguments: Sequence[str | None]) -> int:
    """The status of a test: 0 if it is true, 1 if not. Raises ``Unclear`` if it depends on something unknown."""
    words = list(arguments)
    if name in _ENDS and (not words or words.pop() != _ENDS[name]):
        if name == "[[":
            raise Unclear("conditions combined by && or ||, which this shell has read as commands")
        return _INVALID
    negated = len(words) > 1 and words[0] == "!"
    status = _status(name, words[1:] if negated else words)
    return 1 - status if negated and status != _INVALID else status


def _status(name: str, words: Sequence[str | None]) -> int:
    known = [word for word in words if word is not None]
    if len(known) != len(words):
        raise Unclear("a test of something unknown")
    match known:
        case []:
            return 1
        case [text]:
            return int(not text)
        case ["-n", text]:
            return int(not text)
        case ["-z", text]:
            return int(bool(text))
        case [left, "=" | "==" | "!=" as sign, right]:
            if name == "[[" and any(character in right for character in "*?["):
                raise Unclear("a pattern")
            return int((left == right) == (sign == "!="))
        case [left, sign, right] if sign in _NUMERIC:
            if not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)):
                return _INVALID
            return int(not _NUMERIC[sign](int(left), int(right)))
        case _:
            raise Unclear("a test of a file, or of several conditions")
