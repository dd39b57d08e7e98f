"""Whether an event may make an unschedulable pod schedulable. Pure.

A pod is scheduled again only for events that may change the result of a plugin that rejected it (kube-scheduler v1.36,
``EventsToRegister`` of each plugin). An event on one node is decided by filtering that node. PodTopologySpread and
InterPodAffinity also depend on pods and labels of other nodes; their hints are functions of the plugins.
"""

from collections.abc import Hashable

from pilothouse.scheduler.framework.runtime import Framework
from pilothouse.scheduler.framework.status import NODE_NOT_IN_PRE_FILTER_RESULT, Status
from pilothouse.scheduler.framework.types import NodeChange, NodeInfo, PodInfo
from pilothouse.scheduler.plugins import interpod_affinity, pod_topology_spread
from pilothouse.scheduler.plugins.interpod_affinity import NamespaceLister

CLUSTER_WIDE_PLUGINS = (pod_topology_spread.NAME, interpod_affinity.NAME)
"""The plugins whose result for a node depends on pods of other nodes."""


class NodeHint:
    """The hint for an event on one node. Created per event: pods with the same signature share a result."""

    def __init__(self, framework: Framework, node_info: NodeInfo) -> None:
        self._framework = framework
        self._node_info = node_info
        self._known: dict[Hashable, Status | None] = {}

    def is_schedulable(self, pod_info: PodInfo, rejected_by: frozenset[str]) -> bool:
        """Whether the node fits now; or is rejected by a cluster-wide plugin that did not reject the pod before,
        because another plugin rejected the node first. The next attempt lets the pod wait for events of that plugin."""
        status = self._status(pod_info)
        return status is None or (status.plugin in CLUSTER_WIDE_PLUGINS and status.plugin not in rejected_by)

    def _status(self, pod_info: PodInfo) -> Status | None:
        cache = self._framework.cache
        if (
            pod_info.affinity_terms is not None
            or pod_info.hard_constraints
            or pod_info.claim_names
            or cache.existing_anti_affinity
            or cache.nominator.nominated_node_name(pod_info.key)
        ):
            return self._filter(pod_info)
        key = (pod_info.signature, pod_info.priority) if cache.nominator.nominated_pods else pod_info.signature
        if key not in self._known:
            self._known[key] = self._filter(pod_info)
        return self._known[key]

    def _filter(self, pod_info: PodInfo) -> Status | None:
        if pod_info.node_names is not None and self._node_info.name not in pod_info.node_names:
            return NODE_NOT_IN_PRE_FILTER_RESULT
        return self._framework.filter_node(pod_info, self._node_info)


def is_schedulable_after_node_change(pod_info: PodInfo, rejected_by: frozenset[str], change: NodeChange) -> bool:
    """Whether a node that was added, updated or deleted may help through topology domains."""
    return (
        pod_topology_spread.NAME in rejected_by
        and pod_topology_spread.is_schedulable_after_node_change(pod_info, change)
    ) or (
        interpod_affinity.NAME in rejected_by and interpod_affinity.is_schedulable_after_node_change(pod_info, change)
    )


def is_schedulable_after_pod_added(
    pod_info: PodInfo, rejected_by: frozenset[str], added: PodInfo, namespaces: NamespaceLister
) -> bool:
    """Whether a pod that was added to a node or relabeled there may help, on any node."""
    return (
        pod_topology_spread.NAME in rejected_by and pod_topology_spread.is_schedulable_after_pod_change(pod_info, added)
    ) or (
        interpod_affinity.NAME in rejected_by
        and interpod_affinity.is_schedulable_after_pod_added(pod_info, added, namespaces)
    )


def is_schedulable_after_pod_removed(
    pod_info: PodInfo, rejected_by: frozenset[str], removed: PodInfo, namespaces: NamespaceLister
) -> bool:
    """Whether a pod that was removed from a node or relabeled there may help, on any node."""
    return (
        pod_topology_spread.NAME in rejected_by
        and pod_topology_spread.is_schedulable_after_pod_change(pod_info, removed)
    ) or (
        interpod_affinity.NAME in rejected_by
        and interpod_affinity.is_schedulable_after_pod_removed(pod_info, removed, namespaces)
    )
