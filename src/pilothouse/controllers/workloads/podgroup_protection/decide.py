"""Which pods belong to which PodGroup, and which news of them can let it go. Pure. Upstream: v1.36
``pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go``."""

from collections.abc import Iterable

from pilothouse.api.core import Pod
from pilothouse.semantics.pods import is_terminal

ACTIVE_PODS_INDEX = "active pods by scheduling group"


def group_of(pod: Pod) -> str:
    """The key of the pod's group; "" if it has none."""
    group = pod.spec.scheduling_group
    return f"{pod.metadata.namespace}/{group.pod_group_name}" if group is not None and group.pod_group_name else ""


def active_pods_by_group(pod: Pod) -> Iterable[str]:
    """For the cache of pods: those that have not succeeded or failed."""
    key = group_of(pod)
    return (key,) if key and not is_terminal(pod) else ()


def groups_to_enqueue(old: Pod | None, new: Pod | None) -> list[str]:
    """The keys of the groups of which a pod has ended or gone."""
    keys: dict[str, None] = {}
    if new is not None and is_terminal(new):
        keys[group_of(new)] = None
    # An update may hide that the pod was deleted and another one of its name was made.
    if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
        keys[group_of(old)] = None
    return [key for key in keys if key]
