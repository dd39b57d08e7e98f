"""Runs the migrations of each resource one after the other, and updates the definition of a custom resource.

A live list confirms the cache before anything is written: a new leader with an older list than its predecessor's could
start a second migration, or apply the result of the wrong one, which would drop stored versions that are in use.
"""

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS
from pilothouse.api.storagemigration import STORAGE_VERSION_MIGRATIONS, GroupResource, StorageVersionMigration
from pilothouse.client import Client, apply_patch
from pilothouse.client.errors import NotFound
from pilothouse.controllers.cleanup.storage_version_migrator.decide import (
    SUCCEEDED,
    NextMigration,
    as_ended,
    as_running,
    crd_for_group_resource,
    migrated_configuration,
    migrating_configuration,
    next_migration,
)
from pilothouse.controllers.cleanup.storage_version_migrator.resource_version import write_status
from pilothouse.controllers.shared.conflicts import RETRY, retry_on_conflict
from pilothouse.env import Env
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.conditions import is_condition_true
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import Requeue
from pilothouse.runtime.cache import Cache

FIELD_MANAGER = "migration-runner-controller"


class MigrationRunner:
    """Keys are resources."""

    def __init__(self, client: Client, env: Env, migrations: Cache[StorageVersionMigration]) -> None:
        self._client = client
        self._env = env
        self._migrations = migrations

    async def reconcile(self, resource: GroupResource) -> Requeue | None:
        """Record the completed migrations, then let the next one run."""
        if next_migration(svm for svm in self._migrations.list() if svm.spec.resource == resource) == NextMigration():
            return None
        live = (await self._client.list_all(STORAGE_VERSION_MIGRATIONS, keep_raw=True)).items
        raw = {
            entry.object.metadata.name: replace_fields(entry.raw, {"metadata.managedFields": None}) for entry in live
        }
        decision = next_migration(entry.object for entry in live if entry.object.spec.resource == resource)
        for migration in decision.ended:
            name, succeeded = migration.metadata.name, is_condition_true(migration.status.conditions, SUCCEEDED)
            record_decision(
                f"migration {name} of {resource.resource} is over, {'' if succeeded else 'not '}successfully"
            )
            await self._update_definition_status(migration, is_terminal=True, succeeded=succeeded)
            await write_status(self._client, name, as_ended(raw[name], migration, self._env.now()))
        if decision.next is not None:
            name = decision.next.metadata.name
            record_decision(f"no other migration of {resource.resource} runs: next is {name}")
            await self._update_definition_status(decision.next, is_terminal=False)
            await write_status(self._client, name, as_running(raw[name], decision.next, self._env.now()))
        return None

    async def _update_definition_status(
        self, migration: StorageVersionMigration, *, is_terminal: bool, succeeded: bool = False
    ) -> None:
        name = crd_for_group_resource(migration.spec.resource)
        if not name:
            return

        async def update(_attempt: int) -> None:
            # Read live: the result does not apply to a definition that has changed since the sync.
            definition = await self._client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
            now, configuration = self._env.now(), None
            if is_terminal:
                configuration = migrated_configuration(definition, succeeded=succeeded, now=now)
            else:
                configuration = migrating_configuration(definition, migration.metadata.name, now)
            if configuration is None:
                return
            await self._client.patch(
                CUSTOM_RESOURCE_DEFINITIONS,
                name,
                apply_patch(configuration),
                subresource="status",
                field_manager=FIELD_MANAGER,
                force=True,
            )

        try:
            await retry_on_conflict(update, RETRY)
        except NotFound:
            return  # built in, or its definition was deleted
