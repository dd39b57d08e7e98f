"""Records the resourceVersion at the start of a migration: newer objects are stored in the current version already."""

from pilothouse.api.storagemigration import STORAGE_VERSION_MIGRATIONS, StorageVersionMigration
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.controllers.cleanup.storage_version_migrator.decide import (
    as_failed,
    has_discovery_failed,
    is_new,
    is_running,
    is_terminal,
    missing_verbs_reason,
    resource_for,
    resource_string,
    with_resource_version,
)
from pilothouse.env import Env
from pilothouse.machinery.api_resources import Resource
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.resource_versions import compare
from pilothouse.runtime import Requeue, RetryLater
from pilothouse.runtime.cache import Cache


async def write_status(client: Client, name: str, body: bytes) -> None:
    """Raises ``RetryLater`` if the cache was stale: it will have the migration's new state."""
    try:
        await client.update(STORAGE_VERSION_MIGRATIONS.raw, name, body, subresource="status")
    except (Conflict, NotFound) as error:
        raise RetryLater(str(error)) from error


NOWHERE = "@fake:svm_ns!"
"""No namespace can have this name: listing there reads nothing but the version."""


class ResourceVersions:
    """Keys are names of migrations."""

    def __init__(
        self, client: Client, env: Env, mapper: RestMapper, migrations: Cache[StorageVersionMigration]
    ) -> None:
        self._client = client
        self._env = env
        self._mapper = mapper
        self._migrations = migrations

    async def reconcile(self, key: str) -> Requeue | None:
        """Record the resourceVersion if the migration is running and has none, or fail it with the reason."""
        migration, raw = self._migrations.get(key), self._migrations.raw(key)
        if (
            migration is None
            or not is_running(migration)
            or is_terminal(migration)
            or migration.status.resource_version
        ):
            return None
        assert raw is not None, "the informer was asked to keep it"
        discovery = await self._mapper.discovery()
        resource = resource_for(discovery, migration.spec.resource)
        reason = ""
        if resource is None:
            if has_discovery_failed(discovery, migration.spec.resource) or is_new(migration, self._env.now()):
                raise RetryLater("resource does not exist in our rest mapper, requeuing to attempt again")
            reason = "resource does not exist in discovery"
        else:
            reason = missing_verbs_reason(resource)
        version = ""
        if resource is not None and not reason:
            version = await self._version_of(resource)
            if compare(version, version) is None:
                reason = (
                    f"latest resourceVersion for {resource_string(resource)} is not valid: "
                    f"resource version is not well formed: {version}"
                )
        body = as_failed(raw, migration, reason, self._env.now()) if reason else with_resource_version(raw, version)
        record_decision(f"migration {key} {f'fails: {reason}' if reason else f'begins at resourceVersion {version}'}")
        await write_status(self._client, key, body)
        return None

    async def _version_of(self, resource: Resource) -> str:
        kind = resource.as_kind().metadata
        page = await self._client.list(kind, NOWHERE if resource.namespaced else "", limit=1)
        return page.metadata.resource_version
