"""How deep JSON nests and of how many parts it is, found out without decoding it.

What reads an object here calls itself for every level, and so do many who get it later. Go goes to 10,000 levels; this
server takes 300, of which the deepest definitions that are known need a fifth. An object or a list takes twenty times
as much room in memory as in JSON, which three megabytes can have a million and a half of.
"""

import re
from itertools import accumulate

MAX_DEPTH = 300
MAX_CONTAINERS = 250_000
"""Objects and lists in one text."""
TOO_DEEP = "exceeded max depth"
TOO_MANY = f"exceeded max number of objects and arrays ({MAX_CONTAINERS})"

_OTHERS = bytes(byte for byte in range(256) if byte not in b'{}[]"')
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_strings = re.compile(rb'"[^"]*"')


def exceeded(text: bytes) -> str:
    """``TOO_DEEP``, ``TOO_MANY``, or nothing when a JSON text keeps within bounds. Of what is not JSON it may say
    anything."""
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return ""
    if b"\\" in text:
        # Escaped backslashes go first, so that what is left of \\" is a quote that ends a string.
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = text.translate(None, _OTHERS).replace(b'""', b"")
    if b'"' in brackets:
        brackets = _strings.sub(b"", brackets)
    if brackets.count(b"{") + brackets.count(b"[") > MAX_CONTAINERS:
        return TOO_MANY
    # Of signed bytes an opening bracket is one more level, a closing one is one less.
    deepest = max(accumulate(memoryview(brackets.translate(_STEPS)).cast("b")), default=0)
    return TOO_DEEP if deepest > MAX_DEPTH else ""
