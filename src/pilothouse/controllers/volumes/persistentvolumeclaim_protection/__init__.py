"""Keeps claims that pods use, even if somebody deletes them.

Promises: a claim that lives has the finalizer ``kubernetes.io/pvc-protection``. One that is being deleted loses it when
no pod that has a node names it, and only after the API server itself has said so in a list that was begun when the
deletion was known. A pod counts until it is gone, even if it has ended.

Not promised: that the claim waits for pods that have no node yet. The scheduler gives them none as long as their claim
is being deleted.

Files: ``decide`` which pod uses which claim, ``controller`` the wiring; the rest is
``controllers/shared/in_use_protection``. docs/controllers/persistentvolumeclaim_protection.md has what wakes it and
where it differs from upstream.
"""

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS
from pilothouse.runtime.descriptor import Descriptor, Watch, any_object

DESCRIPTOR = Descriptor(
    name="persistentvolumeclaim-protection-controller",
    aliases=("pvc-protection",),
    client_name="pvc-protection-controller",
    watches=(
        Watch(kind=PERSISTENT_VOLUME_CLAIMS, keep_raw=True, wakes=any_object),
        Watch(kind=PODS, indexes=("claim",)),
    ),
    factory="pilothouse.controllers.volumes.persistentvolumeclaim_protection.controller:build",
)
