"""Limits the depth of JSON and its number of objects and lists, without decoding it.

Decoders here are recursive, and so is much of the code that uses objects later. Go's limit is 10,000 levels; this
server's is 300, of which the deepest known definitions need a fifth. An object or a list takes twenty times as much
memory as in JSON, and three megabytes can contain a million and a half of them.
"""

import re
from itertools import accumulate

MAX_DEPTH = 300
MAX_CONTAINERS = 250_000
"""The maximum number of objects and lists in one text."""
TOO_DEEP = "exceeded max depth"
TOO_MANY = f"exceeded max number of objects and arrays ({MAX_CONTAINERS})"

_OTHERS = bytes(byte for byte in range(256) if byte not in b'{}[]"')
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_strings = re.compile(rb'"[^"]*"')


def exceeded(text: bytes) -> str:
    """``TOO_DEEP``, ``TOO_MANY``, or empty for a JSON text within the limits. Undefined for other texts."""
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return ""
    if b"\\" in text:
        # Escaped backslashes are removed first, so that what is left of \\" is a quote that ends a string.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = text.translate(None, _OTHERS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = _strings.sub(b"", brackets)
    if brackets.count(b"{") + brackets.count(b"[") > MAX_CONTAINERS:
        return TOO_MANY
    # As signed bytes an opening bracket adds one level, a closing one removes one.
    deepest = max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b")), default=0)
    return TOO_DEEP if deepest > MAX_DEPTH else ""
