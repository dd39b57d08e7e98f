"""The pods that are nominated to run on a node, whose room preemption is freeing for them.

As kube-scheduler v1.36 ``pkg/scheduler/backend/queue/nominator.go``.
"""

from collections.abc import Mapping

from pilothouse.scheduler.framework.types import PodInfo


class Nominator:
    """Nominated pods by node, and the nominated node of each pod."""

    def __init__(self) -> None:
        self._nominated_pods: dict[str, dict[str, PodInfo]] = {}
        self._nominated_pod_to_node: dict[str, str] = {}

    @property
    def nominated_pods(self) -> Mapping[str, Mapping[str, PodInfo]]:
        """The nominated pods, by node name and pod key."""
        return self._nominated_pods

    def add_nominated_pod(self, pod_info: PodInfo, node_name: str) -> None:
        """Nominate the pod for the node, replacing an earlier nomination. An empty name only removes the earlier
        one."""
        self.delete_nominated_pod_if_exists(pod_info.key)
        if node_name:
            self._nominated_pod_to_node[pod_info.key] = node_name
            self._nominated_pods.setdefault(node_name, {})[pod_info.key] = pod_info

    def delete_nominated_pod_if_exists(self, key: str) -> PodInfo | None:
        """Remove the nomination of the pod. Returns the pod that was nominated."""
        node_name = self._nominated_pod_to_node.pop(key, None)
        if node_name is None:
            return None
        pods = self._nominated_pods[node_name]
        pod_info = pods.pop(key)
        if not pods:
            del self._nominated_pods[node_name]
        return pod_info

    def nominated_node_name(self, key: str) -> str:
        """The node that the pod is nominated for, or an empty name."""
        return self._nominated_pod_to_node.get(key, "")
