"""Creates the PersistentVolumeClaims of generic ephemeral volumes of pods.

Behaviour: for each ephemeral volume of a pod that is not being deleted there is a claim ``<pod>-<volume>`` with the
labels, annotations and spec of the template, owned by the pod. If it is deleted while the pod exists, it is created
again. A claim with that name that was not created for the pod is not changed, and an event of the pod reports it.

Not guaranteed: that the claim is deleted. The garbage collector deletes it because of its owner.

docs/controllers/ephemeral_volume.md has the triggers and the differences from upstream.
"""

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.controllers.shared.flags import flag_spec
from pilothouse.machinery.flags import INT32
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch


class EphemeralVolumeOptions(msgspec.Struct, frozen=True, kw_only=True):
    workers: int = 5


DESCRIPTOR = Descriptor(
    name="ephemeral-volume-controller",
    aliases=("ephemeral-volume",),
    client_name="ephemeral-volume-controller",
    options=EphemeralVolumeOptions,
    flags=(
        flag_spec(
            "workers",
            "concurrent-ephemeralvolume-syncs",
            INT32,
            5,
            "The number of ephemeral volume syncing operations that will be done concurrently.",
        ),
    ),
    watches=(
        Watch(
            kind=PODS,
            predicate=lambda pod: any(volume.ephemeral is not None for volume in pod.spec.volumes),
        ),
        Watch(kind=PERSISTENT_VOLUME_CLAIMS),
    ),
    package=__name__,
)
