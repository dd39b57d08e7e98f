"""Which migration may run, and the status of migrations and definitions. Pure. Upstream: v1.36
``pkg/controller/storageversionmigrator``."""

import datetime
from collections.abc import Iterable
from typing import Any

import msgspec

from pilothouse.api.apiextensions import CUSTOM_RESOURCE_DEFINITIONS, CustomResourceDefinition
from pilothouse.api.meta import Condition
from pilothouse.api.storagemigration import GroupResource, StorageVersionMigration
from pilothouse.machinery.api_resources import Discovery, Resource
from pilothouse.machinery.conditions import find_condition, is_condition_true, with_condition
from pilothouse.machinery.splice import replace_fields
from pilothouse.machinery.times import format_time

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
STORAGE_MIGRATING = "StorageMigrating"
"""The condition of a definition whose objects are being migrated."""
NEEDED_VERBS = ("update", "patch", "list")
GRACE_SECONDS = 60.0
"""A resource that is not known yet may be new: discovery runs every 30 s, and this is twice that."""

_json = msgspec.json.Encoder().encode
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


# Order ------------------------------------------------------------------------------------------------------------


def is_terminal(migration: StorageVersionMigration) -> bool:
    conditions = migration.status.conditions
    return is_condition_true(conditions, SUCCEEDED) or is_condition_true(conditions, FAILED)


def is_running(migration: StorageVersionMigration) -> bool:
    """Whether it was started. One that has ended counts until its end is recorded."""
    return is_condition_true(migration.status.conditions, RUNNING)


class NextMigration(msgspec.Struct, frozen=True):
    """The actions for the migrations of one resource."""

    ended: tuple[StorageVersionMigration, ...] = ()
    """Migrations whose end must be recorded."""
    next: StorageVersionMigration | None = None
    """The one to start then."""


def next_migration(migrations: Iterable[StorageVersionMigration]) -> NextMigration:
    """The migrations to complete, and the next one to start: the oldest, then by name, unless one is running."""
    by_age = sorted(migrations, key=lambda svm: (svm.metadata.creation_timestamp or _EPOCH, svm.metadata.name))
    ended = tuple(svm for svm in by_age if is_running(svm) and is_terminal(svm))
    if any(is_running(svm) and not is_terminal(svm) for svm in by_age):
        return NextMigration(ended)
    return NextMigration(
        ended,
        next((svm for svm in by_age if not is_running(svm) and not is_terminal(svm)), None),
    )


# Resource ---------------------------------------------------------------------------------------------------------


def resource_for(discovery: Discovery, desired: GroupResource) -> Resource | None:
    return next(
        (
            served
            for served in discovery.resources()
            if (served.group, served.name) == (desired.group, desired.resource)
        ),
        None,
    )


def has_discovery_failed(discovery: Discovery, desired: GroupResource) -> bool:
    """Whether discovery failed for its group, so that it is unknown whether the resource is served."""
    return any(name.rpartition("/")[0] == desired.group for name in discovery.failures)


def is_new(migration: StorageVersionMigration, now: datetime.datetime) -> bool:
    """Whether it was created so recently that its resource may be too new for discovery."""
    created_at = migration.metadata.creation_timestamp or _EPOCH
    return (now - created_at).total_seconds() < GRACE_SECONDS


def resource_string(resource: Resource) -> str:
    """As upstream's texts name a resource: ``apps/v1, Resource=deployments``."""
    return f"{resource.group}/{resource.version}, Resource={resource.name}"


def missing_verbs_reason(resource: Resource) -> str:
    """The reason why its objects cannot be migrated, or ""."""
    if resource.supports(*NEEDED_VERBS):
        return ""
    return f'resource "{resource_string(resource)}" does not support discovery operations: [{" ".join(NEEDED_VERBS)}]'


def unchanged_apply(resource: Resource, uid: str, resource_version: str) -> bytes:
    """The apply configuration that changes nothing but has the object stored again.

    With the uid a deleted object is not created again, and with the version a changed or replaced one is not written:
    both are conflicts.
    """
    meta = {"uid": uid, "resourceVersion": resource_version}
    return _json({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta})


# Status of a migration --------------------------------------------------------------------------------------------


def with_new_condition(
    raw: bytes, migration: StorageVersionMigration, type_: str, reason: str, message: str, now: datetime.datetime
) -> bytes:
    """The object with this condition added; one of the type that exists stays as it is."""
    conditions = migration.status.conditions
    if find_condition(conditions, type_) is not None:
        return raw
    new = Condition(type=type_, status="True", reason=reason, message=message, last_transition_time=now)
    return _with_conditions(raw, (*conditions, new))


def as_running(raw: bytes, migration: StorageVersionMigration, now: datetime.datetime) -> bytes:
    return with_new_condition(raw, migration, RUNNING, "MigrationRunning", "The migration is running", now)


def as_succeeded(raw: bytes, migration: StorageVersionMigration, now: datetime.datetime) -> bytes:
    return with_new_condition(raw, migration, SUCCEEDED, "StorageVersionMigrationSucceeded", "", now)


def as_failed(raw: bytes, migration: StorageVersionMigration, reason: str, now: datetime.datetime) -> bytes:
    return with_new_condition(raw, migration, FAILED, "StorageVersionMigrationFailed", reason, now)


def as_ended(raw: bytes, migration: StorageVersionMigration, now: datetime.datetime) -> bytes:
    ended = Condition(
        type=RUNNING,
        status="False",
        reason="MigrationCompleted",
        message="Migration completed",
        observed_generation=migration.metadata.generation,
        last_transition_time=now,
    )
    return _with_conditions(raw, with_condition(migration.status.conditions, ended))


def with_resource_version(raw: bytes, resource_version: str) -> bytes:
    return replace_fields(raw, {"status.resourceVersion": _json(resource_version)})


def _with_conditions(raw: bytes, conditions: Iterable[Condition]) -> bytes:
    return replace_fields(raw, {"status.conditions": _json([_condition_json(condition) for condition in conditions])})


def _condition_json(condition: Condition) -> dict[str, Any]:
    # The message is required, even if it is empty.
    fields: dict[str, Any] = {"type": condition.type, "status": condition.status}
    if condition.observed_generation:
        fields["observedGeneration"] = condition.observed_generation
    if condition.last_transition_time is not None:
        fields["lastTransitionTime"] = format_time(condition.last_transition_time)
    return {**fields, "reason": condition.reason, "message": condition.message}


# Status of a definition -------------------------------------------------------------------------------------------


def crd_for_group_resource(desired: GroupResource) -> str:
    """The name of the resource's CustomResourceDefinition; empty for a group that cannot have any."""
    return f"{desired.resource}.{desired.group}" if "." in desired.group else ""


def migrating_configuration(
    definition: CustomResourceDefinition, migration: str, now: datetime.datetime
) -> dict[str, Any]:
    """The apply configuration for the definition when a migration of its objects starts."""
    message = f"Migration {migration} is running"
    return _configuration(definition, "True", "MigrationRunning", message, definition.status.stored_versions, now)


def migrated_configuration(
    definition: CustomResourceDefinition, *, succeeded: bool, now: datetime.datetime
) -> dict[str, Any] | None:
    """The apply configuration for the definition when it has ended; None if it was applied before, and only the
    response was lost.

    The objects are only known to be in the storage version if that has not changed since the start of the migration,
    which the generation shows. After a failure nothing is known.
    """
    begun = find_condition(definition.status.conditions, STORAGE_MIGRATING)
    if begun is not None and begun.status != "True":
        return None
    is_same = begun is not None and begun.observed_generation == definition.metadata.generation
    stored = definition.status.stored_versions
    if not succeeded:
        return _configuration(definition, "False", "MigrationFailed", "The migration has failed", stored, now)
    if is_same:
        stored = tuple(version.name for version in definition.spec.versions if version.storage)
        outcome = "and the stored versions have been updated"
    else:
        outcome = "but the stored versions have not been updated due to a generation mismatch"
    return _configuration(
        definition, "False", "MigrationSucceeded", f"The migration has succeeded {outcome}", stored, now
    )


def _configuration(
    definition: CustomResourceDefinition,
    status: str,
    reason: str,
    message: str,
    stored: tuple[str, ...],
    now: datetime.datetime,
) -> dict[str, Any]:
    meta = definition.metadata
    condition = {
        "type": STORAGE_MIGRATING,
        "status": status,
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
        "observedGeneration": meta.generation,
    }
    return {
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        # With the resourceVersion: a definition that changed since it was read is a conflict.
        "metadata": {"name": meta.name, "resourceVersion": meta.resource_version},
        # Also if unchanged: a field that an applier omits is removed.
        "status": {"conditions": [condition], "storedVersions": list(stored)},
    }
