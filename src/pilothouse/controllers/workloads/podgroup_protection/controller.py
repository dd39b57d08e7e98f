"""Removes the finalizer of a PodGroup that is being deleted when its pods are finished or gone. Upstream: v1.36
``pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go``."""

from collections.abc import Iterable

from pilothouse.api.core import PODS, Pod
from pilothouse.api.scheduling import POD_GROUPS, PodGroup
from pilothouse.controllers.shared.in_use_protection import FinalizerAction, ProtectionController
from pilothouse.controllers.workloads.podgroup_protection import DESCRIPTOR, FINALIZER
from pilothouse.runtime import ControllerContext, object_key
from pilothouse.semantics.pods import is_terminal

ACTIVE_PODS_INDEX = "active pods by scheduling group"


def group_of(pod: Pod) -> str:
    """The key of the pod's group; "" if it has none."""
    group = pod.spec.scheduling_group
    return f"{pod.metadata.namespace}/{group.pod_group_name}" if group is not None and group.pod_group_name else ""


def active_pods_by_group(pod: Pod) -> Iterable[str]:
    """The index of pods that have not succeeded or failed."""
    key = group_of(pod)
    return (key,) if key and not is_terminal(pod) else ()


def groups_to_enqueue(old: Pod | None, new: Pod | None) -> list[str]:
    """The keys of the groups of a pod that finished or was deleted."""
    keys: dict[str, None] = {}
    if new is not None and is_terminal(new):
        keys[group_of(new)] = None
    # An update may hide that the pod was deleted and another one with its name was created.
    if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
        keys[group_of(old)] = None
    return [key for key in keys if key]


class PodGroupProtectionController(ProtectionController[PodGroup]):
    def __init__(self, context: ControllerContext) -> None:
        pods = context.informer(PODS, indexes={ACTIVE_PODS_INDEX: active_pods_by_group})
        super().__init__(DESCRIPTOR.name, context, POD_GROUPS, FINALIZER, queue_name="podgroupprotection")
        self._pods = pods.cache
        pods.add_handler(
            on_add=lambda pod, _initial: self._enqueue_groups_of_pod(None, pod),
            on_update=self._enqueue_groups_of_pod,
            on_delete=lambda pod, _unknown: self._enqueue_groups_of_pod(pod, None),
        )

    def pending_action(self, obj: PodGroup) -> FinalizerAction:
        """Only removes the finalizer; the admission plugin PodGroupProtection adds it."""
        action = super().pending_action(obj)
        return FinalizerAction.NOTHING if action is FinalizerAction.ADD else action

    def _enqueue_groups_of_pod(self, old: Pod | None, new: Pod | None) -> None:
        for key in groups_to_enqueue(old, new):
            self.enqueue(key)

    async def is_being_used(self, obj: PodGroup) -> bool:
        return bool(self._pods.by_index(ACTIVE_PODS_INDEX, object_key(obj.metadata)))


build = PodGroupProtectionController
