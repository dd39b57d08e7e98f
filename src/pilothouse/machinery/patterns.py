"""Regular expressions from requests: with RE2's syntax, which is Go's, and in linear time.

Python's own engine would take years for ``^(a+)+$``, and block the server. The library is imported for the first
expression.
"""

from typing import Any

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.bounded_cache import bounded_cache

with lazy_imports():
    import re2


class PatternError(ValueError):
    """An invalid regular expression, with the message of Go's ``regexp/syntax``."""


_GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}


def _go_message(reason: str) -> str:
    """RE2 in C++ has other messages for the same errors, and shows the position without quotes."""
    text_error, _separator, expression = reason.partition(": ")
    if text_error.startswith("trailing \\"):
        text_error, expression = "trailing \\", ""
    return f"error parsing regexp: {_GO_WORDS.get(text_error, text_error)}: `{expression}`"


@bounded_cache(1024, max_length=4096)
def compiled(text: str) -> Any:
    """The compiled expression, with ``search``, ``finditer`` and ``fullmatch`` as in ``re``. Raises
    ``PatternError``."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise PatternError(_go_message(reason.decode() if isinstance(reason, bytes) else str(reason))) from None
