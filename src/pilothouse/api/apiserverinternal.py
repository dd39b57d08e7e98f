"""``internal.apiserver.k8s.io``: the versions in which API servers store resources. Alpha, off by default."""

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import Condition, ObjectMeta, View


class ServerStorageVersion(View, frozen=True):
    api_server_id: str = msgspec.field(default="", name="apiServerID")
    encoding_version: str = ""


class StorageVersionStatus(View, frozen=True):
    """The versions of all API servers. ``common_encoding_version`` is None while they differ."""

    storage_versions: tuple[ServerStorageVersion, ...] = ()
    common_encoding_version: str | None = None
    conditions: tuple[Condition, ...] = ()


class StorageVersion(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    status: StorageVersionStatus = StorageVersionStatus()


STORAGE_VERSIONS = Kind(
    "internal.apiserver.k8s.io", "v1alpha1", "storageversions", "StorageVersion", False, StorageVersion
)
