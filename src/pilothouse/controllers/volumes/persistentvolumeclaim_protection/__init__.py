"""Delays the deletion of claims that pods use: ``kubectl delete pvc`` returns after the last such pod was deleted.

Behaviour: a claim that is not being deleted has the finalizer ``kubernetes.io/pvc-protection``. It is removed from one
that is being deleted when no scheduled pod refers to it, and only after a live list that was started when the deletion
was known. A pod counts until it is gone, even if it is finished.

Not guaranteed: that the claim waits for pods that are not scheduled. The scheduler does not schedule them while their
claim is being deleted.

docs/controllers/persistentvolumeclaim_protection.md has the triggers and the differences from upstream.
"""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

DESCRIPTOR = Descriptor(
    name="persistentvolumeclaim-protection-controller",
    aliases=("pvc-protection",),
    client_name="pvc-protection-controller",
    unsupported_gates=("PersistentVolumeClaimUnusedSinceTime",),
    watches=(
        Watch(kind=PERSISTENT_VOLUME_CLAIMS, keep_raw=True, predicate=any_object),
        Watch(kind=PODS),
    ),
    package=__name__,
)
