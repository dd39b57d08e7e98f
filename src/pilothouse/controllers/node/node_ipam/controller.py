"""Occupies the CIDRs that nodes have, and allocates those that they lack.

Before anything is allocated the nodes are listed live, because the cache may be older than the writes of a former
leader. Upstream: v1.36 ``pkg/controller/nodeipam/ipam/range_allocator.go``.
"""

import asyncio

from pilothouse.api.core import NODES, Node, ObjectReference
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.node.node_ipam import DESCRIPTOR, NodeIpamOptions
from pilothouse.controllers.node.node_ipam.cidr_set import CidrSet
from pilothouse.controllers.node.node_ipam.metrics import SetMetrics
from pilothouse.controllers.node.node_ipam.range_allocator import (
    CIDRRangeNoCIDRsRemaining,
    InvalidPodCIDRs,
    NodeAllocation,
    RangeAllocator,
)
from pilothouse.controllers.node.node_ipam.settings import settings_from
from pilothouse.controllers.shared.live_nodes import is_about
from pilothouse.controllers.shared.own_writes import may_have_happened
from pilothouse.env import TaskGroup
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.resource_versions import compare
from pilothouse.runtime import ControllerContext, EventRecorder, ManagedController, Requeue, RetryLater, TerminalError
from pilothouse.runtime.errors import CannotRun
from pilothouse.runtime.events import NORMAL

WORKERS = 30
TRIES = 3
LIST_EVERY_SECONDS = 10.0
LIST_FOR_SECONDS = 600.0
EVENT_SOURCE = "cidrAllocator"
NOT_AVAILABLE = "CIDRNotAvailable"
ASSIGNMENT_FAILED = "CIDRAssignmentFailed"

_NODE_META = NODES.read_as(Object)


def build(context: ControllerContext) -> "NodeIpamController":
    """Raises ``ValueError`` for invalid settings."""
    return NodeIpamController(context)


class NodeIpamController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        settings = settings_from(context.options_as(NodeIpamOptions))
        nodes = context.informer(NODES)
        super().__init__(context, DESCRIPTOR.name, workers=WORKERS, queue_name="cidrallocator_node")
        for warning in settings.warnings:
            self.log.warning(warning)
        sets = [CidrSet(cluster, mask) for cluster, mask in zip(settings.clusters, settings.masks, strict=True)]
        metrics = [SetMetrics(context.metrics, str(blocks.cluster), blocks.size) for blocks in sets]
        self.allocator = RangeAllocator(sets, metrics, settings.services)
        self._client = context.client
        self._informer = nodes
        self._recorder = EventRecorder(context.client, context.env, EVENT_SOURCE)
        self._waiting: dict[str, None] = {}  # nodes that wait for a free block
        # Upstream has this metric for this controller only.
        self._running = context.metrics.gauge(
            "running_managed_controllers", "Indicates where instances of a controller are currently running",
            ("name", "manager"),
        ).labels("nodeipam", "kube-controller-manager")  # fmt: skip
        nodes.add_handler(
            lambda node, _initial: self.queue.add(node.metadata.name), self._update_node, self._release_cidrs
        )

    async def run(self) -> None:
        """Occupy the CIDRs of all nodes, then work until cancelled. Raises ``CannotRun`` if the ranges do not allow
        that."""
        self._running.set(1)
        try:
            async with TaskGroup(self.name) as group:
                group.start(self._recorder.run(), name=f"{self.name}-events")
                await self._informer.wait_synced()
                await self._occupy_existing_cidrs()
                await super().run()
        finally:
            self.queue.shut_down()
            self._running.set(0)

    async def _occupy_existing_cidrs(self) -> None:
        """Occupy the CIDRs of every live node."""
        deadline = self.env.monotonic() + LIST_FOR_SECONDS
        while True:
            try:
                page = await self._client.list_all(NODES)
                break
            except (ApiError, OSError) as error:
                self.log.warning("Failed to list all nodes", error=error)
            if self.env.monotonic() + LIST_EVERY_SECONDS > deadline:
                raise CannotRun("failed to list all nodes in 10m0s, cannot proceed without updating CIDR map")
            await asyncio.sleep(LIST_EVERY_SECONDS)
        for entry in page.items:
            node = entry.object
            if node.spec.pod_cidrs:
                try:
                    self._occupy_cidrs(node)
                except InvalidPodCIDRs as error:
                    # CIDRs of nodes are immutable: going on could allocate blocks that are in use.
                    raise CannotRun(str(error)) from None

    # Events

    def _update_node(self, old: Node, node: Node) -> None:
        if old.metadata.uid != node.metadata.uid:
            self._release_cidrs(old, True)
        elif old.spec.pod_cidrs == node.spec.pod_cidrs and node.spec.pod_cidrs:
            return  # most updates of nodes do not change their CIDRs
        self.queue.add(node.metadata.name)

    def _release_cidrs(self, node: Node, _final_state_unknown: bool) -> None:
        # A write in flight has the uid, so it cannot succeed any more.
        name = node.metadata.name
        self._waiting.pop(name, None)
        if self.allocator.release(name, node.metadata.uid):
            self._enqueue_nodes_without_cidrs()
        self.queue.add(name)

    def _enqueue_nodes_without_cidrs(self) -> None:
        for name in list(self._waiting)[: self.allocator.free]:
            del self._waiting[name]
            self.queue.add(name)

    # One node

    async def reconcile(self, key: str) -> Requeue | None:
        """Occupy the CIDRs that the node has, or allocate the missing ones."""
        node = self._informer.cache.get(key)
        if node is None:
            return None
        meta = node.metadata
        if self.allocator.has_newer(key, meta.uid, meta.resource_version):
            raise RetryLater(f"the cache shows a node {key} that is gone")
        if node.spec.pod_cidrs:
            try:
                self._occupy_cidrs(node)
            except InvalidPodCIDRs as error:
                raise TerminalError(str(error)) from None
            return None
        if meta.deletion_timestamp is not None:
            return None
        try:
            allocation = self._allocate_cidrs(meta)
        except CIDRRangeNoCIDRsRemaining:
            self._waiting[key] = None
            self._record_node_event(meta, NOT_AVAILABLE)
            raise
        if not allocation.is_written:  # otherwise it is written, and the cache will have it
            await self._update_cidrs_allocation(meta, allocation)
        return None

    def _occupy_cidrs(self, node: Node) -> None:
        meta = node.metadata
        conflicting = self.allocator.occupy_cidrs(meta.name, meta.uid, meta.resource_version, node.spec.pod_cidrs)
        if conflicting:
            self.log.error(
                "Nodes have the same pod addresses",
                node=meta.name,
                podCIDRs=list(node.spec.pod_cidrs),
                others=conflicting,
            )

    def _allocate_cidrs(self, meta: ObjectMeta) -> NodeAllocation:
        try:
            return self.allocator.reserve(meta.name, meta.uid, meta.resource_version)
        except CIDRRangeNoCIDRsRemaining:
            if not self.allocator.forget_unless(self._exists):
                raise
        return self.allocator.reserve(meta.name, meta.uid, meta.resource_version)

    def _exists(self, name: str, allocation: NodeAllocation) -> bool:
        """False if the cache is newer than the node's entry and lacks the node: it was listed at the start and deleted
        before the watch started."""
        node = self._informer.cache.get(name)
        if node is not None and node.metadata.uid == allocation.uid:
            return True
        order = compare(self._informer.cache.resource_version, allocation.version)
        return order is None or order < 0

    async def _update_cidrs_allocation(self, meta: ObjectMeta, allocation: NodeAllocation) -> None:
        """Write the CIDRs of the node, with its uid as precondition, which upstream omits: a late request must not
        change a later node with the same name."""
        name = meta.name
        patch = strategic_merge_patch(
            {"metadata": {"uid": meta.uid}, "spec": {"podCIDR": allocation.ranges[0], "podCIDRs": allocation.ranges}}
        )
        record_decision(f"node {name} has no podCIDRs: it gets {', '.join(allocation.ranges)}")
        for attempt in range(1, TRIES + 1):
            try:
                written = await self._client.patch(_NODE_META, name, patch)
            except (ApiError, OSError) as error:
                if isinstance(error, NotFound) and is_about(error, name):
                    if self.allocator.release(name, meta.uid):
                        self._enqueue_nodes_without_cidrs()
                    return
                if may_have_happened(error):
                    self.allocator.mark_in_doubt(name, meta.uid)
                if attempt == TRIES:
                    self.log.warning(
                        "Failed to update node PodCIDR after multiple attempts",
                        error=error, node=name, podCIDRs=list(allocation.ranges),
                    )  # fmt: skip
                    self._record_node_event(meta, ASSIGNMENT_FAILED)
                    # If in doubt the node keeps what may have been written, and the next attempt writes the same.
                    # Upstream releases it unless the server reported a timeout.
                    if self.allocator.release_rejected(name, meta.uid):
                        self._enqueue_nodes_without_cidrs()
                    raise
            else:
                self.allocator.mark_written(name, meta.uid, written.metadata.resource_version)
                self.log.info("Set node PodCIDR", node=name, podCIDRs=list(allocation.ranges))
                return

    def _record_node_event(self, meta: ObjectMeta, reason: str) -> None:
        reference = ObjectReference(api_version=NODES.api_version, kind=NODES.kind, name=meta.name, uid=meta.uid)
        self._recorder.event(reference, NORMAL, reason, f"Node {meta.name} status is now: {reason}")
