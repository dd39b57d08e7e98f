"""Warns about pods that use the same volume with different SELinux labels. On one node such a volume is mounted
with one label (``mount -o context=…``), and the second pod stays in ``ContainerCreating``.

A volume of a driver that supports it is mounted with the label of its pod (``mount -o context=…``), and a node mounts
it with one label only. Off by default: it is useless if nodes do not have SELinux.

Behaviour: if two pods that are not finished use the same volume in ways that conflict on one node, each gets an event,
and both are in the metric until one of them is finished or deleted, whether or not they run on the same node. The event
does not show name and label of a pod in another namespace.

Not guaranteed: that all conflicts are found. User, role and type of a label have defaults of the node, and unset ones
are treated as matching. Nothing is prevented.

docs/controllers/selinux_warning.md lists its triggers and its differences from upstream.
"""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS
from pilothouse.api.storage import CSI_DRIVERS, PERSISTENT_VOLUMES
from pilothouse.controllers.volumes.selinux_warning.views import MOUNTING_PODS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch

DESCRIPTOR = Descriptor(
    name="selinux-warning-controller",
    client_name="selinux-warning-controller",
    default_on=False,
    gates=("SELinuxChangePolicy",),
    watches=(
        Watch(kind=MOUNTING_PODS, shared=False),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS),
        Watch(kind=PERSISTENT_VOLUMES),
        Watch(kind=CSI_DRIVERS),
    ),
    package=__name__,
)
