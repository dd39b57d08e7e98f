"""Controllers that check all objects of a kind periodically, and delete those whose time is over."""

from abc import abstractmethod
from typing import Generic, TypeVar

from pilothouse.api.kinds import Kind
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, object_key
from pilothouse.runtime.cache import Cached

T = TypeVar("T", bound=Cached)

SYNC = "sync"


class Sweep(ManagedController, Generic[T]):
    """Subclass it and implement ``reason``. ``description`` names the objects in the log."""

    def __init__(
        self, context: ControllerContext, name: str, kind: Kind[T], *, period: float, queue_name: str, description: str
    ) -> None:
        informer = context.informer(kind)
        super().__init__(context, name, queue_name=queue_name)
        self._client = context.client
        self._kind = kind
        self._cache = informer.cache
        self._period = period
        self._description = description
        self.queue.add(SYNC)

    @abstractmethod
    def reason(self, obj: T) -> str | None:
        """Why the object is to be deleted; None if it is not."""

    async def reconcile(self, key: str) -> Requeue | None:
        """One pass over all objects. Failures are logged and retried in the next pass."""
        for obj in self._cache.list():
            reason = self.reason(obj)
            if reason is None:
                continue
            meta = obj.metadata
            begin_sync(self.name, object_key(meta), current_triggers())
            record_decision(f"the {self._description} is deleted: {reason}")
            try:
                await self._client.delete(self._kind, meta.name, meta.namespace, uid=meta.uid)
            except (NotFound, Conflict):
                continue  # it was deleted, or another one with its name exists
            except (ApiError, OSError) as error:
                text = f"Error while attempting to clean a {self._description}"
                self.log.error(text, error=error, name=object_key(meta))  # noqa: TRY400  # no traceback: the server said no
        return Requeue(self._period)
