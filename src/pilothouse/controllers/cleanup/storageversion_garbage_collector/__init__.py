"""Forgets API servers that are gone: takes their entries out of StorageVersions, by which API servers agree on how they
store what.

Promises: when the identity Lease of an API server is deleted, and is really gone, its entries go, and StorageVersions
that have no others. A StorageVersion that is new or changes loses the entries of servers without a Lease. What is left
says again whether all agree.

Not promised: anything where the API is not served. It is alpha: gates ``StorageVersionAPI`` (off) and
``APIServerIdentity`` (on).

Files: ``decide`` what is left, ``controller`` the wiring. docs/controllers/storageversion_garbage_collector.md has
where it differs from upstream.
"""

from pilothouse.api.apiserverinternal import STORAGE_VERSIONS
from pilothouse.api.coordination import LEASES
from pilothouse.runtime.descriptor import Descriptor, Watch

NAMESPACE = "kube-system"
SELECTOR = "apiserver.kubernetes.io/identity=kube-apiserver"

DESCRIPTOR = Descriptor(
    name="storageversion-garbage-collector-controller",
    aliases=("storage-version-gc",),
    client_name="storage-version-garbage-collector",
    gates=("APIServerIdentity", "StorageVersionAPI"),
    watches=(Watch(kind=LEASES, namespace=NAMESPACE, label_selector=SELECTOR), Watch(kind=STORAGE_VERSIONS)),
    factory="pilothouse.controllers.cleanup.storageversion_garbage_collector.controller:build",
)
