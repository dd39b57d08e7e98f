"""Conversions by webhook in the middle of a computation.

Who owns which field after a write is computed without waiting for anything, in a worker thread or on the loop, and on
the way objects of other versions are needed. ``converted`` raises ``ConversionNeeded`` for one that is not known yet;
``Core.run_converting`` has it converted and computes once more.
"""

from contextvars import ContextVar

from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, encode
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.apply import ConversionFailed

Key = tuple[ResourceInfo, bytes]
"""The version that is asked for, and the object as JSON."""
known: ContextVar[dict[Key, Object | StatusError] | None] = ContextVar("known", default=None)
"""What was converted for the computation under way; None outside of ``Core.run_converting``."""


class ConversionNeeded(Exception):
    """An object has to be converted before this can be computed."""

    def __init__(self, key: Key, obj: Object) -> None:
        super().__init__("an object has to be converted")
        self.key = key
        self.obj = obj


def converted(obj: Object, target: ResourceInfo) -> Object:
    """An object of another version as its webhook converts it, free to be changed. Raises ``ConversionFailed``."""
    results = known.get()
    assert results is not None, "what may need conversions is run by `Core.run_converting`"
    key = (target, encode(obj))
    result = results.get(key)
    if result is None:
        raise ConversionNeeded(key, obj)
    if isinstance(result, StatusError):
        raise ConversionFailed(result.message)
    return result
