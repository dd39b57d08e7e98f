"""Keeps PodGroups as long as pods belong to them, even if somebody deletes them.

Promises: a PodGroup to which a pod belongs that has not ended has the finalizer
``scheduling.k8s.io/podgroup-protection``. One that is being deleted loses it when the last such pod has ended or gone.

Not promised: anything where the API is not served. It is alpha: gate ``GenericWorkload``, off.

Files: ``decide`` who belongs to a group, ``controller`` the wiring. docs/controllers/podgroup_protection.md has where
it differs from upstream.
"""

from pilothouse.api.core import PODS
from pilothouse.api.scheduling import POD_GROUPS
from pilothouse.runtime.descriptor import Descriptor, Watch, any_object

FINALIZER = "scheduling.k8s.io/podgroup-protection"

DESCRIPTOR = Descriptor(
    name="podgroup-protection-controller",
    client_name="podgroup-protection-controller",
    gates=("GenericWorkload",),
    watches=(Watch(kind=POD_GROUPS, keep_raw=True, wakes=any_object), Watch(kind=PODS)),
    factory="pilothouse.controllers.workloads.podgroup_protection.controller:build",
)
