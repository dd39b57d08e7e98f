"""Event handlers that do the same for each kind of event."""

from collections.abc import Callable
from typing import TypeVar

from pilothouse.runtime.cache import Cached
from pilothouse.runtime.informer import SharedInformer

T = TypeVar("T", bound=Cached)


def on_any_event(
    informer: SharedInformer[T], handle: Callable[[T], object], resync_seconds: float | None = None
) -> None:
    """Call ``handle`` with the object that was added, has changed, or was deleted."""
    informer.add_handler(
        lambda obj, _initial: handle(obj),
        lambda _old, obj: handle(obj),
        lambda obj, _unknown: handle(obj),
        resync_seconds=resync_seconds,
    )
