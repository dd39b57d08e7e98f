"""Regular expressions that come with requests: in RE2's language, which is Go's, and in time that grows with the text.

Python's own would take years over ``^(a+)+$``, and the server stands still meanwhile. The library is imported with the
first expression.
"""

from functools import lru_cache
from typing import Any


class PatternError(ValueError):
    """The text is no regular expression; says why."""


@lru_cache(maxsize=1024)
def compiled(text: str) -> Any:
    """The expression, with ``search``, ``finditer`` and ``fullmatch`` as in ``re``. Raises ``PatternError``."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise PatternError(why.decode() if isinstance(why, bytes) else str(why)) from None
