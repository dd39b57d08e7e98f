"""Attaches volumes of CSI drivers to the nodes of the pods that use them, and detaches them when no pod uses
them any more.

It creates and deletes VolumeAttachments; the driver's external-attacher attaches and detaches.

Behaviour: a volume that a pod on a managed node uses is attached, and only then reported in the node's
``status.volumesAttached``, without which a kubelet does not mount it. It is detached only after it was removed from
that report and, as long as the node is healthy, only after the kubelet has reported that it does not use it any more. A
volume that may only be attached to one node is not attached to another one before it was detached. If a node is
unhealthy for six minutes, or is declared out of service, volumes are detached without waiting for the kubelet.

Not guaranteed: that nothing was written to a volume after a forced detach. ``--disable-force-detach-on-timeout``
prevents those after a timeout.

``decide`` determines when to detach, ``operations`` has pending operations and backoff, ``attaching`` the requests.
docs/controllers/persistentvolume_attach_detach.md has the triggers and the differences from upstream.
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
