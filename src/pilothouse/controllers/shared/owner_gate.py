"""The checks at the start of a sync that all owners of pods share, and the writes that they share.

Used by ReplicaSets (and with them ReplicationControllers), Jobs, DaemonSets and StatefulSets. Upstream repeats the
checks at the head of ``syncReplicaSet``, ``syncJob``, ``syncDaemonSet`` and ``StatefulSetController.sync`` (v1.36
``pkg/controller``).
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from pilothouse.api.core import PODS, ObjectReference, Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.shared.own_writes import OwnWrites
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.runtime import (
    Claims,
    ConsistencyStore,
    ControllerContext,
    PodControl,
    RetryLater,
    SharedInformer,
    UidTrackingExpectations,
    read_versions,
)
from pilothouse.runtime.cache import Cached

O = TypeVar("O", bound=Cached)  # noqa: E741  # the owner


class ReplacedOwner(RetryLater):
    """The owner that this sync is about is gone, and another one has its name."""


class OwnerSnapshot(msgspec.Struct, Generic[O], frozen=True):
    """An owner as the cache had it when its sync began."""

    owner: O
    raw: bytes
    """Its JSON, into which the status is written."""
    expectations_satisfied: bool


class OwnerGate(Generic[O]):
    """What one controller knows of its own writes, and the checks before each sync.

    ``read`` are the informers whose caches the controller acts upon; the consistency store compares them in this order.
    ``prefix`` names its metric. ``selector_of`` gives what an owner selects, or ``None`` if its selector is invalid.
    ``on_gone`` gets the key of an owner that the cache has no longer.
    """

    def __init__(
        self,
        context: ControllerContext,
        kind: Kind[O],
        owners: SharedInformer[O],
        pods: SharedInformer[Pod],
        *,
        read: tuple[SharedInformer[Any], ...],
        prefix: str,
        wait_for_own_writes: bool,
        selector_of: Callable[[O], Selector | None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._client = context.client
        self.kind = kind
        self.owners = owners.cache
        self.selector_of = selector_of
        self._on_gone = on_gone
        self.expectations = UidTrackingExpectations(context.env)
        self.consistency_store = (
            ConsistencyStore(read_versions(*read), prefix=prefix, metrics=context.metrics)
            if wait_for_own_writes
            else None
        )
        self.writes = OwnWrites(
            context.client, self.expectations, self.consistency_store, pods_read=lambda: pods.read_version
        )

    async def enter(self, key: str) -> OwnerSnapshot[O] | None:
        """The owner to sync, or ``None`` when there is nothing to do. In this order:

        1. Requests without an answer: the API server is asked what became of them. Raises what the list raises.
        2. Own writes: ``StaleCache`` is raised while a cache is behind one of them.
        3. Deletion: everything kept for an owner that the cache has no longer is forgotten. One that the API server no
           longer has is not synced, although the cache still shows it; the event of its deletion brings the key back.
        4. Expectations: whether they are satisfied. If not, only the status is updated.
        """
        writes = self.writes
        if writes.is_undecided(key):
            await writes.find_out(key, self.owners.get(key), self.selector_of)
        writes.check(key)
        owner = self.owners.get(key)
        if owner is None:
            writes.forget(key)
            self._on_gone(key)
            return None
        if writes.is_known_gone(key, owner.metadata.uid):
            return None
        raw = self.owners.raw(key)
        assert raw is not None, "what is written back whole is cached with its JSON"
        return OwnerSnapshot(owner, raw, self.expectations.satisfied(key))

    def pod_claims(
        self, key: str, owner: ObjectMeta, selector: Selector, *, finalizers: tuple[str, ...] = ()
    ) -> Claims[Pod]:
        """Adopts and releases pods. Adopted ones get the finalizers."""
        return Claims(
            self._client,
            PODS,
            owner,
            new_controller_reference(owner, self.kind),
            selector,
            read_live=lambda: self.writes.read_owner(self.kind, key, owner),
            on_write=lambda written: self.writes.patched(key, owner.uid, written),
            finalizers=finalizers,
        )

    async def delete_pod(self, control: PodControl, key: str, pod: str, about: ObjectReference) -> None:
        """Delete the pod with this key, whose deletion is expected. One that is gone already is as good."""
        namespace, _slash, name = pod.partition("/")
        deleted = False
        try:
            await control.delete_pod(namespace, name, about)
            deleted = True
        except NotFound:
            return
        except (ApiError, OSError) as error:
            self.writes.failed(key, error)
            raise
        finally:
            if not deleted:
                self.expectations.deletion_observed(key, pod)

    async def put_status(self, key: str, owner: ObjectMeta, raw: bytes, status: bytes) -> O:
        """Write the owner with another status. ``raw`` is its JSON."""
        whole = replace_fields(raw, {"status": status, "metadata.managedFields": None})
        answer = await self._client.update(self.kind, owner.name, whole, owner.namespace, subresource="status")
        self.writes.wrote(key, owner.uid, self.kind.group_resource, answer.metadata.resource_version)
        return answer

    async def read_for_status(self, key: str, owner: ObjectMeta) -> bytes | None:
        """The JSON of the owner as the server has it, for a status that could not be written on the cached object;
        ``None`` if a status of a newer generation has been written. Raises ``ReplacedOwner``, ``NotFound`` and what the
        request raises."""
        try:
            live = await self._client.get(self.kind.raw, owner.name, owner.namespace)
        except NotFound as error:
            self.writes.owner_missing(key, owner, error)
            raise
        uid = take_field(live, "metadata.uid")
        if uid is None or msgspec.json.decode(uid) != owner.uid:
            # What was counted is not about this one.
            self.writes.owner_missing(key, owner)
            raise ReplacedOwner(f"{self.kind.kind} {key} was replaced by another one of its name")
        observed = take_field(live, "status.observedGeneration")
        return None if observed is not None and int(bytes(observed)) > owner.generation else bytes(live)
