"""Results for texts that users write, remembered for as long as they are short.

``functools.lru_cache`` counts what it keeps and does not weigh it: 4,096 names of a megabyte each are 4 GB. What is
worth remembering (names, addresses, quantities) is short.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def remembered(most: int, longest: int = 256) -> Callable[[F], F]:
    """``lru_cache(most)`` for a function of one or two texts; for a text longer than ``longest`` it is asked anew each
    time."""

    def decorate(function: F) -> F:
        cached = lru_cache(maxsize=most)(function)

        def of_one(text: Any) -> Any:
            return cached(text) if len(text) <= longest else function(text)

        def of_two(first: Any, second: Any) -> Any:
            return cached(first, second) if len(first) + len(second) <= longest else function(first, second)

        call = of_one if function.__code__.co_argcount == 1 else of_two
        return wraps(function)(call)  # type: ignore[return-value]  # with the same parameters

    return decorate
