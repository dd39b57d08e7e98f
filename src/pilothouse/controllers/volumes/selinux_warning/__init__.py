"""Tells two pods that use one volume with different SELinux labels, before they meet on a node and one cannot start.

A volume whose driver can do so is mounted with the label of its pod (``mount -o context=…``), and a node mounts it with
one label only. Off by default: it has nothing to say where nodes have no SELinux.

Promises: of two pods that have not ended, use the same volume and could not both do so on one node, each gets an event,
and both are in the metric until one of them has ended or is gone, whether or not they ever run on the same node. A pod
learns nothing of pods in other namespaces but that there is one.

Not promised: that all conflicts are found. User, role and type of a label have defaults that are the node's, and what a
pod leaves out of them is taken to fit. Nothing is prevented.

Files: ``views`` what is read of a pod, ``labels`` what a label is and which ones clash, ``decide`` what a pod makes of
its volumes and what is said of a conflict, ``books`` who uses what and how, ``controller`` the wiring.
docs/controllers/selinux_warning.md has what wakes it and where it differs from upstream.
"""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS
from pilothouse.api.storage import CSI_DRIVERS, PERSISTENT_VOLUMES
from pilothouse.controllers.volumes.selinux_warning.views import MOUNTING_PODS
from pilothouse.runtime.descriptor import Descriptor, Watch

DESCRIPTOR = Descriptor(
    name="selinux-warning-controller",
    client_name="selinux-warning-controller",
    default_on=False,
    gates=("SELinuxChangePolicy",),
    watches=(
        Watch(kind=MOUNTING_PODS, indexes=("claim",)),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS),
        Watch(kind=PERSISTENT_VOLUMES),
        Watch(kind=CSI_DRIVERS),
    ),
    factory="pilothouse.controllers.volumes.selinux_warning.controller:build",
)
