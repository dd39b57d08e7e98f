"""``scheduling.k8s.io``: groups of pods that are scheduled together. Alpha in v1.36, off by default."""

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta, View


class PodGroup(View, frozen=True):
    """Pods that are scheduled together, or not at all. To write one back, read the complete object."""

    metadata: ObjectMeta = ObjectMeta()


class PriorityClass(View, frozen=True):
    description: str = ""
    global_default: bool = False
    metadata: ObjectMeta = ObjectMeta()
    preemption_policy: str = ""
    value: int = 0


POD_GROUPS = Kind("scheduling.k8s.io", "v1alpha2", "podgroups", "PodGroup", True, PodGroup)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PriorityClass)
