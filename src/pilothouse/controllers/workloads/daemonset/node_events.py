"""What a change of a node enqueues: the DaemonSets that care, and nothing for the rest.

The handler keeps the table of nodes and puts the name on a queue of its own; two workers then ask every DaemonSet about
this one node. Upstream did that work inside the handler, for all DaemonSets with all their pods, and fell hours behind
at 5,000 nodes (kubernetes#121474); v1.36 ``updateNode``, ``syncNodeUpdate`` do as it is done here.
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
    """Under which the board of a DaemonSet is kept, and its pods are indexed."""
    return controller_index_key(meta.namespace, "DaemonSet", meta.name, meta.uid)


class NodeEvents(msgspec.Struct, frozen=True, kw_only=True):
    owners: Cache[DaemonSet]
    nodes: NodeTable
    daemon_pods: DaemonPods
    blueprints: Blueprints
    changed: WorkQueue[str]
    queue: WorkQueue[str]

    def node_added(self, node: Node, _initial: bool) -> None:
        if self.nodes.put(node):
            self._moved(node.metadata.name)

    def node_changed(self, _old: Node, new: Node) -> None:
        """Only labels and taints decide about pods; a heartbeat ends here."""
        if self.nodes.put(new):
            self._moved(new.metadata.name)

    def node_gone(self, node: Node, _final_state_unknown: bool) -> None:
        """It no longer counts, and pods that were only pinned to it will never start. Upstream has no such handler."""
        name = node.metadata.name
        self.nodes.drop(name)
        self.blueprints.forget_node(name)
        self._moved(name)

    def _moved(self, name: str) -> None:
        self.daemon_pods.touch(name)
        self.changed.add(name)

    async def sync_node(self, name: str) -> None:
        """Enqueue the DaemonSets for which this node has come to need something.

        A taint that only keeps new pods away enqueues nothing where a pod runs already; the status follows with the
        next event, as upstream.
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
                    # Upstream leaves one that was counted and is no longer wanted in the numbers until the next event.
                    enqueue = placement.should_run or node_pods.counts_on(name)
            if enqueue:
                self.queue.add(object_key(meta))
