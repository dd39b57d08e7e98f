"""Tells kubelets how long they may keep Secrets and ConfigMaps before they look again, by the size of the cluster.

Promises: every node has the annotation ``node.alpha.kubernetes.io/ttl`` with the seconds for the number of nodes there
are; it is put right whenever the node is added or changes. The steps overlap, so that a cluster at the edge of two does
not go back and forth.

Not promised: that all nodes say the same at once. After a step the others follow at their next own change.

Files: ``decide`` the steps, ``controller`` the wiring. docs/controllers/ttl.md has where it differs from upstream.
"""

from pilothouse.api.core import NODES
from pilothouse.runtime.descriptor import Descriptor, Watch

DESCRIPTOR = Descriptor(
    name="ttl-controller",
    aliases=("ttl",),
    client_name="ttl-controller",
    watches=(Watch(kind=NODES),),
    factory="pilothouse.controllers.node.ttl.controller:build",
)
