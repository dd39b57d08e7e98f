"""Sets the annotation ``node.alpha.kubernetes.io/ttl`` of every node: for how many seconds its kubelet may
cache Secrets and ConfigMaps. The larger the cluster, the longer.

Behaviour: every node has the annotation ``node.alpha.kubernetes.io/ttl`` with the seconds for the number of nodes there
are; it is put right whenever the node is added or changes. The steps overlap, so that a cluster at the edge of two does
not go back and forth.

Not guaranteed: that all nodes say the same at once. After a step the others follow at their next own change.

docs/controllers/ttl.md has where it differs from upstream.
"""

from pilothouse.api.core import NODES
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch

DESCRIPTOR = Descriptor(
    name="ttl-controller",
    aliases=("ttl",),
    client_name="ttl-controller",
    watches=(Watch(kind=NODES),),
    package=__name__,
)
