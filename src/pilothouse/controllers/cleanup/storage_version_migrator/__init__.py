"""Rewrites all objects of a resource in the current storage version, or with the current encryption key, on
request by a StorageVersionMigration.

Behaviour: one migration of a resource runs at a time, oldest first. A migration that has succeeded has written every
object that existed at its start again, unless somebody else has written it since; it neither recreates nor changes
objects. For a custom resource whose definition has not changed in the meantime, ``status.storedVersions`` is then
reduced to the storage version, so that the other versions can be removed. A migration that cannot continue fails with a
reason. If the API server is down or overloaded it takes longer, but does not fail.

Not guaranteed: that objects in the right version are not written again. The API is beta and off by default: gate
``StorageVersionMigrator``. The garbage collector's caches list the objects, so nothing is migrated without it.

docs/controllers/storage_version_migrator.md has where it differs from upstream.
"""

import msgspec

from pilothouse.api.storagemigration import STORAGE_VERSION_MIGRATIONS
from pilothouse.controllers.shared.collector_flags import ENABLE_GARBAGE_COLLECTOR
from pilothouse.runtime.descriptor import Descriptor, FlagSpec
from pilothouse.runtime.watches import Watch


class MigratorOptions(msgspec.Struct, frozen=True, kw_only=True):
    collects: bool = True
    """Whether the garbage collector is enabled."""

    def validate(self) -> list[str]:
        """Upstream finds out when the controller is built, and exits."""
        return [] if self.collects else ["storage version migrator requires garbage collector"]


DESCRIPTOR = Descriptor(
    name="storage-version-migrator-controller",
    aliases=("svm",),
    client_name="storage-version-migrator-controller",
    # It sends many requests (cmd/kube-controller-manager/app/storageversionmigrator.go, v1.36).
    qps_factor=20.0,
    burst_factor=100,
    gates=("StorageVersionMigrator", "InformerResourceVersion"),
    options=MigratorOptions,
    flags=(FlagSpec(field="collects", flag=ENABLE_GARBAGE_COLLECTOR, group="garbage-collector-controller"),),
    watches=(Watch(kind=STORAGE_VERSION_MIGRATIONS, keep_raw=True),),
    package=__name__,
)
