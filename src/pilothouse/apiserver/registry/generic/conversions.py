"""Webhook conversions that a synchronous computation needs.

Managed fields are computed without waiting, on the loop or in a worker thread, but need objects in other versions.
``converted`` raises ``ConversionNeeded`` if the converted object is missing; ``Core.run_converting`` then calls the
webhook and repeats the computation with the result.
"""

from contextvars import ContextVar

from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.objects import Object, encode
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.apply import ConversionFailed

Key = tuple[ResourceInfo, bytes]
"""The target version, and the object as JSON."""
conversion_results: ContextVar[dict[Key, Object | StatusError] | None] = ContextVar("conversion_results", default=None)
"""The results of conversions for the current computation; None outside of ``Core.run_converting``."""


class ConversionNeeded(Exception):
    """The computation needs this object converted."""

    def __init__(self, key: Key, obj: Object) -> None:
        super().__init__("an object has to be converted")
        self.key = key
        self.obj = obj


def converted(obj: Object, target: ResourceInfo) -> Object:
    """The object converted to the version of ``target`` by its webhook; the caller may modify it. Raises
    ``ConversionFailed``."""
    results = conversion_results.get()
    assert results is not None, "computations that may need conversions are run by `Core.run_converting`"
    key = (target, encode(obj))
    result = results.get(key)
    if result is None:
        raise ConversionNeeded(key, obj)
    if isinstance(result, StatusError):
        raise ConversionFailed(result.message)
    return result
