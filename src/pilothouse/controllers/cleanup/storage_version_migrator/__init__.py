"""Rewrites all objects of a resource in the current storage version, or with the current encryption key, on
request by a StorageVersionMigration.

Behaviour: of several migrations of a resource one runs at a time, the oldest first. One that has succeeded has seen
every object that there was when it began, and had each stored anew unless somebody else has written it since; nothing
that was deleted comes back, and what objects say does not change. Of a custom resource that was not redefined
meanwhile, the definition then names its storage version alone in ``status.storedVersions``: the others may be taken out
of it. One that cannot go on says why. An API server that is down or busy for a while makes a migration longer, never
fail.

Not guaranteed: that objects which are stored in the right version stay untouched, and anything where the API is not
served. It is beta and off: gate ``StorageVersionMigrator``. The garbage collector's caches say which objects there are,
so nothing is migrated without them.

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
    # It can make a lot of requests (cmd/kube-controller-manager/app/storageversionmigrator.go, v1.36).
    qps_factor=20.0,
    burst_factor=100,
    gates=("StorageVersionMigrator", "InformerResourceVersion"),
    options=MigratorOptions,
    flags=(FlagSpec(field="collects", flag=ENABLE_GARBAGE_COLLECTOR, group="garbage-collector-controller"),),
    watches=(Watch(kind=STORAGE_VERSION_MIGRATIONS, keep_raw=True),),
    package=__name__,
)
