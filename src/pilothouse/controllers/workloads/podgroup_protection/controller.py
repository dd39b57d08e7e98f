"""Looks at a PodGroup when it changes, and when one of its pods comes, ends or goes."""

from pilothouse.api.core import PODS, Pod
from pilothouse.api.scheduling import POD_GROUPS, PodGroup
from pilothouse.controllers.shared.in_use_protection import ProtectionController
from pilothouse.controllers.workloads.podgroup_protection import DESCRIPTOR, FINALIZER
from pilothouse.controllers.workloads.podgroup_protection.decide import (
    GROUP_INDEX,
    group_of,
    index_by_group,
    is_used_by,
    matters,
)
from pilothouse.runtime import ControllerContext, object_key


def build(context: ControllerContext) -> "PodGroupProtectionController":
    """The factory of the descriptor."""
    return PodGroupProtectionController(context)


class PodGroupProtectionController(ProtectionController[PodGroup]):
    """See the package for the promises. Keys are those of PodGroups."""

    def __init__(self, context: ControllerContext) -> None:
        pods = context.informers.informer(PODS)
        super().__init__(
            DESCRIPTOR.name, context, POD_GROUPS, FINALIZER, queue_name="podgroupprotection", waits_for=(pods,)
        )
        self._pods = pods.cache
        self._pods.add_index(GROUP_INDEX, index_by_group)
        pods.add_handler(
            # Also of one that runs: it may have been made, and got its node, while nobody watched.
            on_add=lambda pod, _initial: self._wake_group(pod),
            on_update=self._pod_updated,
            on_delete=lambda pod, _unknown: self._wake_group(pod),
        )

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:  # deleted and made again while nobody watched
            self._wake_group(old)
            self._wake_group(new)
        elif matters(new):
            self._wake_group(new)

    def _wake_group(self, pod: Pod) -> None:
        key = group_of(pod)
        if key:
            self.wake(key)

    async def is_used(self, obj: PodGroup) -> bool:
        """Whether a pod of the group has not ended."""
        return is_used_by(self._pods.by_index(GROUP_INDEX, object_key(obj.metadata)))

    def wants_protection(self, obj: PodGroup) -> bool:
        """Only groups that have pods."""
        return is_used_by(self._pods.by_index(GROUP_INDEX, object_key(obj.metadata)))
