"""The checks at the start of a sync, and the writes, that all controllers of pod owners have in common.

Used for ReplicaSets, ReplicationControllers, Jobs, DaemonSets and StatefulSets. Upstream repeats the checks at the
start of ``syncReplicaSet``, ``syncJob``, ``syncDaemonSet`` and ``StatefulSetController.sync`` (v1.36
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
    """The owner of this sync was deleted, and another one with its name exists."""


class OwnerSnapshot(msgspec.Struct, Generic[O], frozen=True):
    """An owner as it was in the cache when its sync started."""

    owner: O
    raw: bytes
    """Its JSON, in which ``put_status`` replaces the status."""
    expectations_satisfied: bool


class OwnerGate(Generic[O]):
    """The expectations and own writes of one controller, and the checks before each sync.

    ``read`` are the informers that the controller reads; the consistency store compares their versions in this order.
    ``prefix`` is that of its metric. ``selector_of`` returns the selector of an owner, or ``None`` if it is invalid.
    ``on_deleted`` is called with the key of an owner that is no longer in the cache.
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
        on_deleted: Callable[[str], None],
    ) -> None:
        self._client = context.client
        self.kind = kind
        self.owners = owners.cache
        self.selector_of = selector_of
        self._on_deleted = on_deleted
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
        """The owner to sync, or ``None`` if there is nothing to do. The checks, in this order:

        1. Requests without a response: the pods are listed live to find out whether they were carried out. Raises the
           error of the list.
        2. Own writes: ``StaleCache`` is raised while a cache is behind one of them.
        3. Deletion: the state of an owner that is no longer in the cache is dropped. An owner that was deleted from the
           API server but is still in the cache is not synced; the event of its deletion enqueues the key.
        4. Expectations: whether they are satisfied. If not, only the status is updated.
        """
        writes = self.writes
        if writes.is_undecided(key):
            await writes.resolve_undecided(key, self.owners.get(key), self.selector_of)
        writes.check(key)
        owner = self.owners.get(key)
        if owner is None:
            writes.forget(key)
            self._on_deleted(key)
            return None
        if writes.is_recorded_as_deleted(key, owner.metadata.uid):
            return None
        raw = self.owners.raw(key)
        assert raw is not None, "the informer of the owners must keep the JSON (keep_raw)"
        return OwnerSnapshot(owner, raw, self.expectations.satisfied(key))

    def pod_claims(
        self, key: str, owner: ObjectMeta, selector: Selector, *, finalizers: tuple[str, ...] = ()
    ) -> Claims[Pod]:
        """A manager that adopts and releases pods (``PodControllerRefManager``). Adopted pods get the finalizers."""
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

    async def delete_pod(self, control: PodControl, key: str, pod: str, reference: ObjectReference) -> None:
        """Delete the pod with this key, for whose deletion an expectation is set. A pod that does not exist is not an
        error."""
        namespace, _slash, name = pod.partition("/")
        deleted = False
        try:
            await control.delete_pod(namespace, name, reference)
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
        """Update the status of the owner, whose JSON is ``raw``."""
        new_body = replace_fields(raw, {"status": status, "metadata.managedFields": None})
        response = await self._client.update(self.kind, owner.name, new_body, owner.namespace, subresource="status")
        self.writes.wrote_at(key, owner.uid, self.kind.group_resource, response.metadata.resource_version)
        return response

    async def read_for_status(self, key: str, owner: ObjectMeta) -> bytes | None:
        """The JSON of the live owner, to retry an update of the status after a conflict; ``None`` if a status for a
        newer generation was written in the meantime. Raises ``ReplacedOwner``, ``NotFound`` and the error of the
        request."""
        try:
            live = await self._client.get(self.kind.raw, owner.name, owner.namespace)
        except NotFound as error:
            self.writes.record_owner_missing(key, owner, error)
            raise
        uid = take_field(live, "metadata.uid")
        if uid is None or msgspec.json.decode(uid) != owner.uid:
            # The status was computed for the previous owner.
            self.writes.record_owner_missing(key, owner)
            raise ReplacedOwner(f"{self.kind.kind} {key} was replaced by another one with the same name")
        observed = take_field(live, "status.observedGeneration")
        return None if observed is not None and int(bytes(observed)) > owner.generation else bytes(live)
