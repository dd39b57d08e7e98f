"""Enqueues the DaemonSets that a change of a node affects.

The handler adds the node's name to a separate queue; two workers then check every DaemonSet for this node. Before v1.36
upstream did that in the handler, and lagged by hours with 5,000 nodes (kubernetes#121474); now ``updateNode`` and
``syncNodeUpdate`` work as here.
"""

import msgspec

from pilothouse.api.apps import DaemonSet
from pilothouse.api.core import Node
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.daemonset.blueprint import Blueprints
from pilothouse.controllers.workloads.daemonset.node_to_daemon_pods import DaemonPods
from pilothouse.controllers.workloads.daemonset.nodes import NodeTable
from pilothouse.runtime import Cache, WorkQueue, controller_index_key, object_key


def daemon_key(meta: ObjectMeta) -> str:
    """The key under which a DaemonSet's pods are indexed."""
    return controller_index_key(meta.namespace, "DaemonSet", meta.name, meta.uid)


class NodeEvents(msgspec.Struct, frozen=True, kw_only=True):
    owners: Cache[DaemonSet]
    nodes: NodeTable
    daemon_pods: DaemonPods
    blueprints: Blueprints
    changed: WorkQueue[str]
    queue: WorkQueue[str]

    def add_node(self, node: Node, _initial: bool) -> None:
        if self.nodes.put(node):
            self._enqueue_node(node.metadata.name)

    def update_node(self, _old: Node, new: Node) -> None:
        """Only labels and taints matter for daemon pods; heartbeats are ignored."""
        if self.nodes.put(new):
            self._enqueue_node(new.metadata.name)

    def delete_node(self, node: Node, _final_state_unknown: bool) -> None:
        """It no longer counts, and pods pinned to it will never start. Upstream has no such handler."""
        name = node.metadata.name
        self.nodes.drop(name)
        self.blueprints.forget_node(name)
        self._enqueue_node(name)

    def _enqueue_node(self, name: str) -> None:
        self.daemon_pods.touch(name)
        self.changed.add(name)

    async def sync_node(self, name: str) -> None:
        """Enqueue the DaemonSets for which this node needs something.

        A taint that only keeps new pods away enqueues nothing where a pod runs; the status follows with the next event,
        as upstream.
        """
        node = self.nodes.get(name)
        for owner in self.owners.list():
            meta = owner.metadata
            node_pods = self.daemon_pods.of(daemon_key(meta))
            if node is None:
                enqueue = node_pods.counts_on(name) or node_pods.has_pod_on(name)
            else:
                placement = self.blueprints.of(owner).placements.on(node)
                if node_pods.has_pod_on(name):
                    enqueue = not placement.should_continue or owner.status.number_misscheduled > 0
                else:
                    # Upstream counts a node that is no longer eligible until the next event.
                    enqueue = placement.should_run or node_pods.counts_on(name)
            if enqueue:
                self.queue.add(object_key(meta))
