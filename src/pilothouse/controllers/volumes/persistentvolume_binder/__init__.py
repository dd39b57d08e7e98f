"""Binds claims and volumes to each other, requests the provisioning of missing volumes, and reclaims released
ones.

Behaviour: no volume is bound to two claims and no claim to two volumes, whatever fails in between: the volume is
written first, with its resourceVersion, and a sync that finds an incomplete binding completes or reverts it. A claim
without volumeName gets the smallest matching volume with the fewest access modes. A volume is Released only after a
live read has shown that its claim was deleted. Bindings by users are kept. Everything is synced again every
``--pvclaimbinder-sync-period``.

Not guaranteed: provisioning and deletion of volumes, which external provisioners (CSI) perform because of annotations.
Of upstream's in-tree plugins there is only host path; volumes with policy Recycle are not scrubbed.

Files: ``stores`` the latest claims and volumes, ``claims`` and ``volumes`` the decisions about one of them, ``links``
the written JSON, ``plugins`` which plugin creates and deletes a volume, ``operations`` long operations that run
concurrently, ``provisioning`` and ``reclaiming`` those operations, ``writes`` the requests, ``metrics`` the metrics,
``controller`` the event handlers and syncs. docs/controllers/persistentvolume_binder.md has the triggers and the
differences from upstream.
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
    """Provision volumes of class provisioner ``kubernetes.io/host-path``: for tests with one node."""


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
