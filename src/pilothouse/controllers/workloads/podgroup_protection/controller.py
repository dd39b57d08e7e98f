"""Looks at a PodGroup that is being deleted, and again when one of its pods has ended or gone."""

from pilothouse.api.core import PODS, Pod
from pilothouse.api.scheduling import POD_GROUPS, PodGroup
from pilothouse.controllers.shared.in_use_protection import Due, ProtectionController
from pilothouse.controllers.workloads.podgroup_protection import DESCRIPTOR, FINALIZER
from pilothouse.controllers.workloads.podgroup_protection.decide import (
    ACTIVE_PODS_INDEX,
    active_pods_by_group,
    groups_to_enqueue,
)
from pilothouse.runtime import ControllerContext, object_key


class PodGroupProtectionController(ProtectionController[PodGroup]):
    def __init__(self, context: ControllerContext) -> None:
        pods = context.informer(PODS, indexes={ACTIVE_PODS_INDEX: active_pods_by_group})
        super().__init__(DESCRIPTOR.name, context, POD_GROUPS, FINALIZER, queue_name="podgroupprotection")
        self._pods = pods.cache
        pods.add_handler(
            on_add=lambda pod, _initial: self._pod_changed(None, pod),
            on_update=self._pod_changed,
            on_delete=lambda pod, _unknown: self._pod_changed(pod, None),
        )

    def due(self, obj: PodGroup) -> Due:
        """Only to let it go: the admission plugin PodGroupProtection puts the finalizer on, and nobody else."""
        found = super().due(obj)
        return Due.NOTHING if found is Due.PROTECT else found

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        for key in groups_to_enqueue(old, new):
            self.enqueue(key)

    async def is_used(self, obj: PodGroup) -> bool:
        return bool(self._pods.by_index(ACTIVE_PODS_INDEX, object_key(obj.metadata)))


build = PodGroupProtectionController
