"""What a part of a program holds on to: everything that can be reached from it, counted by type.

For tests that memory does not grow. Unlike a count of all objects (``gc.get_objects``) this has strings, numbers and
dictionaries of such, which the collector does not track, and it leaves out what other parts of the process remember.
"""

import functools
import gc
import types
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

_PROGRAM = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, functools._lru_cache_wrapper)
"""Not looked into: what is the program rather than its memory, and memories that have a bound of their own."""


def remembered(roots: Iterable[Any], is_foreign: Callable[[Any], bool]) -> dict[int, Any]:
    """All that can be reached from ``roots``, by id. Not what is foreign, nor what is reached only through that."""
    gc.collect()
    seen: dict[int, Any] = {}
    pending = list(roots)
    while pending:
        found = pending.pop()
        if id(found) in seen or isinstance(found, _PROGRAM) or is_foreign(found):
            continue
        seen[id(found)] = found
        if isinstance(found, types.FunctionType):
            # Not its globals: those are the module.
            pending += [found.__closure__, found.__defaults__, found.__kwdefaults__]
        else:
            pending += gc.get_referents(found)
            if isinstance(found, dict):
                pending += found  # keys that are strings are not told to the collector
    return seen


def by_type(found: dict[int, Any]) -> Counter[str]:
    """How many there are of each type."""
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in found.values())
