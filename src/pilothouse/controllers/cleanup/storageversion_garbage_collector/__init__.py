"""Removes the entries of API servers that no longer exist from StorageVersions, so that the others can agree on
their storage versions.

Behaviour: when the identity Lease of an API server is deleted, and is really gone, its entries go, and StorageVersions
that have no others. A StorageVersion that is new or changes loses the entries of servers without a Lease. What is left
says again whether all agree.

Not guaranteed: anything where the API is not served. It is alpha: gates ``StorageVersionAPI`` (off) and
``APIServerIdentity`` (on).

docs/controllers/storageversion_garbage_collector.md has where it differs from upstream.
"""

from pilothouse.api.apiserverinternal import STORAGE_VERSIONS
from pilothouse.api.coordination import LEASES
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch

NAMESPACE = "kube-system"
SELECTOR = "apiserver.kubernetes.io/identity=kube-apiserver"

DESCRIPTOR = Descriptor(
    name="storageversion-garbage-collector-controller",
    aliases=("storage-version-gc",),
    client_name="storage-version-garbage-collector",
    gates=("APIServerIdentity", "StorageVersionAPI"),
    watches=(Watch(kind=LEASES, namespace=NAMESPACE, label_selector=SELECTOR), Watch(kind=STORAGE_VERSIONS)),
    package=__name__,
)
