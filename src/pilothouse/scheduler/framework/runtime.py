"""Runs the filter plugins for a pod and a node, in the order of kube-scheduler's default profile.

``filter_node`` runs those whose result depends on the node alone, which ``filter_results`` caches. ``Framework`` adds
those that depend on volumes and on other pods, and nominated pods. As kube-scheduler v1.36
``pkg/scheduler/framework/runtime/framework.go``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import NodeInfo, PodInfo, PodState
from pilothouse.scheduler.plugins import (
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
    volume_restrictions,
    volume_zone,
)
from pilothouse.scheduler.plugins.interpod_affinity import NamespaceLister
from pilothouse.scheduler.plugins.volume_binder import VolumeBinder
from pilothouse.scheduler.plugins.volume_binding import PodVolumeClaims

if TYPE_CHECKING:
    from pilothouse.scheduler.plugins.dynamic_resources.pod_claims import PodClaims


def filter_node(pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
    """The first rejection by a plugin that reads only the node, or None."""
    # The conditions leave out plugins that have nothing to check: this runs for thousands of nodes per decision.
    if node_info.node.spec.unschedulable and (status := node_unschedulable.filter_node(pod_info, node_info)):
        return status
    if pod_info.selects_nodes and (status := node_name.filter_node(pod_info, node_info)):
        return status
    if node_info.do_not_schedule_taints and (status := taint_toleration.filter_node(pod_info, node_info)):
        return status
    if pod_info.selects_nodes and (status := node_affinity.filter_node(pod_info, node_info)):
        return status
    if pod_info.host_ports and (status := node_ports.filter_node(pod_info, node_info)):
        return status
    return node_resources_fit.filter_node(pod_info, node_info)


class CycleState:
    """What PreFilter computed for one pod, as of now: None for plugins that reject no node."""

    __slots__ = (
        "features",
        "interpod_affinity",
        "limits",
        "pod_claims",
        "pod_topology_spread",
        "restriction",
        "volumes",
    )

    def __init__(
        self,
        pod_info: PodInfo,
        volumes: PodVolumeClaims | None,
        limits: node_volume_limits.PreFilterState | None,
        restriction: Status | None,
        spread: pod_topology_spread.PreFilterState | None,
        affinity: interpod_affinity.PreFilterState | None,
        pod_claims: "PodClaims | None" = None,
    ) -> None:
        self.features = node_declared_features.required_features(pod_info.pod.spec)
        self.volumes = volumes
        self.limits = limits
        self.restriction = restriction
        self.pod_topology_spread = spread
        self.interpod_affinity = affinity
        self.pod_claims = pod_claims

    def filter_volumes(self, node_info: NodeInfo) -> Status | None:
        """Run VolumeRestrictions, NodeVolumeLimits, VolumeBinding and VolumeZone."""
        volumes = self.volumes
        if volumes is None:
            return None
        status = self.restriction
        if status is None and self.limits is not None:
            status = self.limits.filter_node(node_info)
        if status is None:
            status = volumes.filter_node(node_info.node)
        if status is None and volumes.topologies:
            status = volume_zone.filter_node(volumes.topologies, node_info)
        return status

    def filter_node(self, node_info: NodeInfo) -> Status | None:
        """Run these, PodTopologySpread, InterPodAffinity, DynamicResources and NodeDeclaredFeatures."""
        status = self.filter_volumes(node_info)
        if status is None and self.pod_topology_spread is not None:
            status = self.pod_topology_spread.filter_node(node_info)
        if status is None and self.interpod_affinity is not None:
            status = self.interpod_affinity.filter_node(node_info)
        if status is None and self.pod_claims is not None:
            status = self.pod_claims.filter_node(node_info)
        if status is None and self.features:
            status = node_declared_features.filter_node(self.features, node_info)
        return status


class Framework:
    """The plugins of one profile, over one cache."""

    def __init__(self, cache: Cache, namespaces: NamespaceLister, volume_binder: VolumeBinder | None = None) -> None:
        self.cache = cache
        self.namespaces = namespaces
        self._volume_binder = volume_binder
        self._volume_claims: tuple[PodInfo, int, PodVolumeClaims] | None = None
        self.pod_claims: PodClaims | None = None
        """The resource claims of the pod that is being scheduled, if it has any."""

    def pod_volume_claims(self, pod_info: PodInfo) -> PodVolumeClaims | None:
        """The claims of the pod, if it has any; cached until something changes."""
        if not pod_info.claim_names or self._volume_binder is None:
            return None
        cached = self._volume_claims
        if cached is None or cached[0] is not pod_info or cached[1] != self._volume_binder.version:
            claims = self._volume_binder.get_pod_volume_claims(pod_info)
            cached = self._volume_claims = (pod_info, self._volume_binder.version, claims)
        return cached[2]

    def pre_filter(self, pod_info: PodInfo) -> CycleState:
        """The state of the filters for the pod, as of now."""
        cache = self.cache
        spread = pod_topology_spread.PreFilterState(cache, pod_info) if pod_info.hard_constraints else None
        affinity = None
        if pod_info.affinity_terms is not None or cache.existing_anti_affinity:
            affinity = interpod_affinity.PreFilterState(cache, pod_info, self.namespaces)
        volumes = self.pod_volume_claims(pod_info)
        restriction = limits = None
        if volumes is not None and self._volume_binder is not None:
            limits = self._volume_binder.volume_limits.pre_filter(pod_info)
            if volumes.read_write_once_pod_claims:
                restriction = volume_restrictions.filter_pod(cache, volumes.read_write_once_pod_claims)
        return CycleState(pod_info, volumes, limits, restriction, spread, affinity or None, self.pod_claims)

    def filter_node(self, pod_info: PodInfo, node_info: NodeInfo, state: CycleState | None = None) -> Status | None:
        """The first rejection by any plugin, or None. Nominated pods count as if they were on the node."""
        status = filter_node(pod_info, node_info)
        if status is None:
            status = self.filter_node_in_cluster(pod_info, node_info, state or self.pre_filter(pod_info))
        return status

    def filter_node_in_cluster(self, pod_info: PodInfo, node_info: NodeInfo, state: CycleState) -> Status | None:
        """The part of ``filter_node`` whose result depends on more than the node."""
        return state.filter_node(node_info) or self._filter_with_nominated_pods(pod_info, node_info)

    def filter_nodes_in_cluster(self, pod_info: PodInfo, positions: Sequence[int], state: CycleState) -> Sequence[int]:
        """The positions that ``filter_node_in_cluster`` accepts: each plugin runs for all nodes at once."""
        cache = self.cache
        node_infos = cache.node_infos
        if state.volumes is not None:
            positions = [i for i in positions if state.filter_volumes(node_infos[i]) is None]
        if state.pod_topology_spread is not None:
            positions = state.pod_topology_spread.filter_nodes(cache, positions)
        if state.interpod_affinity is not None:
            positions = state.interpod_affinity.filter_nodes(cache, positions)
        if state.pod_claims is not None:
            pod_claims = state.pod_claims
            positions = [i for i in positions if pod_claims.filter_node(node_infos[i]) is None]
        if state.features:
            required = state.features
            positions = [i for i in positions if not node_declared_features.filter_node(required, node_infos[i])]
        nominated = cache.nominator.nominated_pods
        if nominated:
            positions = [
                i
                for i in positions
                if node_infos[i].name not in nominated
                or self._filter_with_nominated_pods(pod_info, node_infos[i]) is None
            ]
        return positions

    def _filter_with_nominated_pods(self, pod_info: PodInfo, node_info: NodeInfo) -> Status | None:
        """Run the filters again as if the nominated pods of the same or higher priority were on the node.

        The caller has run them without, too: nominated pods may never arrive (upstream's
        ``RunFilterPluginsWithNominatedPods``).
        """
        nominated = [
            PodState(other, node_info.name, assumed=True)
            for key, other in self.cache.nominator.nominated_pods.get(node_info.name, {}).items()
            if other.priority >= pod_info.priority and key != pod_info.key and key not in node_info.pods
        ]
        if not nominated:
            return None
        for pod_state in nominated:
            self.add_pod(pod_state, node_info)
        status = filter_node(pod_info, node_info) or self.pre_filter(pod_info).filter_node(node_info)
        for pod_state in nominated:
            self.remove_pod(pod_state, node_info)
        return status

    def add_pod(self, pod_state: PodState, node_info: NodeInfo) -> None:
        """Count the pod on the node while filters run. The caller must undo it (upstream's ``AddPod`` of PreFilter)."""
        node_info.update(pod_state, 1)
        self.cache.update_match_counts(pod_state, 1)

    def remove_pod(self, pod_state: PodState, node_info: NodeInfo) -> None:
        """Do not count the pod on the node while filters run. The caller must undo it."""
        node_info.update(pod_state, -1)
        self.cache.update_match_counts(pod_state, -1)
