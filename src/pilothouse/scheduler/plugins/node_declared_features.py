"""NodeDeclaredFeatures: the kubelet must have the features that a pod needs.

Of the features that kubelets declare in v1.36 only one that is on by default decides where a pod can run. As
kube-scheduler v1.36 ``plugins/nodedeclaredfeatures`` and component-helpers ``nodedeclaredfeatures``.
"""

from pilothouse.api.core import PodSpec
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeChange, NodeInfo, PodInfo

NAME = "NodeDeclaredFeatures"
UNSATISFIED_REQUIREMENTS = Status(NAME, ("node(s) didn't match Pod's required features",), unresolvable=True)
RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"


def required_features(spec: PodSpec) -> frozenset[str]:
    """The features that a node needs to run the pod (``InferForPodScheduling``)."""
    actions = {
        rule.action
        for container in (*spec.containers, *spec.init_containers)
        for rule in container.restart_policy_rules
    }
    return frozenset((RESTART_ALL_CONTAINERS,)) if "RestartAllContainers" in actions else frozenset()


def filter_node(required: frozenset[str], node_info: NodeInfo) -> Status | None:
    """Reject a node that does not declare all of them."""
    return None if required.issubset(node_info.node.status.declared_features) else UNSATISFIED_REQUIREMENTS


def is_schedulable_after_node_change(_pod_info: PodInfo, change: NodeChange) -> bool:
    """Whether a node was added or declares other features."""
    if change.new is None:
        return False
    return change.old is None or change.old.status.declared_features != change.new.status.declared_features
