"""Equality of decoded JSON as in Go: ``True`` is not 1, and 1.0 is not 1.

Python's ``==`` takes them for equal, so an update that replaces one by the other would change nothing.
"""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="sorted").encode


def deep_equal(value: Any, other: Any) -> bool:
    """Whether two decoded JSON values are equal, with the same types (``reflect.DeepEqual``)."""
    return bool(value == other) and _encode(value) == _encode(other)


def with_distinct_booleans(old: Any, new: Any) -> Any:
    """``new``, with texts for booleans and numbers that Python takes for equal to the number or boolean in ``old``, so
    that a comparison of the two by ``==`` finds the difference. Shares unchanged parts; neither is changed."""
    if type(new) is dict and type(old) is dict:
        distinct = {
            name: marked
            for name, value in new.items()
            if name in old and (marked := with_distinct_booleans(old[name], value)) is not value
        }
        return {**new, **distinct} if distinct else new
    if type(new) is list and type(old) is list and len(new) == len(old):
        items = [with_distinct_booleans(old_item, value) for old_item, value in zip(old, new, strict=True)]
        return items if any(item is not value for item, value in zip(items, new, strict=True)) else new
    if (type(old) is bool) is not (type(new) is bool) and old == new:
        return repr(new)
    return new
