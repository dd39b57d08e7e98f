"""The steps that a controller of objects with pods takes before it syncs one of them, in one order for all of them.

Used by ReplicaSets (and with them ReplicationControllers), Jobs, DaemonSets and StatefulSets. Upstream repeats these
steps at the head of ``syncReplicaSet``, ``syncJob``, ``syncDaemonSet`` and ``StatefulSetController.sync`` (v1.36
``pkg/controller``).
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from pilothouse.api.core import Pod
from pilothouse.controllers.shared.own_writes import OwnWrites
from pilothouse.machinery.labels import Selector
from pilothouse.runtime import (
    ConsistencyStore,
    ControllerContext,
    SharedInformer,
    UidTrackingExpectations,
    heard_by,
)
from pilothouse.runtime.cache import Cached

O = TypeVar("O", bound=Cached)  # noqa: E741  # the owner


class OwnerSnapshot(msgspec.Struct, Generic[O], frozen=True):
    """An owner as the cache had it when its sync began."""

    owner: O
    raw: bytes
    """Its JSON, into which the status is written."""
    expectations_satisfied: bool


class OwnerGate(Generic[O]):
    """What one controller knows of its own writes, and the check before each sync.

    ``read`` are the informers whose caches the controller acts upon; the consistency store compares them in this order.
    ``prefix`` names its metric. ``selector_of`` gives what an owner selects, or ``None`` where that is no valid
    selector. ``on_gone`` gets the key of an owner that the cache has no longer.
    """

    def __init__(
        self,
        context: ControllerContext,
        owners: SharedInformer[O],
        pods: SharedInformer[Pod],
        *,
        read: tuple[SharedInformer[Any], ...],
        prefix: str,
        wait_for_own_writes: bool,
        selector_of: Callable[[O], Selector | None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._owners = owners.cache
        self._selector_of = selector_of
        self._on_gone = on_gone
        self.expectations = UidTrackingExpectations(context.env)
        self.consistency_store = (
            ConsistencyStore(heard_by(*read), prefix=prefix, metrics=context.metrics) if wait_for_own_writes else None
        )
        self.writes = OwnWrites(
            context.client, self.expectations, self.consistency_store, pods_read=lambda: pods.heard_version
        )

    async def enter(self, key: str) -> OwnerSnapshot[O] | None:
        """The owner to sync, or ``None`` when there is nothing to do. In this order:

        1. Requests without an answer: the API server is asked what became of them. Raises what the list raises.
        2. Own writes: ``StaleCache`` is raised while a cache is behind one of them.
        3. Deletion: everything kept for an owner that the cache has no longer is forgotten. One that the API server no
           longer has is not synced, although the cache still shows it; the event of its deletion brings the key back.
        4. Expectations: whether they are satisfied. Those who hold back for them still report the status.
        """
        writes, owners = self.writes, self._owners
        if writes.is_undecided(key):
            await writes.find_out(key, owners.get(key), self._selector_of)
        writes.check(key)
        owner = owners.get(key)
        if owner is None:
            writes.forget(key)
            self._on_gone(key)
            return None
        if writes.is_known_gone(key, owner.metadata.uid):
            return None
        raw = owners.raw(key)
        assert raw is not None, "what is written back whole is cached with its JSON"
        return OwnerSnapshot(owner, raw, self.expectations.satisfied(key))
