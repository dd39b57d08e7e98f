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
    observed: dict[int, Any] = {}
    pending = list(roots)
    while pending:
        result = pending.pop()
        if id(result) in observed or isinstance(result, _CODE) or is_foreign(result):
            continue
        observed[id(result)] = result
        if isinstance(result, types.FunctionType):
            # Not its globals: those are the module.
            pending += [result.__closure__, result.__defaults__, result.__kwdefaults__]
        else:
            pending += gc.get_referents(result)
            if isinstance(result, dict):
                pending += result  # string keys are no referents
    return observed


def by_type(obj: dict[int, Any]) -> Counter[str]:
    """The number of objects of each type."""
    return Counter(f"{type(value).__module__}.{type(value).__qualname__}" for value in obj.values())
