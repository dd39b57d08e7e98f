"""Writes every object of a resource unchanged, so that it is stored in the current storage version.

``migration_runner`` starts migrations and ``resource_version`` records the resourceVersion at their start; each has its
own queue.
"""

from typing import Any

from pilothouse.api.storagemigration import STORAGE_VERSION_MIGRATIONS, GroupResource, StorageVersionMigration
from pilothouse.client import apply_patch
from pilothouse.client.errors import (
    ApiError,
    Conflict,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
)
from pilothouse.controllers.cleanup.storage_version_migrator import DESCRIPTOR
from pilothouse.controllers.cleanup.storage_version_migrator.decide import (
    GRACE_SECONDS,
    as_failed,
    as_succeeded,
    has_discovery_failed,
    is_new,
    is_terminal,
    resource_for,
    resource_string,
    unchanged_apply,
)
from pilothouse.controllers.cleanup.storage_version_migrator.migration_runner import MigrationRunner
from pilothouse.controllers.cleanup.storage_version_migrator.resource_version import ResourceVersions, write_status
from pilothouse.controllers.shared.monitors import shared_informer
from pilothouse.machinery.api_resources import Resource
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.resource_versions import compare
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater, WorkerPool, WorkQueue
from pilothouse.runtime.cache import Cache

WORKERS = 5
OTHER_QUEUES = "resource-version-controller"
"""Workers of each of the other two queues, as upstream."""
POLL_SECONDS = 1.0
"""How often to check whether a cache has reached the version; that needs no request."""
RETRIABLE = (ServerTimeout, TooManyRequests, ServiceUnavailable, InternalError, Timeout, OSError)
"""Errors that are retried (``isRetriableError``, and connection errors)."""


class MigrationFailed(Exception):
    """The migration cannot continue; the message has the reason."""


class StorageVersionMigrator(ManagedController):
    """Keys are names of migrations."""

    def __init__(self, context: ControllerContext) -> None:
        migrations = context.informer(STORAGE_VERSION_MIGRATIONS)
        super().__init__(context, DESCRIPTOR.name, workers=WORKERS)
        assert context.rest_mapper is not None, "controllers are built with a REST mapper"
        self._client = context.client
        self._mapper = context.rest_mapper
        self._context = context
        self._migrations = migrations.cache
        self._missed: dict[str, float] = {}
        """Since when there is no monitor for the resource of a migration."""
        self._runs: WorkQueue[GroupResource] = WorkQueue(context.env, OTHER_QUEUES, context.metrics)
        self._resource_versions: WorkQueue[str] = WorkQueue(context.env, OTHER_QUEUES, context.metrics)
        runner = MigrationRunner(context.client, context.env, migrations.cache)
        resource_versions = ResourceVersions(context.client, context.env, context.rest_mapper, migrations.cache)
        metrics, log = context.metrics, context.log
        self.add_worker_pool(
            WorkerPool(f"{self.name}-admission", self._runs, runner.reconcile, metrics=metrics, log=log)
        )
        self.add_worker_pool(
            WorkerPool(
                f"{self.name}-checkpoints",
                self._resource_versions,
                resource_versions.reconcile,
                metrics=metrics,
                log=log,
            )
        )
        migrations.add_handler(
            on_add=lambda migration, _initial: self._enqueue(migration),
            on_update=lambda _old, migration: self._enqueue(migration),
            on_delete=lambda migration, _unknown: self._delete_svm(migration),
        )

    def _enqueue(self, migration: StorageVersionMigration) -> None:
        self._runs.add(migration.spec.resource)
        self._resource_versions.add(migration.metadata.name)
        self.queue.add(migration.metadata.name)

    def _delete_svm(self, migration: StorageVersionMigration) -> None:
        self._runs.add(migration.spec.resource)
        self._missed.pop(migration.metadata.name, None)

    async def reconcile(self, key: str) -> Requeue | None:
        """Migrate once the garbage collector's cache is as new as the start of the migration."""
        migration = self._migrations.get(key)
        if migration is None or is_terminal(migration) or not migration.status.resource_version:
            return None
        try:
            resource = await self._resource_for(migration)
            if not self._migrations.still_has(migration.metadata):
                return None
            cache = self._get_monitor(key, resource)
            if cache is None or not _is_as_new_as(cache, migration.status.resource_version):
                return Requeue(POLL_SECONDS)
            await self._run_migration(resource, cache, migration.status.resource_version)
        except MigrationFailed as error:
            await self._record_result(migration, f"migration encountered unhandled error: {error}")
        except RETRIABLE as error:
            delay = error.retry_after_seconds if isinstance(error, ApiError) else 0
            if delay:
                return Requeue(float(delay))
            raise RetryLater(str(error)) from error
        else:
            await self._record_result(migration)
        return None

    async def _resource_for(self, migration: StorageVersionMigration) -> Resource:
        discovery = await self._mapper.discovery()
        served = resource_for(discovery, migration.spec.resource)
        if served is not None:
            return served
        if has_discovery_failed(discovery, migration.spec.resource) or is_new(migration, self.env.now()):
            raise RetryLater("resource does not exist in rest mapper, requeuing to attempt again")
        raise MigrationFailed("unable to obtain GVR from discovery")

    def _get_monitor(self, key: str, resource: Resource) -> Cache[Any] | None:
        """The garbage collector's cache of the resource if it has synced, else None."""
        informer = shared_informer(self._context, resource)
        if informer is not None:
            self._missed.pop(key, None)
            return informer.cache if informer.has_synced else None
        since = self._missed.setdefault(key, self.env.monotonic())
        if self.env.monotonic() - since < GRACE_SECONDS:
            return None
        del self._missed[key]
        raise MigrationFailed(f"no monitor found for resource {resource_string(resource)}")

    async def _run_migration(self, resource: Resource, cache: Cache[Any], begun: str) -> None:
        """Write the objects that existed at the start of the migration. After an error it starts again: objects that
        were written are newer, or are written once more."""
        kind = resource.as_kind().metadata
        for obj in cache.list():
            meta = obj.metadata
            order = compare(meta.resource_version, begun)
            if order is None:
                raise MigrationFailed(f"resource version is not well formed: {meta.resource_version}")
            if order > 0:
                continue
            body = unchanged_apply(resource, meta.uid, meta.resource_version)
            record_decision(f"resourceVersion {meta.resource_version} is not newer than {begun}: written as it is")
            try:
                await self._client.patch(
                    kind, meta.name, apply_patch(body), meta.namespace, field_manager=DESCRIPTOR.name
                )
            except Conflict:
                # Changed or recreated, and so stored in the current version; or deleted.
                continue
            except RETRIABLE:
                raise
            except ApiError as error:
                raise MigrationFailed(str(error)) from error

    async def _record_result(self, begun: StorageVersionMigration, reason: str = "") -> None:
        """Record that the migration has succeeded, or failed with that reason."""
        # The migration may have changed since the sync started, or have been replaced by another one with its name.
        key = begun.metadata.name
        migration, raw = self._migrations.get(key), self._migrations.raw(key)
        if migration is None or migration.metadata.uid != begun.metadata.uid or is_terminal(migration):
            return
        assert raw is not None, "the informer was asked to keep it"
        now = self.env.now()
        body = as_failed(raw, migration, reason, now) if reason else as_succeeded(raw, migration, now)
        record_decision(f"migration {key} has {f'failed: {reason}' if reason else 'succeeded'}")
        await write_status(self._client, key, body)
        self.log.info("A migration is over", v=2, migration=key, failure=reason or None)


def _is_as_new_as(cache: Cache[Any], begun: str) -> bool:
    """Whether the cache is as new as the start of the migration."""
    order = compare(cache.resource_version, begun)
    if order is None:
        rv = begun if compare(begun, begun) is None else cache.resource_version
        raise MigrationFailed(
            f"error comparing resource versions between GC and SVM resource: resource version is not well formed: {rv}"
        )
    return order >= 0


build = StorageVersionMigrator
