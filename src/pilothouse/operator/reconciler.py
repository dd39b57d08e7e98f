"""Syncs one object: a function, or a class with state."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from pilothouse.operator.context import Context
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.controller import Requeue

T = TypeVar("T", bound=Cached)
Sync = Callable[[T, Context[T]], Awaitable[Requeue | None]]
"""Reconciles an object. Returns None, or when to requeue."""


class Reconciler(ABC, Generic[T]):
    """A controller as a class, for those that keep something between syncs."""

    @abstractmethod
    async def reconcile(self, obj: T, ctx: Context[T]) -> Requeue | None:
        """Reconcile the object. Not called for objects that are being deleted."""

    async def finalize(self, obj: T, ctx: Context[T]) -> Requeue | None:
        """Clean up what garbage collection does not. Called while the object is being deleted and has the controller's
        finalizer, which is removed when this returns None."""
