"""Which pods belong to which PodGroup, and which news of a pod can matter. Pure. Upstream: v1.36
``pkg/controller/scheduling/podgroupprotection/podgroup_protection_controller.go``."""

from collections.abc import Iterable

from pilothouse.api.core import Pod
from pilothouse.semantics.pods import is_terminal

GROUP_INDEX = "pod group"


def group_of(pod: Pod) -> str:
    """The key of the pod's group; "" if it has none."""
    group = pod.spec.scheduling_group
    return f"{pod.metadata.namespace}/{group.pod_group_name}" if group is not None and group.pod_group_name else ""


def index_by_group(pod: Pod) -> Iterable[str]:
    """For the cache of pods."""
    key = group_of(pod)
    return (key,) if key else ()


def is_used_by(pods: Iterable[Pod]) -> bool:
    """Whether one of the group's pods has not ended."""
    return not all(is_terminal(pod) for pod in pods)


def matters(pod: Pod) -> bool:
    """Whether a pod that has changed can be a reason to look at its group. One that runs on a node was seen
    before it had the node, and changes nothing before it ends."""
    return not pod.spec.node_name or is_terminal(pod)
