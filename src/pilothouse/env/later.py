"""Modules that are loaded when something of them is used.

A start pays for every module that it names, a fifth of a millisecond each. What answers rare requests need not be among
them. Where that are single functions, an ``import`` inside of one says it best; where a module is used all over
another one, or is a row of a table:

    if TYPE_CHECKING:
        from pilothouse.apiserver.handlers import eviction
    else:
        eviction = later("pilothouse.apiserver.handlers.eviction")
"""

import importlib
import sys
from typing import Any


class Later:
    """Looks like the module, for those who call its functions."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(sys.modules.get(self._name) or importlib.import_module(self._name), attribute)


def later(name: str) -> Any:
    """The module of that name, loaded with the first use of what it has."""
    return Later(name)
