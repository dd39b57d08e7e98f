"""What syncs one object: a function, or a class that keeps something between syncs."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from pilothouse.operator.context import Context
from pilothouse.runtime.cache import Cached
from pilothouse.runtime.controller import Requeue

T = TypeVar("T", bound=Cached)
Sync = Callable[[T, Context[T]], Awaitable[Requeue | None]]
"""Brings the world closer to what the object asks for. Returns None, or when to come back."""


class Reconciler(ABC, Generic[T]):
    """A controller as a class, for those that keep something between syncs."""

    @abstractmethod
    async def reconcile(self, obj: T, ctx: Context[T]) -> Requeue | None:
        """Bring the world closer to what the object asks for. It is not called for objects that are being deleted."""

    async def finalize(self, obj: T, ctx: Context[T]) -> Requeue | None:
        """Undo what garbage collection does not. Called while the object is being deleted and has the controller's
        finalizer, which goes when this returns None."""
