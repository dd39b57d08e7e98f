"""Caches for functions of strings from users, limited in the number *and* the length of the strings.

``functools.lru_cache`` only limits the number: 4,096 names of a megabyte each are 4 GB. Strings worth caching (names,
addresses, quantities) are short.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

TEMPLATE_BYTES = 16 * 1024
"""The largest pod template whose other forms are cached."""


def bounded_cache(maxsize: int, max_length: int = 256) -> Callable[[F], F]:
    """``lru_cache(maxsize)`` for a function of one or two strings (or bytes); results for arguments of more than
    ``max_length`` characters are not cached."""

    def decorate(function: F) -> F:
        cached = lru_cache(maxsize=maxsize)(function)

        def of_one(text: Any) -> Any:
            return cached(text) if len(text) <= max_length else function(text)

        def of_two(first: Any, second: Any) -> Any:
            return cached(first, second) if len(first) + len(second) <= max_length else function(first, second)

        call = of_one if function.__code__.co_argcount == 1 else of_two
        return wraps(function)(call)  # type: ignore[return-value]  # with the same parameters

    return decorate
