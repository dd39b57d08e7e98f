"""Binds claims and volumes to each other, requests the provisioning of missing volumes, and reclaims released
ones.

Behaviour: no volume is given to two claims and no claim gets two volumes, whatever fails in between: the volume is
written first, under its resourceVersion, and a sync that finds half a binding completes or reverts it. A claim that
names no volume gets the smallest of those with the fewest access modes that do. A volume whose claim is gone is
Released only after the API server itself has said that the claim is gone. What a user linked, a user keeps. Everything
is synced again every ``--pvclaimbinder-sync-period``.

Not guaranteed: volumes. Those are made and deleted by external provisioners (CSI), which act upon annotations. Of
the plugins inside upstream's program only host paths are there; none scrubs a volume for policy Recycle.

Files: ``stores`` the newest known claims and volumes, ``claims`` and ``volumes`` what is to become of one, ``links``
how that is written, ``plugins`` who makes and deletes volumes, ``operations`` what takes long and runs concurrently,
``provisioning`` and ``reclaiming`` those operations, ``writes`` the requests, ``metrics`` the metrics, ``controller``
the wiring. docs/controllers/persistentvolume_binder.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.api.storage import PERSISTENT_VOLUMES, STORAGE_CLASSES
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import BOOL, DURATION
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object


class BinderOptions(msgspec.Struct, frozen=True, kw_only=True):
    sync_period: float = 15.0
    dynamic_provisioning: bool = True
    hostpath_provisioner: bool = False
    """Make volumes of class provisioner ``kubernetes.io/host-path``: for clusters of one node, in tests."""


DESCRIPTOR = Descriptor(
    name="persistentvolume-binder-controller",
    aliases=("persistentvolume-binder",),
    client_name="persistent-volume-binder",
    options=BinderOptions,
    flags=(
        flag_spec(
            "sync_period",
            "pvclaimbinder-sync-period",
            DURATION,
            15.0,
            "The period for syncing persistent volumes and persistent volume claims",
        ),
        flag_spec(
            "dynamic_provisioning",
            "enable-dynamic-provisioning",
            BOOL,
            True,
            "Enable dynamic provisioning for environments that support it.",
        ),
        flag_spec(
            "hostpath_provisioner",
            "enable-hostpath-provisioner",
            BOOL,
            False,
            "Enable HostPath PV provisioning when running without a cloud provider. This allows testing and "
            "development of provisioning features. HostPath provisioning is not supported in any way, won't work "
            "in a multi-node cluster, and should not be used for anything other than testing or development.",
        ),
    ),
    watches=(
        Watch(kind=PERSISTENT_VOLUMES, keep_raw=True, predicate=any_object),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS, keep_raw=True, predicate=any_object),
        Watch(kind=STORAGE_CLASSES),
        Watch(kind=PODS),
        Watch(kind=NODES),
    ),
    package=__name__,
)
