"""Sets the annotation ``node.alpha.kubernetes.io/ttl`` of every node: for how many seconds its kubelet may
cache Secrets and ConfigMaps. The larger the cluster, the longer.

Behaviour: every node has the annotation ``node.alpha.kubernetes.io/ttl`` with the seconds for the current number of
nodes; it is corrected when the node is added or changed. The steps overlap, so that a cluster at the boundary of two
does not alternate.

Not guaranteed: that all nodes have the same value. After a step each node is updated at its next change.

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
