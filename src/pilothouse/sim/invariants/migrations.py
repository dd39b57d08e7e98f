"""Invariants of storage version migrations: no version is removed in which an object is stored, deleted objects are not
recreated, and the content of objects does not change.

Checked against the committed objects, in the version in which they were stored.
"""

from typing import Any

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS, CustomResourceDefinition
from pilothouse.api.storagemigration import STORAGE_VERSION_MIGRATIONS, GroupResource, StorageVersionMigration
from pilothouse.client.decode import decoders_of
from pilothouse.machinery.conditions import is_condition_true
from pilothouse.sim.invariants import Invariant, Violation
from pilothouse.sim.run_log import Origin
from pilothouse.storage import Change

_migration = msgspec.json.Decoder(StorageVersionMigration).decode
_definition = decoders_of(CustomResourceDefinition)
_object = msgspec.json.Decoder(dict[str, Any]).decode

_MIGRATIONS = f"{STORAGE_VERSION_MIGRATIONS.group}/{STORAGE_VERSION_MIGRATIONS.resource}/"
_DEFINITIONS = f"{CUSTOM_RESOURCE_DEFINITIONS.group}/{CUSTOM_RESOURCE_DEFINITIONS.resource}/"
_OWN = ("resourceVersion", "managedFields")
CONTROLLER = "storage-version-migrator-controller"


class Migrations(Invariant):
    """The migrations of one custom resource. ``rewritten`` and ``removed`` count objects and versions (for tests)."""

    def __init__(self, resource: GroupResource) -> None:
        self._resource = resource
        self._prefix = f"{resource.group}/{resource.resource}/"
        self._objects: dict[str, dict[str, Any]] = {}
        self._migrations: dict[str, StorageVersionMigration] = {}
        self._stored: tuple[str, ...] = ()
        self.rewritten = 0
        self.removed = 0

    def committed(self, change: Change, origin: Origin | None) -> None:
        deleted = change.type == "DELETED"
        if change.key.startswith(self._prefix):
            self._check_object(change.key, None if deleted else _object(change.value), origin)
        elif change.key == f"{_DEFINITIONS}{self._resource.resource}.{self._resource.group}" and not deleted:
            self._check_definition(_definition.one(change.value, lambda: change.key), origin)
        elif change.key.startswith(_MIGRATIONS):
            self._check_migration(change.key.removeprefix(_MIGRATIONS), None if deleted else _migration(change.value))

    def _check_object(self, key: str, new: dict[str, Any] | None, origin: Origin | None) -> None:
        old = self._objects.pop(key, None)
        if new is not None:
            self._objects[key] = new
        if origin is None or origin.controller != CONTROLLER:
            return
        if old is None or new is None:
            raise Violation(f"{key} was created or deleted by the migrator")
        if _content(old) != _content(new):
            raise Violation(f"{key} was changed by its migration")
        if old["apiVersion"] == new["apiVersion"]:
            raise Violation(f"{key} was written again in the version in which it was stored")
        self.rewritten += 1

    def _check_definition(self, new: CustomResourceDefinition, origin: Origin | None) -> None:
        forgotten = [version for version in self._stored if version not in new.status.stored_versions]
        for key, obj in self._objects.items():
            version = obj["apiVersion"].rpartition("/")[2]
            if version in forgotten:
                raise Violation(f"{version} was removed, in which {key} is stored: {origin}")
        if self._stored and not new.status.stored_versions:
            raise Violation(f"every version was removed: {origin}")
        self.removed += len(forgotten)
        self._stored = new.status.stored_versions

    def _check_migration(self, name: str, new: StorageVersionMigration | None) -> None:
        old = self._migrations.pop(name, None)
        if new is None:
            return
        self._migrations[name] = new
        if old is not None and old.metadata.uid == new.metadata.uid:
            old_version, new_version = old.status.resource_version, new.status.resource_version
            if old_version and old_version != new_version:
                raise Violation(f"migration {name} started at {old_version}, and now at {new_version}")
        running = sorted(other for other, migration in self._migrations.items() if _runs(migration))
        if len(running) > 1:
            raise Violation(f"migrations {running} run concurrently")

    def check_final_state(self) -> None:
        """At the end no migration is pending or running."""
        for name, migration in self._migrations.items():
            conditions = migration.status.conditions
            if is_condition_true(conditions, "Running"):
                raise Violation(f"migration {name} never ends")
            if not (is_condition_true(conditions, "Succeeded") or is_condition_true(conditions, "Failed")):
                raise Violation(f"migration {name} never starts")


def _runs(migration: StorageVersionMigration) -> bool:
    conditions = migration.status.conditions
    is_finished = is_condition_true(conditions, "Succeeded") or is_condition_true(conditions, "Failed")
    return is_condition_true(conditions, "Running") and not is_finished


def _content(obj: dict[str, Any]) -> dict[str, Any]:
    """The content without the stored version."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in _OWN}
    return {**{name: value for name, value in obj.items() if name != "apiVersion"}, "metadata": meta}
