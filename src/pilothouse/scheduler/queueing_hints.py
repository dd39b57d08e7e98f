"""Whether an event may make an unschedulable pod schedulable. Pure.

A pod is scheduled again only for events that may change the result of a plugin that rejected it: the queueing hints of
kube-scheduler v1.36 (``EventsToRegister`` of each plugin). A hint looks only at the event, not at the room on the node:
a pod that does not fit may have victims there now. A pod that no plugin rejected is scheduled again for every event.
"""

from collections.abc import Callable, Mapping

from pilothouse.scheduler.framework.types import NodeChange, PodInfo
from pilothouse.scheduler.plugins import (
    dynamic_resources,
    interpod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_fit,
    node_unschedulable,
    node_volume_limits,
    pod_topology_spread,
    taint_toleration,
    volume_binding,
    volume_restrictions,
    volume_zone,
)
from pilothouse.scheduler.plugins.dynamic_resources import is_device_available_after_node_change
from pilothouse.scheduler.plugins.interpod_affinity import NamespaceLister

CLUSTER_WIDE_PLUGINS = (pod_topology_spread.NAME, interpod_affinity.NAME)
"""The plugins whose result for a node depends on pods of other nodes. Only they have hints for pods that are added."""

VOLUME_PLUGINS = frozenset((volume_restrictions.NAME, node_volume_limits.NAME, volume_binding.NAME, volume_zone.NAME))
"""The plugins whose result depends on claims, volumes, and what CSI drivers report."""

_NODE_HINTS: Mapping[str, Callable[[PodInfo, NodeChange], bool]] = {
    node_unschedulable.NAME: node_unschedulable.is_schedulable_after_node_change,
    node_name.NAME: node_name.is_schedulable_after_node_change,
    taint_toleration.NAME: taint_toleration.is_schedulable_after_node_change,
    node_affinity.NAME: node_affinity.is_schedulable_after_node_change,
    node_ports.NAME: node_ports.is_schedulable_after_node_change,
    node_resources_fit.NAME: node_resources_fit.is_schedulable_after_node_change,
    volume_restrictions.NAME: volume_restrictions.is_schedulable_after_node_change,
    volume_binding.NAME: volume_binding.is_schedulable_after_node_change,
    volume_zone.NAME: volume_zone.is_schedulable_after_node_change,
    pod_topology_spread.NAME: pod_topology_spread.is_schedulable_after_node_change,
    interpod_affinity.NAME: interpod_affinity.is_schedulable_after_node_change,
    node_declared_features.NAME: node_declared_features.is_schedulable_after_node_change,
    dynamic_resources.NAME: is_device_available_after_node_change,
}


_WITHOUT_TAINT_HINT = frozenset(
    (
        node_name.NAME,
        node_affinity.NAME,
        node_ports.NAME,
        node_resources_fit.NAME,
        volume_restrictions.NAME,
        volume_binding.NAME,
        volume_zone.NAME,
        interpod_affinity.NAME,
        node_declared_features.NAME,
        dynamic_resources.NAME,
    )
)
"""They have no hint for taints. As they have one for nodes that are added, upstream has pods tried again after every
change of taints (``buildQueueingHintMap``)."""


def is_schedulable_after_node_change(pod_info: PodInfo, rejected_by: frozenset[str], change: NodeChange) -> bool:
    """Whether a node that was added, updated or deleted may help."""
    if not rejected_by or (change.taints and not rejected_by.isdisjoint(_WITHOUT_TAINT_HINT)):
        return True
    return any(plugin in _NODE_HINTS and _NODE_HINTS[plugin](pod_info, change) for plugin in rejected_by)


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
    """Whether a pod that was removed from its node, or is not nominated for a node any more, may help, on any node."""
    return (
        not rejected_by
        # Its resources, or its place among the pods of the node.
        or node_resources_fit.NAME in rejected_by
        or (node_ports.NAME in rejected_by and node_ports.is_schedulable_after_pod_removed(pod_info, removed))
        or (
            volume_restrictions.NAME in rejected_by
            and volume_restrictions.is_schedulable_after_pod_removed(pod_info, removed)
        )
        or (
            node_volume_limits.NAME in rejected_by
            and node_volume_limits.is_schedulable_after_pod_removed(pod_info, removed)
        )
        or _is_schedulable_without_labels(pod_info, rejected_by, removed, namespaces)
    )


def may_pod_update_help(old: PodInfo, new: PodInfo) -> bool:
    """Whether the update of a pod on a node is one that ``is_schedulable_after_pod_update`` is about: most are not, and
    need not be compared with each waiting pod (upstream's ``PodSchedulingPropertiesChange``)."""
    return old.labels != new.labels or any(amount > new.requests.get(name, 0) for name, amount in old.requests.items())


def is_schedulable_after_pod_update(
    pod_info: PodInfo, rejected_by: frozenset[str], old: PodInfo, new: PodInfo, namespaces: NamespaceLister
) -> bool:
    """Whether a pod on a node that has other labels or requests less may help, on any node."""
    if node_resources_fit.NAME in rejected_by and node_resources_fit.is_schedulable_after_pod_update(
        pod_info, old, new
    ):
        return True
    return old.labels != new.labels and (
        _is_schedulable_without_labels(pod_info, rejected_by, old, namespaces)
        or is_schedulable_after_pod_added(pod_info, rejected_by, new, namespaces)
    )


def _is_schedulable_without_labels(
    pod_info: PodInfo, rejected_by: frozenset[str], removed: PodInfo, namespaces: NamespaceLister
) -> bool:
    return (
        pod_topology_spread.NAME in rejected_by
        and pod_topology_spread.is_schedulable_after_pod_change(pod_info, removed)
    ) or (
        interpod_affinity.NAME in rejected_by
        and interpod_affinity.is_schedulable_after_pod_removed(pod_info, removed, namespaces)
    )
