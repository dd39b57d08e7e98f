"""A finalizer that protects objects while they are in use: added to existing objects, removed from unused ones that are
being deleted.

Subclasses determine which objects are in use. Mirrors v1.36 ``pkg/controller/volume/protectionutil`` and the code that
``pvcprotection`` and ``pvprotection`` have in common.
"""

import enum
from abc import abstractmethod
from typing import Generic, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater, object_key
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)

_json = msgspec.json.Encoder().encode


class FinalizerAction(enum.Enum):
    NOTHING = "nothing"
    ADD = "add"
    """It is not being deleted and lacks the finalizer: it is older than the admission plugin that adds it, or somebody
    removed it."""
    REMOVE = "remove"
    """It is being deleted and has the finalizer, which is removed when the object is not in use."""


def finalizer_action(meta: ObjectMeta, finalizer: str) -> FinalizerAction:
    """``IsDeletionCandidate`` and ``NeedToAddFinalizer``. An object that is being deleted gets no finalizer."""
    has, being_deleted = finalizer in meta.finalizers, meta.deletion_timestamp is not None
    if being_deleted and has:
        return FinalizerAction.REMOVE
    return FinalizerAction.NOTHING if being_deleted or has else FinalizerAction.ADD


class ProtectionController(ManagedController, Generic[T]):
    """The controller of one kind and finalizer. Subclasses determine whether an object is in use.

    The cached object is written: if it has changed in the meantime, the write is a conflict and the key is retried. One
    worker, as upstream.
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
        objects.add_handler(
            lambda obj, _initial: self._enqueue_if_pending(obj),
            lambda _old, obj: self._enqueue_if_pending(obj),
            self.on_delete,
        )

    @abstractmethod
    async def is_being_used(self, obj: T) -> bool:
        """Whether an object that is being deleted is in use."""

    def on_delete(self, obj: T, _unknown: bool) -> None:
        """Called when an object is deleted."""

    def pending_action(self, obj: T) -> FinalizerAction:
        return finalizer_action(obj.metadata, self._finalizer)

    def enqueue(self, key: str) -> None:
        """An object that used the one with this key may have been deleted. Enqueues the key if its object is being
        deleted; otherwise the event of the deletion will enqueue it."""
        obj = self.objects.get(key)
        if obj is not None:
            self._enqueue_if_pending(obj)

    def _enqueue_if_pending(self, obj: T) -> None:
        if self.pending_action(obj) is not FinalizerAction.NOTHING:
            self.queue.add(object_key(obj.metadata))

    async def reconcile(self, key: str) -> Requeue | None:
        obj, raw = self.objects.get(key), self.objects.raw(key)
        if obj is None:
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        meta = obj.metadata
        match self.pending_action(obj):
            case FinalizerAction.NOTHING:
                return None
            case FinalizerAction.ADD:
                record_decision(f"{self._kind.kind} {key} lacks the finalizer {self._finalizer}")
                await self._write(meta, raw, (*meta.finalizers, self._finalizer))
                self.log.info("Added protection finalizer", v=3, kind=self._kind.kind, key=key)
            case FinalizerAction.REMOVE:
                if await self.is_being_used(obj):
                    self.log.info("Keeping it because it is being used", v=2, kind=self._kind.kind, key=key)
                    return None
                record_decision(
                    f"{self._kind.kind} {key} is being deleted and not in use: {self._finalizer} is removed"
                )
                await self._write(
                    meta, raw, tuple(finalizer for finalizer in meta.finalizers if finalizer != self._finalizer)
                )
                self.log.info("Removed protection finalizer", v=3, kind=self._kind.kind, key=key)
        return None

    async def _write(self, meta: ObjectMeta, raw: bytes, finalizers: tuple[str, ...]) -> None:
        body = replace_fields(raw, {"metadata.finalizers": _json(finalizers) if finalizers else None})
        try:
            await self.client.update(self._kind.raw, meta.name, body, meta.namespace)
        except (Conflict, NotFound) as error:
            # The cache is older. A later event has the current object or its deletion.
            raise RetryLater(str(error)) from error
