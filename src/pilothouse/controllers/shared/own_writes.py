"""A controller's own writes to the pods of its owners.

Three things are kept per owner: the versions of the consistency store, the newest pod that was created, and whether a
request is without a response. Needed for pods with generated names, which could be created twice; for fixed names the
consistency store is enough.
"""

from collections.abc import Callable
from typing import Any

from pilothouse.api.core import PODS
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, NotFound, is_connection_refused
from pilothouse.controllers.shared.blueprints import Owner
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import is_controlled_by
from pilothouse.machinery.resource_versions import compare, is_newer
from pilothouse.runtime import ConsistencyStore, Expectations

_POD_META = PODS.read_as(Object)

Versions = Callable[[], str]


class OwnWrites:
    """The writes of one controller. ``pods_read`` returns the resourceVersion up to which the pod cache has read."""

    def __init__(
        self,
        client: Client,
        expectations: Expectations,
        consistency_store: ConsistencyStore | None,
        pods_read: Versions,
    ) -> None:
        self._client = client
        self._expectations = expectations
        self._consistency_store = consistency_store
        self._pods_read = pods_read
        self._newest_created: dict[str, str] = {}
        self._undecided: dict[str, None] = {}
        self._gone: dict[str, str] = {}

    # While acting

    def created(self, key: str, uid: str, pod: ObjectMeta) -> None:
        self.patched(key, uid, pod)
        newest = self._newest_created.get(key)
        if newest is None or is_newer(pod.resource_version, newest):
            self._newest_created[key] = pod.resource_version

    def patched(self, key: str, uid: str, pod: ObjectMeta) -> None:
        self.wrote_at(key, uid, PODS.group_resource, pod.resource_version)

    def wrote_at(self, key: str, uid: str, group_resource: str, version: str) -> None:
        """Record the write of an object that the controller also watches."""
        if self._consistency_store is not None:
            self._consistency_store.wrote_at(key, uid, group_resource, version)

    def failed(self, key: str, error: Exception) -> None:
        """A create or delete failed. If the server may have carried it out nevertheless, the next sync lists the pods
        first."""
        if self._consistency_store is not None and may_have_happened(error):
            self._undecided[key] = None

    def record_owner_missing(self, key: str, owner: ObjectMeta, error: NotFound | None = None) -> None:
        """The owner was deleted from the server. A 404 whose details do not name it is ignored, because it may come
        from a proxy."""
        if error is None or (error.status.details is not None and error.status.details.name == owner.name):
            self._gone[key] = owner.uid

    async def read_owner(self, kind: Kind[Any], key: str, owner: ObjectMeta) -> ObjectMeta:
        """The live owner, for adoptions. If it does not exist or has another uid, the owner is recorded as deleted.
        Raises the error of the request."""
        try:
            live = (await self._client.get(kind.read_as(Object), owner.name, owner.namespace)).metadata
        except NotFound as error:
            self.record_owner_missing(key, owner, error)
            raise
        if live.uid != owner.uid:
            self.record_owner_missing(key, owner)
        return live

    # Before acting

    def is_undecided(self, key: str) -> bool:
        """Whether a request for the owner had no response."""
        return key in self._undecided

    async def resolve_undecided(
        self, key: str, owner: Owner | None, selector_of: Callable[[Owner], Selector | None]
    ) -> None:
        """Record the live pods of the owner after requests without a response, so that the next check waits until they
        are in the cache. Upstream retries immediately, and may create one pod too many for each lost response. Raises
        the error of the list."""
        selector = selector_of(owner) if owner is not None else None
        if owner is not None and selector is not None:
            meta = owner.metadata
            pods = await self._client.list(_POD_META, meta.namespace, label_selector=str(selector))
            for pod in pods.items:
                if is_controlled_by(pod.metadata, meta.uid):
                    self.patched(key, meta.uid, pod.metadata)
        self._undecided.pop(key, None)

    def check(self, key: str) -> None:
        """Raise ``StaleCache`` while a cache is older than a write for the owner. Otherwise lower the expectations of
        creations that the cache has passed."""
        if self._consistency_store is not None:
            self._consistency_store.ensure_ready(key)
            self._lower_passed_creations(key)

    def _lower_passed_creations(self, key: str) -> None:
        """Lower expectations of pods whose creation will never be observed. If the pod cache is newer than the last pod
        created for the owner and a creation is still expected, that pod was deleted between two lists and caused no
        event (kubernetes#129795). Upstream waits five minutes."""
        newest = self._newest_created.get(key)
        if newest is None:
            return
        order = compare(self._pods_read(), newest)
        if order is None or order < 0:
            return
        del self._newest_created[key]
        expected = self._expectations.get(key)
        if expected is not None and expected.adds > 0:
            self._expectations.lower(key, expected.adds, 0)

    def is_recorded_as_deleted(self, key: str, uid: str) -> bool:
        """Whether the owner was deleted although it is still in the cache. Its pods would be created as fast as the
        garbage collector deletes them."""
        return self._gone.get(key) == uid

    def forget(self, key: str) -> None:
        self._expectations.delete(key)
        self._newest_created.pop(key, None)
        self._undecided.pop(key, None)
        self._gone.pop(key, None)
        if self._consistency_store is not None:
            self._consistency_store.clear(key)


def may_have_happened(error: Exception) -> bool:
    """Whether a write with this error may have been carried out."""
    if isinstance(error, ApiError):
        return error.code >= 500 and not _is_name_conflict(error)
    return not is_connection_refused(error)


def _is_name_conflict(error: ApiError) -> bool:
    """Whether a generated name was in use, so that nothing was created. Servers before v1.23 return this error
    (kubernetes#104699), newer ones 409. A timeout of the storage is similar, but has ``retryAfterSeconds``. About 14 of
    20,000 pods of one ReplicaSet are affected."""
    prefix = "The POST operation against "
    return error.reason == "ServerTimeout" and not error.retry_after_seconds and str(error).startswith(prefix)
