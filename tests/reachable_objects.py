"""All objects reachable from a part of a program, counted by type: for tests of memory growth.

Unlike ``gc.get_objects`` it includes strings, numbers and dictionaries of such, which the garbage collector does not
track, and excludes the objects of other parts of the process.
"""

import functools
import gc
import types
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

_CODE = (type, types.ModuleType, types.BuiltinFunctionType, types.CodeType, functools._lru_cache_wrapper)
"""Types that are not traversed: code, and caches with their own bound."""


def reachable_objects(roots: Iterable[Any], is_foreign: Callable[[Any], bool]) -> dict[int, Any]:
    """The objects reachable from ``roots``, by id, except through objects that are ``is_foreign``."""
    gc.collect()
    seen: dict[int, Any] = {}
    pending = list(roots)
    while pending:
        found = pending.pop()
        if id(found) in seen or isinstance(found, _CODE) or is_foreign(found):
            continue
        seen[id(found)] = found
        if isinstance(found, types.FunctionType):
            # Not its globals: those are the module.
            pending += [found.__closure__, found.__defaults__, found.__kwdefaults__]
        else:
            pending += gc.get_referents(found)
            if isinstance(found, dict):
                pending += found  # string keys are no referents
    return seen


def by_type(found: dict[int, Any]) -> Counter[str]:
    """The number of objects of each type."""
    return Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in found.values())
