"""Delays the deletion of PodGroups that still have pods, because the scheduler needs the group for further
pods.

Behaviour: the finalizer ``scheduling.k8s.io/podgroup-protection`` is removed from a PodGroup that is being deleted when
all its pods are finished or gone. The API server adds it to every new PodGroup, with the admission plugin
PodGroupProtection.

Not guaranteed: anything where the API is not served. It is alpha: gate ``GenericWorkload``, off.

docs/controllers/podgroup_protection.md has where it differs from upstream.
"""

from pilothouse.api.core import PODS
from pilothouse.api.scheduling import POD_GROUPS
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.watches import Watch, any_object

FINALIZER = "scheduling.k8s.io/podgroup-protection"

DESCRIPTOR = Descriptor(
    name="podgroup-protection-controller",
    client_name="podgroup-protection-controller",
    gates=("GenericWorkload",),
    watches=(Watch(kind=POD_GROUPS, keep_raw=True, predicate=any_object), Watch(kind=PODS)),
    package=__name__,
)
