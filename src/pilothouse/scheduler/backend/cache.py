"""The nodes and the pods on them, kept up to date with every event and never rebuilt.

Event handlers write; decisions read. A pod that was given a node is *assumed*: it counts from the decision on, before
the event that confirms it. As kube-scheduler v1.36 ``pkg/scheduler/backend/cache/cache.go``, except that decisions read
the cache instead of a snapshot: nothing else runs during a decision.

Results that are cached elsewhere are compared by three numbers: ``node_order_version`` changes when nodes are added,
removed or change their zone, so that positions mean other nodes; ``changed_since`` lists the positions of changed
nodes; ``topology_version`` changes with labels, taints and ``unschedulable`` of nodes.
"""

import itertools
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from pilothouse.api.core import Node, Pod
from pilothouse.machinery.names import object_key
from pilothouse.scheduler.backend.match_counts import TEMPLATE_HASH, MatchCountIndex, MatchCounts, Topologies, Topology
from pilothouse.scheduler.backend.nominator import Nominator
from pilothouse.scheduler.framework.types import AffinityTerm, NodeInfo, PodInfo, PodState, update_count
from pilothouse.semantics.pods import granted_requests

_MAX_CHANGES = 65536
_MAX_LABELS = 64

K = TypeVar("K", bound=Hashable)


class ImageState:
    """The nodes that have an image, and its size as the first of them reported it."""

    __slots__ = ("nodes", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.nodes: set[str] = set()


class Cache:
    """All nodes by name, the pods on them, and the match counts of these pods."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.nominator = Nominator()
        self.node_order_version = 0
        self.topology_version = 0
        self.prefer_no_schedule_nodes = 0
        """The number of nodes with PreferNoSchedule taints."""
        self.image_states: dict[str, ImageState] = {}
        """The images on nodes by name."""
        self._node_infos: tuple[NodeInfo, ...] | None = ()
        self._node_names: list[str] = []
        self._changes: list[int] = []
        self._changes_before = 0
        self._pod_states: dict[str, PodState] = {}
        self._pod_states_by_namespace: dict[str, dict[str, dict[str, PodState]]] = {}
        """By namespace and ``pod-template-hash``: the selector of a new ReplicaSet only has to be matched against its
        own pods."""
        self._pods_without_node: dict[str, dict[str, PodState]] = {}
        """Pods of nodes that are not in the cache, by node name."""
        self._label_values: dict[str, list[str | None]] = {}
        self._label_values_version = (-1, -1)
        self.claim_users: dict[str, int] = {}
        """The number of pods on nodes that use a claim, by its namespace and name."""
        self.match_counts = MatchCountIndex(self._assigned_pods)
        self.topologies = Topologies()
        self.existing_anti_affinity: dict[AffinityTerm, MatchCounts] = {}
        """The pods on nodes by their required anti-affinity terms."""
        self.existing_score_terms: dict[tuple[AffinityTerm, int], MatchCounts] = {}
        """The pods on nodes by ``PodAffinityTerms.score_terms``."""

    def sizes(self) -> dict[str, int]:
        """How many nodes and pods there are, and how many of these are assumed."""
        states = self._pod_states.values()
        return {
            "nodes": len(self.nodes),
            "pods": len(states),
            "assumed_pods": sum(state.assumed for state in states),
        }

    # Order and changes

    @property
    def node_infos(self) -> Sequence[NodeInfo]:
        """The nodes, taking turns between zones, within a zone in the order in which they were added.

        Like ``node_tree.go``: a search that ends early has covered every zone.
        """
        if self._node_infos is None:
            zones: dict[tuple[str, str], list[NodeInfo]] = {}
            for node_info in self.nodes.values():
                zones.setdefault(node_info.zone, []).append(node_info)
            in_order: Iterable[NodeInfo] = _round_robin(list(zones.values())) if len(zones) > 1 else self.nodes.values()
            self._node_infos = tuple(in_order)
            self._node_names = [node_info.name for node_info in self._node_infos]
            for index, node_info in enumerate(self._node_infos):
                node_info.index = index
        return self._node_infos

    @property
    def node_names(self) -> list[str]:
        """The names of ``node_infos``, in their order."""
        return self._node_names if self.node_infos else []

    def _invalidate_node_order(self) -> None:
        self._node_infos = None
        self.node_order_version += 1
        self._changes.clear()
        self._changes_before = 0

    def _record_change(self, node_info: NodeInfo) -> None:
        if self._node_infos is not None:
            if len(self._changes) >= _MAX_CHANGES:
                half = _MAX_CHANGES // 2
                del self._changes[:half]
                self._changes_before += half
            self._changes.append(node_info.index)

    def _invalidate_topologies(self) -> None:
        self.topology_version += 1
        if self.topologies:
            self.topologies.clear()
            self.match_counts.forget_domains()
            for counts in (*self.existing_anti_affinity.values(), *self.existing_score_terms.values()):
                counts.forget_domains()

    @property
    def change_count(self) -> int:
        """The number of changes since ``node_order_version`` changed."""
        return self._changes_before + len(self._changes)

    def changed_since(self, count: int) -> Sequence[int] | None:
        """The positions of nodes that changed after the first ``count`` changes; None if the log no longer has them
        all."""
        start = count - self._changes_before
        return self._changes[start:] if start >= 0 else None

    # Nodes

    def update_node(self, node: Node) -> bool:
        """Add a node or a new version of it. Returns whether anything changed that scheduling depends on."""
        node_info = self.nodes.get(node.metadata.name)
        if node_info is None:
            node_info = self.nodes[node.metadata.name] = NodeInfo(node)
            self._invalidate_node_order()
            self._invalidate_topologies()
            self.prefer_no_schedule_nodes += bool(node_info.prefer_no_schedule_taints)
            self._update_image_states(None, node)
            for pod_state in self._pods_without_node.pop(node_info.name, {}).values():
                node_info.update(pod_state, 1)
            return True
        zone, had_taints = node_info.zone, bool(node_info.prefer_no_schedule_taints)
        self._update_image_states(node_info.node, node)
        topology, resources = node_info.set_node(node)
        if topology:
            self._invalidate_topologies()
            self.prefer_no_schedule_nodes += bool(node_info.prefer_no_schedule_taints) - had_taints
            if node_info.zone != zone:
                self._invalidate_node_order()
        if topology or resources:
            self._record_change(node_info)
        return topology or resources

    def remove_node(self, name: str) -> NodeInfo | None:
        """Remove a node. Its pods are kept until they are deleted, because the node may be added again."""
        node_info = self.nodes.pop(name, None)
        if node_info is not None:
            self._invalidate_node_order()
            self._invalidate_topologies()
            self.prefer_no_schedule_nodes -= bool(node_info.prefer_no_schedule_taints)
            self._update_image_states(node_info.node, None)
            if node_info.pods:
                self._pods_without_node[name] = node_info.pods
        return node_info

    def _update_image_states(self, old: Node | None, new: Node | None) -> None:
        states = self.image_states
        old_images = old.status.images if old is not None else ()
        new_images = new.status.images if new is not None else ()
        if old_images == new_images:
            return
        if old is not None:
            for image in old_images:
                for name in image.names:
                    state = states.get(name)
                    if state is not None:
                        state.nodes.discard(old.metadata.name)
                        if not state.nodes:
                            del states[name]
        if new is not None:
            for image in new_images:
                for name in image.names:
                    states.setdefault(name, ImageState(image.size_bytes)).nodes.add(new.metadata.name)

    # Pods

    def assume_pod(self, pod_info: PodInfo, node_name: str) -> PodState:
        """Count the pod on the node that was chosen for it."""
        pod_state = PodState(pod_info, node_name, assumed=True)
        self._set_pod_state(pod_state)
        return pod_state

    def add_pod(self, pod: Pod) -> tuple[PodState | None, PodState | None]:
        """Add or confirm a pod that has a node. Returns the old and the new state.

        Both are None if the pod was in the cache and nothing relevant to scheduling changed.
        """
        meta, node_name = pod.metadata, pod.spec.node_name
        current = self._pod_states.get(object_key(meta))
        if current is not None and current.uid == meta.uid and current.node_name == node_name:
            current_pod = current.pod
            if (
                # An in-place resize increments the generation.
                (current_pod.metadata.generation == meta.generation or current_pod.spec == pod.spec)
                and granted_requests(current_pod) == granted_requests(pod)
                and current.pod_info.labels == meta.labels
                and current.terminating == (meta.deletion_timestamp is not None)
            ):
                # The version that the decision used would stay in memory beside the informer's.
                current.pod = current.pod_info.pod = pod
                current.assumed = False
                return None, None
        pod_state = PodState(PodInfo(pod), node_name, assumed=False)
        self._set_pod_state(pod_state)
        return current, pod_state

    def is_assumed_pod(self, key: str, uid: str) -> bool:
        """Whether the pod is assumed and not confirmed yet."""
        pod_state = self._pod_states.get(key)
        return pod_state is not None and pod_state.assumed and pod_state.uid == uid

    def forget_pod(self, key: str, uid: str) -> PodState | None:
        """Remove the pod if it is still assumed. A confirmed pod stays."""
        return self.remove_pod(key) if self.is_assumed_pod(key, uid) else None

    def remove_pod(self, key: str) -> PodState | None:
        """Remove a pod that was deleted or has terminated. Returns its last state."""
        pod_state = self._pod_states.pop(key, None)
        if pod_state is None:
            return None
        namespace = self._pod_states_by_namespace[pod_state.pod_info.namespace]
        template = pod_state.pod_info.labels.get(TEMPLATE_HASH, "")
        alike = namespace[template]
        del alike[key]
        if not alike:
            del namespace[template]
            if not namespace:
                del self._pod_states_by_namespace[pod_state.pod_info.namespace]
        self.update_match_counts(pod_state, -1)
        node_info = self.nodes.get(pod_state.node_name)
        if node_info is not None:
            node_info.update(pod_state, -1)
            self._record_change(node_info)
        else:
            pods = self._pods_without_node.get(pod_state.node_name, {})
            pods.pop(key, None)
            if not pods:
                self._pods_without_node.pop(pod_state.node_name, None)
        return pod_state

    def _set_pod_state(self, pod_state: PodState) -> None:
        self.remove_pod(pod_state.key)
        self._pod_states[pod_state.key] = pod_state
        info = pod_state.pod_info
        namespace = self._pod_states_by_namespace.setdefault(info.namespace, {})
        alike = namespace.setdefault(info.labels.get(TEMPLATE_HASH, ""), {})
        if alike:
            info.share(next(iter(alike.values())).pod_info)
        alike[pod_state.key] = pod_state
        self.update_match_counts(pod_state, 1)
        node_info = self.nodes.get(pod_state.node_name)
        if node_info is not None:
            node_info.update(pod_state, 1)
            self._record_change(node_info)
        else:
            self._pods_without_node.setdefault(pod_state.node_name, {})[pod_state.key] = pod_state

    def update_match_counts(self, pod_state: PodState, sign: int) -> None:
        """Add the pod (1) to everything that is counted for the whole cluster, or remove it (-1)."""
        for name in pod_state.pod_info.claim_names:
            update_count(self.claim_users, f"{pod_state.pod_info.namespace}/{name}", sign)
        if self.match_counts:
            self.match_counts.update(pod_state, sign)
        terms = pod_state.pod_info.affinity_terms
        if terms is not None:
            for term in terms.required_anti_affinity:
                _update_term(self.existing_anti_affinity, term, pod_state.node_name, sign)
            for score_term in terms.score_terms:
                _update_term(self.existing_score_terms, score_term, pod_state.node_name, sign)

    def _assigned_pods(self, namespace: str | None, template: str) -> Iterable[PodState]:
        if namespace is None:
            return self._pod_states.values()
        by_template = self._pod_states_by_namespace.get(namespace, {})
        if template:
            return by_template.get(template, {}).values()
        return itertools.chain.from_iterable(pods.values() for pods in by_template.values())

    # Labels of nodes

    def label_values(self, key: str) -> list[str | None]:
        """The values of one label in the order of ``node_infos``."""
        version = (self.node_order_version, self.topology_version)
        if self._label_values_version != version:
            self._label_values.clear()
            self._label_values_version = version
        values = self._label_values.get(key)
        if values is None:
            if len(self._label_values) >= _MAX_LABELS:
                self._label_values.clear()
            values = self._label_values[key] = [node_info.labels.get(key) for node_info in self.node_infos]
        return values

    def topology(self, key: str) -> Topology:
        """The topology of all nodes that have the label."""
        return self.topologies.get(
            key,
            self.topology_version,
            lambda: {node_info.name: node_info.labels[key] for node_info in self.node_infos if key in node_info.labels},
        )


def _update_term(terms: dict[K, MatchCounts], term: K, node_name: str, sign: int) -> None:
    counts = terms.get(term)
    if counts is None:
        counts = terms[term] = MatchCounts()
    counts.update(node_name, sign)
    if not counts.by_node:
        del terms[term]


def _round_robin(zones: list[list[NodeInfo]]) -> Iterator[NodeInfo]:
    position = 0
    while zones:
        for zone in zones:
            yield zone[position]
        position += 1
        zones = [zone for zone in zones if position < len(zone)]
