"""Finds names in the source of an expression, without compiling it."""

import re

_STRINGS_AND_COMMENTS = re.compile(
    r"""
    //[^\n]*
    | [rR](?: \"\"\".*?(?:\"\"\"|\Z) | '''.*?(?:'''|\Z) | "[^"\n]*"? | '[^'\n]*'? )
    | \"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)
    | '''(?:\\.|[^\\])*?(?:'''|\Z)
    | "(?:\\.|[^"\\\n])*+"?
    | '(?:\\.|[^'\\\n])*+'?
    """,
    re.DOTALL | re.VERBOSE,
)
"""What begins and does not end goes to the end of the line or of the text: it is not searched again from each of its
characters."""


def without_strings(source: str) -> str:
    """The source with empty strings instead of its strings and comments."""
    return _STRINGS_AND_COMMENTS.sub("''", source)


def quoted_identifiers(source: str) -> list[int]:
    """The positions of identifiers in backticks, which cel-go rejects unless they are enabled."""
    if "`" not in source:
        return []
    blanked = _STRINGS_AND_COMMENTS.sub(lambda match: " " * len(match[0]), source)
    return [match.start() for match in re.finditer(r"`[^`\n]*`", blanked)]
