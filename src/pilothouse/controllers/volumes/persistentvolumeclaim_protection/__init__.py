"""Delays the deletion of claims that pods use: ``kubectl delete pvc`` returns when the last such pod is gone.

Behaviour: a claim that lives has the finalizer ``kubernetes.io/pvc-protection``. One that is being deleted loses it
when no pod that has a node names it, and only after the API server itself has said so in a list that was begun when the
deletion was known. A pod counts until it is gone, even if it has ended.

Not guaranteed: that the claim waits for pods that have no node yet. The scheduler gives them none as long as their
claim is being deleted.

docs/controllers/persistentvolumeclaim_protection.md has what enqueues it and where it differs from upstream.
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
