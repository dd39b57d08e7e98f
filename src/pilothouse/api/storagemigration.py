"""``storagemigration.k8s.io``: rewriting objects in the current storage version. Beta, off by default."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class GroupResource(View, frozen=True):
    group: str = ""
    resource: str = ""


class StorageVersionMigrationSpec(View, frozen=True):
    resource: GroupResource = GroupResource()


class StorageVersionMigrationStatus(View, frozen=True):
    """The progress. ``resource_version`` is the latest of the resource at the start of the migration."""

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
