"""A finalizer that keeps objects as long as somebody uses them: put on what lives, taken off what is being deleted.

The protection controllers are this and an answer to the question who uses an object. Mirrors v1.36
``pkg/controller/volume/protectionutil`` and what ``pvcprotection`` and ``pvprotection`` have in common.
"""

import enum
from abc import abstractmethod
from typing import Generic, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater, object_key
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)

_json = msgspec.json.Encoder().encode


class Due(enum.Enum):
    NOTHING = "nothing"
    PROTECT = "protect"
    """It lives without the finalizer: it is older than the admission plugin that gives it to new ones, or somebody took
    it off."""
    LET_GO = "let go"
    """It is being deleted, and goes as far as we are concerned, once nobody uses it."""


def what_is_due(meta: ObjectMeta, finalizer: str) -> Due:
    """``IsDeletionCandidate`` and ``NeedToAddFinalizer``. What is being deleted gets no finalizer any more."""
    has, going = finalizer in meta.finalizers, meta.deletion_timestamp is not None
    if going and has:
        return Due.LET_GO
    return Due.NOTHING if going or has else Due.PROTECT


class ProtectionController(ManagedController, Generic[T]):
    """One kind, one finalizer. Subclass it and say who uses an object.

    Written is the object as it was read: if it has changed meanwhile the write is refused, and the question is asked
    again. One worker, as upstream.
    """

    def __init__(
        self,
        name: str,
        context: ControllerContext,
        kind: Kind[T],
        finalizer: str,
        *,
        queue_name: str,
    ) -> None:
        objects = context.informer(kind)
        super().__init__(context, name, queue_name=queue_name)
        self.client = context.client
        self.objects = objects.cache
        self._kind = kind
        self._finalizer = finalizer
        objects.add_handler(lambda obj, _initial: self._changed(obj), lambda _old, obj: self._changed(obj), self.gone)

    @abstractmethod
    async def is_used(self, obj: T) -> bool:
        """Whether somebody uses an object that is being deleted."""

    def gone(self, obj: T, _unknown: bool) -> None:
        """An object is there no more."""

    def due(self, obj: T) -> Due:
        return what_is_due(obj.metadata, self._finalizer)

    def wake(self, key: str) -> None:
        """A user of the object of that key may be gone. Enqueues the key if the object is to be synced for that; if not
        yet, the event of its deletion enqueues it."""
        obj = self.objects.get(key)
        if obj is not None:
            self._changed(obj)

    def _changed(self, obj: T) -> None:
        if self.due(obj) is not Due.NOTHING:
            self.queue.add(object_key(obj.metadata))

    async def reconcile(self, key: str) -> Requeue | None:
        obj, raw = self.objects.get(key), self.objects.raw(key)
        if obj is None:
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        meta = obj.metadata
        match self.due(obj):
            case Due.NOTHING:
                return None
            case Due.PROTECT:
                await self._write(meta, raw, (*meta.finalizers, self._finalizer))
                self.log.info("Added protection finalizer", v=3, kind=self._kind.kind, key=key)
            case Due.LET_GO:
                if await self.is_used(obj):
                    self.log.info("Keeping it because it is being used", v=2, kind=self._kind.kind, key=key)
                    return None
                await self._write(meta, raw, tuple(each for each in meta.finalizers if each != self._finalizer))
                self.log.info("Removed protection finalizer", v=3, kind=self._kind.kind, key=key)
        return None

    async def _write(self, meta: ObjectMeta, raw: bytes, finalizers: tuple[str, ...]) -> None:
        body = replace_fields(raw, {"metadata.finalizers": _json(finalizers) if finalizers else None})
        try:
            await self.client.update(self._kind.raw, meta.name, body, meta.namespace)
        except (Conflict, NotFound) as error:
            # The cache is behind. It will show the object as it is now, or that it is gone.
            raise RetryLater(str(error)) from error
