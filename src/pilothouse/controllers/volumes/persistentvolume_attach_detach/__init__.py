"""Attaches volumes of CSI drivers to the nodes of the pods that use them, and detaches them when no pod uses
them any more.

It does neither itself: it makes and deletes VolumeAttachments, and the driver's external-attacher does what they say.

Behaviour: a volume that a pod on a managed node uses is attached there, and only then reported in the node's
``status.volumesAttached``, without which a kubelet mounts nothing. It is detached only after it has been taken off that
report, and, as long as the node is healthy, only after the kubelet has said that it does not use it any more. A volume
that one node may have at a time is attached to no other node before it is known to be detached. After six minutes of
an unhealthy node, or at once if the node is declared out of service, it is detached without asking the kubelet.

Not guaranteed: that a volume which was detached by force was not written to any more. Who takes that risk is
``--disable-force-detach-on-timeout``, and the taint.

``decide`` says when to detach, ``operations`` has what is under way or in backoff, ``attaching`` the requests.
docs/controllers/persistentvolume_attach_detach.md lists its triggers and its differences from upstream.
"""

import msgspec

from pilothouse.api.core import NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.api.storage import CSI_DRIVERS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import BOOL, DURATION
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object
from pilothouse.semantics.volumes import claim_names


class AttachDetachOptions(msgspec.Struct, frozen=True, kw_only=True):
    sync_period: float = 60.0
    disable_sync: bool = False
    disable_force_detach: bool = False


DESCRIPTOR = Descriptor(
    name="persistentvolume-attach-detach-controller",
    aliases=("attachdetach",),
    client_name="attachdetach-controller",
    options=AttachDetachOptions,
    flags=(
        flag_spec(
            "sync_period",
            "attach-detach-reconcile-sync-period",
            DURATION,
            60.0,
            "The reconciler sync wait time between volume attach detach. This duration must be larger than one second.",
        ),
        flag_spec(
            "disable_sync",
            "disable-attach-detach-reconcile-sync",
            BOOL,
            False,
            "Disable volume attach detach reconciler sync.",
        ),
        flag_spec(
            "disable_force_detach",
            "disable-force-detach-on-timeout",
            BOOL,
            False,
            "Prevent force detaching volumes based on maximum unmount time and node status.",
        ),
    ),
    watches=(
        Watch(kind=PODS, predicate=lambda pod: bool(claim_names(pod))),
        Watch(kind=NODES, predicate=lambda node: bool(node.status.volumes_attached)),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS),
        Watch(kind=PERSISTENT_VOLUMES),
        Watch(kind=CSI_DRIVERS),
        Watch(kind=VOLUME_ATTACHMENTS, predicate=any_object),
    ),
    package=__name__,
)
