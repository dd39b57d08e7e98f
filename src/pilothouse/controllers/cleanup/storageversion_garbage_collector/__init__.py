"""Removes the entries of API servers that no longer exist from StorageVersions, so that the others can agree on
their storage versions.

Behaviour: when the identity Lease of an API server is deleted, and a live read confirms that, the server's entries are
removed from all StorageVersions, and StorageVersions without entries are deleted. When a StorageVersion is added or
changed, the entries of servers without a Lease are removed. The remaining entries determine the common encoding
version.

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
