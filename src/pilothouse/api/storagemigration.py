"""``storagemigration.k8s.io``: rewriting the objects of a resource in the current storage version. Beta and off by
default."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class GroupResource(View, frozen=True):
    group: str = ""
    resource: str = ""


class StorageVersionMigrationSpec(View, frozen=True):
    resource: GroupResource = GroupResource()


class StorageVersionMigrationStatus(View, frozen=True):
    """How far it is. ``resource_version`` is the newest that the resource had when the migration was begun."""

    conditions: tuple[Condition, ...] = ()
    resource_version: str = ""


class StorageVersionMigration(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StorageVersionMigrationSpec = StorageVersionMigrationSpec()
    status: StorageVersionMigrationStatus = StorageVersionMigrationStatus()


STORAGE_VERSION_MIGRATIONS = Kind(
    "storagemigration.k8s.io",
    "v1beta1",
    "storageversionmigrations",
    "StorageVersionMigration",
    False,
    StorageVersionMigration,
)
