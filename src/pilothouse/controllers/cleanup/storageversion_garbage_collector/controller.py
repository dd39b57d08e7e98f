"""Two queues: deleted identity Leases, and StorageVersions that name servers without a Lease. Both are confirmed by
live reads before anything is removed."""

import msgspec

from pilothouse.api.apiserverinternal import STORAGE_VERSIONS, StorageVersion
from pilothouse.api.coordination import LEASES, Lease
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.cleanup.storageversion_garbage_collector import DESCRIPTOR, NAMESPACE, SELECTOR
from pilothouse.controllers.cleanup.storageversion_garbage_collector.decide import api_server_ids, remove_servers
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, WorkerPool, WorkQueue

LABEL, VALUE = SELECTOR.split("=")

_storage_version = msgspec.json.Decoder(StorageVersion)


class StorageVersionGarbageCollector(ManagedController):
    """Keys of the base's queue are names of Leases."""

    def __init__(self, context: ControllerContext) -> None:
        leases = context.informer(LEASES)
        versions = context.informer(STORAGE_VERSIONS)
        super().__init__(context, DESCRIPTOR.name, queue_name="storage_version_garbage_collector_leases")
        self._client = context.client
        self._leases = leases.cache
        self._versions: WorkQueue[str] = WorkQueue(
            context.env, "storage_version_garbage_collector_storageversions", context.metrics
        )
        self.add_worker_pool(
            WorkerPool(
                f"{DESCRIPTOR.name}-storageversions",
                self._versions,
                self._sync_storage_version,
                metrics=context.metrics,
                log=context.log,
            )
        )
        leases.add_handler(on_delete=lambda lease, _unknown: self.queue.add(lease.metadata.name))
        versions.add_handler(
            on_add=lambda storage_version, _initial: self._enqueue_storage_version(storage_version),
            on_update=lambda _old, storage_version: self._enqueue_storage_version(storage_version),
        )

    def _enqueue_storage_version(self, storage_version: StorageVersion) -> None:
        # The handler of the Lease may run later: Leases that are not in the cache are read live.
        if any(f"{NAMESPACE}/{server}" not in self._leases for server in api_server_ids(storage_version)):
            self._versions.add(storage_version.metadata.name)

    async def reconcile(self, key: str) -> Requeue | None:
        """If the Lease does not exist, remove the server's entries from all StorageVersions. A failure does not stop
        the others."""
        listed = await self._client.list_all(STORAGE_VERSIONS, keep_raw=True)
        naming = [entry for entry in listed.items if key in api_server_ids(entry.object)]
        # After the list; upstream reads it before. A server that restarts between the two would lose its entry; one
        # that restarts later changes the listed object, which is a conflict.
        if not naming or await self._get_lease(key) is not None:
            return None
        failure: Exception | None = None
        for entry in naming:
            try:
                await self._update_or_delete_storage_version(entry.object, entry.raw, frozenset((key,)))
            except (ApiError, OSError) as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return None

    async def _sync_storage_version(self, key: str) -> Requeue | None:
        try:
            raw = await self._client.get(STORAGE_VERSIONS.raw, key)
        except NotFound:
            return None
        storage_version = _storage_version.decode(raw)
        missing = set()
        for server in api_server_ids(storage_version):
            lease = await self._get_lease(server)
            if lease is None or lease.metadata.labels.get(LABEL) != VALUE:
                missing.add(server)
        if missing:
            await self._update_or_delete_storage_version(storage_version, raw, missing)
        return None

    async def _get_lease(self, name: str) -> Lease | None:
        try:
            return await self._client.get(LEASES, name, NAMESPACE)
        except NotFound:
            return None

    async def _update_or_delete_storage_version(
        self, storage_version: StorageVersion, raw: bytes | msgspec.Raw, missing: set[str] | frozenset[str]
    ) -> None:
        meta = storage_version.metadata
        servers = ", ".join(sorted(missing))
        record_decision(f"StorageVersion {meta.name} names API servers without a Lease: {servers}")
        body = remove_servers(raw, storage_version, missing, self.env.now())
        if body is not None:
            await self._client.update(STORAGE_VERSIONS.raw, meta.name, body, subresource="status")
            return
        try:
            # A new server may have added its entry since.
            await self._client.delete(STORAGE_VERSIONS, meta.name, resource_version=meta.resource_version)
        except NotFound:
            return


build = StorageVersionGarbageCollector
