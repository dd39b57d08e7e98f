"""The pass over all nodes (``monitorNodeHealth``): which are unresponsive, the state of the zones, which must be
tainted. Keeps the state between passes."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from pilothouse.api.coordination import Lease
from pilothouse.api.core import Node, NodeCondition, ObjectReference, Pod
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR, LEASE_NAMESPACE, NodeLifecycleOptions
from pilothouse.controllers.node.node_lifecycle.calm import UnchangedNodes
from pilothouse.controllers.node.node_lifecycle.health import (
    ClockReading,
    Health,
    conditions_of_unresponsive_node,
    is_unresponsive,
    observe_heartbeat,
)
from pilothouse.controllers.node.node_lifecycle.metrics import Metrics
from pilothouse.controllers.node.node_lifecycle.node_writes import NodeWrites
from pilothouse.controllers.node.node_lifecycle.pod_writes import PodWrites
from pilothouse.controllers.node.node_lifecycle.taint_queue import TaintQueue
from pilothouse.controllers.node.node_lifecycle.taints import NOT_READY, UNREACHABLE, has_taint, no_execute_taints_for
from pilothouse.controllers.node.node_lifecycle.zones import (
    ZoneState,
    compute_zone_state,
    is_not_excluded,
    plan,
    zone_of,
)
from pilothouse.controllers.shared.parallel import each
from pilothouse.controllers.shared.pods_by_node import NODE_INDEX
from pilothouse.env import Env, Log
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.runtime import Cache, EventRecorder
from pilothouse.runtime.events import NORMAL
from pilothouse.semantics.nodes import node_ready_condition

CONCURRENCY = 8
TRIES = 5
PAUSE_SECONDS = 0.02
NODES_PER_TURN = 256

_node = msgspec.json.Decoder(Node)


class NodeMonitor:
    """The memory of nodes and zones. ``taint`` is called with a zone whose queue must be processed."""

    def __init__(
        self,
        *,
        env: Env,
        options: NodeLifecycleOptions,
        nodes: Cache[Node],
        pods: Cache[Pod],
        leases: Cache[Lease],
        node_writes: NodeWrites,
        pod_writes: PodWrites,
        recorder: EventRecorder,
        metrics: Metrics,
        taint: Callable[[str], None],
        log: Log,
    ) -> None:
        self._env = env
        self._options = options
        self._nodes, self._pods, self._leases = nodes, pods, leases
        self._node_writes, self._pod_writes = node_writes, pod_writes
        self._recorder = recorder
        self._metrics = metrics
        self._taint = taint
        self._log = log
        self._known: dict[str, str] = {}
        """Uids of the nodes of the last pass, by name."""
        self._health: dict[str, Health] = {}
        self._unmarked: dict[str, None] = {}
        """Nodes whose pods may still have to be marked as not ready."""
        self._states: dict[str, ZoneState] = {}
        self.queues: dict[str, TaintQueue] = {}
        """Nodes to taint NoExecute, by zone."""
        self.has_weighed = False
        """Whether a pass has completed. Before that the eviction rates are unknown."""
        self._ready_if_unchanged: dict[str, int] | None = None
        """The number of ready nodes per zone in the last pass, if all were ready and nothing changed; else None."""
        self._conditions: dict[str, list[NodeCondition | None]] = {}
        """The nodes that this pass has checked, by zone."""
        self._calm = UnchangedNodes(leases, self._health, options.monitor_grace_period)

    def is_down(self, name: str) -> bool:
        health = self._health.get(name)
        return health is not None and health.ready is not None and health.ready.status != "True"

    def delete_node(self, name: str) -> None:
        self._unmarked.pop(name, None)

    def taint_queue_of(self, zone: str) -> TaintQueue:
        """The queue of a zone, new ones at the usual rate."""
        queue = self.queues.get(zone)
        if queue is None:
            queue = self.queues[zone] = TaintQueue(self._options.eviction_rate, self._env.monotonic())
            self._metrics.evictions.labels(zone)
        return queue

    def is_at_rest(self) -> bool:
        """Run a pass, if it has nothing to do."""
        if not len(self._nodes) and not self._known and not self._states and self.has_weighed:
            # There are no nodes, and were none in the last pass.
            self._metrics.pass_duration.observe(0.0)
            return True
        if self._ready_if_unchanged is None:
            return False
        started_at = self._env.perf_counter()
        nodes = self._nodes.list()
        if len(self._known) != len(nodes):
            return False
        changed, ready = self._calm.partition(nodes, self._now())
        if changed or ready != self._ready_if_unchanged:
            return False
        # All other inputs of a pass are as in the last one, which had nothing to do.
        self._count_unchanged(len(nodes), started_at)
        self._metrics.pass_duration.observe(self._env.perf_counter() - started_at)
        return True

    def _count_unchanged(self, calm: int, started_at: float) -> None:
        if calm:
            self._metrics.node_duration.observe((self._env.perf_counter() - started_at) / calm, calm)

    async def monitor_node_health(self) -> None:
        if self.is_at_rest():
            return
        started_at = self._env.perf_counter()
        nodes = self._nodes.list()
        changed, ready = self._calm.partition(nodes, self._now())
        self._count_unchanged(len(nodes) - len(changed), started_at)
        await self._classify_nodes(nodes, changed)
        self._conditions = {}
        checked = 0

        async def monitor(node: Node) -> None:
            nonlocal checked
            checked += 1
            if checked % NODES_PER_TURN == 0:
                await asyncio.sleep(0)
            at = self._env.perf_counter()
            await self._monitor_node(node)
            self._metrics.node_duration.observe(self._env.perf_counter() - at)

        await each(changed, monitor, concurrency=CONCURRENCY)
        await self._handle_disruption(nodes, ready)
        self._metrics.pass_duration.observe(self._env.perf_counter() - started_at)

    # Added and deleted nodes

    async def _classify_nodes(self, nodes: list[Node], changed: list[Node]) -> None:
        """Log the nodes that were added and deleted."""
        new = [node for node in changed if self._known.get(node.metadata.name) != node.metadata.uid]
        for node in new:
            if node.metadata.name in self._known:
                self._remove_node(node.metadata.name)  # it was recreated since the last pass
        if len(self._known) + len(new) != len(nodes):
            present = {node.metadata.name for node in nodes}
            for name in [name for name in self._known if name not in present]:
                self._remove_node(name)
        for node in new:
            name = node.metadata.name
            self._log.info("Controller observed a new Node", v=1, node=name)
            self._known[name] = node.metadata.uid
            message = f"Node {name} event: Registered Node {name} in Controller"
            self._record_node_event(name, node.metadata.uid, "RegisteredNode", message)
            self.taint_queue_of(zone_of(node)).remove(name)
            await self._mark_node_as_reachable(node, "the controller sees the node for the first time")

    def _remove_node(self, name: str) -> None:
        self._log.info("Controller observed a Node deletion", v=1, node=name)
        uid = self._known.pop(name)
        self._record_node_event(name, uid, "RemovingNode", f"Node {name} event: Removing Node {name} from Controller")
        self._health.pop(name, None)
        self._unmarked.pop(name, None)
        self._calm.drop(name)
        # Upstream's queues keep every name that was ever tainted. The node may have been in several zones.
        for queue in self.queues.values():
            queue.remove(name)

    # One node

    async def _monitor_node(self, node: Node) -> None:
        name = node.metadata.name
        first = name not in self._health
        begin_sync(DESCRIPTOR.name, name, current_triggers())
        now, lease = self._now(), self._lease(name)
        self._calm.drop(name)
        health = self._health[name] = observe_heartbeat(self._health.get(name), node, lease, now)
        old = node_ready_condition(node)
        if self._is_unresponsive(health, now) and conditions_of_unresponsive_node(node, now) is not None:
            updated = await self._try_update_node_health(node)
            if updated is None:
                return
            node, old = updated
        ready = node_ready_condition(node)
        zone = zone_of(node) if is_not_excluded(node) else None
        if zone is not None:
            self._conditions.setdefault(zone, []).append(ready)
        if ready is not None:
            await self._process_taint_base_eviction(node, ready)
            if first and ready.status == "Unknown":
                # An earlier manager may have set Unknown without updating the pods. Upstream does not correct them.
                self._unmarked[name] = None
            await self._mark_pods_not_ready(node, old, ready)
            if ready.status == "True" and not has_taint(node, UNREACHABLE) and not has_taint(node, NOT_READY):
                self._calm.add(node, lease, zone)

    async def _try_update_node_health(self, node: Node) -> tuple[Node, NodeCondition | None] | None:
        """Set the conditions to Unknown, if the live node is unresponsive, too. Returns that node and its previous
        Ready, or None if it could not be written or does not exist: this pass skips it."""
        name = node.metadata.name
        for attempt in range(TRIES):
            if attempt:
                await asyncio.sleep(PAUSE_SECONDS)
            try:
                raw = await self._node_writes.get_with_all_fields(name)
                live = _node.decode(raw)
                if live.metadata.uid != node.metadata.uid:
                    return None
                now = self._now()
                health = self._health[name] = observe_heartbeat(self._health.get(name), live, self._lease(name), now)
                old = node_ready_condition(live)
                new = conditions_of_unresponsive_node(live, now) if self._is_unresponsive(health, now) else None
                if new is None:
                    return live, old
                options = self._options
                grace = options.startup_grace_period if health.ready is None else options.monitor_grace_period
                record_decision(
                    f"no heartbeat of node {name} for {now.loop - health.probed:.0f} s, grace period {grace:g} s: its "
                    "conditions become Unknown"
                )
                await self._node_writes.update_conditions(raw, live.status.conditions, new)
            except NotFound:
                return None
            except (ApiError, OSError) as error:
                self._log.error("Error updating node", error=error, node=name)
                self._unmarked[name] = None  # it may have been written all the same
                continue
            live = msgspec.structs.replace(live, status=msgspec.structs.replace(live.status, conditions=new))
            self._health[name] = msgspec.structs.replace(health, ready=node_ready_condition(live))
            return live, old
        self._log.error("Update health of Node from Controller error, Skipping - no pods will be evicted", node=name)
        return None

    async def _process_taint_base_eviction(self, node: Node, ready: NodeCondition) -> None:
        name, zone = node.metadata.name, zone_of(node)
        queue = self.taint_queue_of(zone)
        swap = no_execute_taints_for(ready.status)
        if swap is None:
            queue.remove(name)
            await self._mark_node_as_reachable(node, f"Ready is {ready.status}")
            return
        taint, opposite = swap
        if has_taint(node, opposite):
            # Its pods are being evicted already; only the reason differs.
            record_decision(f"Ready of node {name} is {ready.status}: taint {taint.key} instead of {opposite.key}")
            swap_now = self._node_writes.swap_node_controller_taint(
                node, [taint], [opposite], while_ready_is=ready.status
            )
            await self._request(name, swap_now)
        elif not has_taint(node, taint) and queue.add(name, self._env.monotonic(), force=True):
            self._log.info("Node is not ready or not heard of. Adding it to the Taint queue", v=2, node=name)
            self._taint(zone)

    async def _mark_pods_not_ready(self, node: Node, old: NodeCondition | None, ready: NodeCondition) -> None:
        name = node.metadata.name
        became_not_ready = old is not None and old.status == "True" and ready.status != "True"
        if became_not_ready:
            self._record_node_event(name, node.metadata.uid, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        if became_not_ready or (name in self._unmarked and ready.status != "True"):
            self._unmarked[name] = None
            # When it became not ready it was read live.
            if not became_not_ready and await self._is_ready_live(name):
                return
            record_decision(f"node {name} is not ready (Ready is {ready.status}): the pods on it become not ready")
            if not await self._pod_writes.mark_pods_not_ready(self._pods.by_index(NODE_INDEX, name)):
                return
        self._unmarked.pop(name, None)

    async def _is_ready_live(self, name: str) -> bool:
        """Whether the live node is ready, and the cache old; also True if the read fails."""
        try:
            return await self._node_writes.is_ready(name)
        except NotFound:
            return False
        except (ApiError, OSError) as error:
            self._log.error("Error while getting node", error=error, node=name)
            return True

    async def _mark_node_as_reachable(self, node: Node, reason: str) -> None:
        """Remove both NoExecute taints. Failures are retried in the next pass."""
        for taint in (UNREACHABLE, NOT_READY):
            if has_taint(node, taint):
                record_decision(f"taint {taint.key}:NoExecute of node {node.metadata.name} is removed: {reason}")
                await self._request(node.metadata.name, self._node_writes.remove_taints(node, [taint]))

    async def _request(self, name: str, request: Awaitable[object]) -> None:
        try:
            await request
        except NotFound:
            return
        except (ApiError, OSError) as error:
            self._log.error("Unable to change the taints of a node", error=error, node=name)

    # Zones

    async def _handle_disruption(self, nodes: list[Node], ready: dict[str, int]) -> None:
        threshold = self._options.unhealthy_zone_threshold
        reports = {
            zone: compute_zone_state(self._conditions.get(zone, ()), threshold, more_ready=ready.get(zone, 0))
            for zone in (*self._conditions, *(zone for zone in ready if zone not in self._conditions))
        }
        decided = plan(self._states, reports, self._options)
        for zone, report in reports.items():
            self._metrics.zone(zone, size=report.size, unhealthy=report.unhealthy)
        for zone in decided.removed_zones:
            self._metrics.zone(zone, size=0, unhealthy=0)
        for zone, state in decided.states.items():
            if self._states.get(zone, ZoneState.INITIAL) is not state:
                self._log.info("Controller detected that zone is now in new state", zone=zone, newState=state.value)
        has_actions = (
            decided.rates
            or decided.removed_zones
            or decided.untaint_all
            or decided.reset_heartbeats
            or not self.has_weighed
        )
        self._ready_if_unchanged = None if has_actions or self._conditions or decided.states != self._states else ready
        self._states = dict(decided.states)
        if decided.untaint_all:
            self._log.info("Controller detected that all Nodes are not-Ready. Entering master disruption mode")
            for node in nodes:
                self.taint_queue_of(zone_of(node)).remove(node.metadata.name)
            reason = "no node of any zone is ready (master disruption mode)"
            await each(nodes, lambda node: self._mark_node_as_reachable(node, reason), concurrency=CONCURRENCY)
        if decided.reset_heartbeats:
            self._log.info("Controller detected that some Nodes are Ready. Exiting master disruption mode")
            at = self._env.perf_counter()
            for name, health in self._health.items():
                self._health[name] = msgspec.structs.replace(health, probed=at)
            self._calm.clear()
        for zone, rate in decided.rates.items():
            self.taint_queue_of(zone).set_rate(rate, self._env.monotonic())
            self._taint(zone)
        if not self.has_weighed:
            self.has_weighed = True
            for zone in self.queues:
                self._taint(zone)

    def _is_unresponsive(self, health: Health, now: ClockReading) -> bool:
        options = self._options
        return is_unresponsive(
            health, now, monitor_grace=options.monitor_grace_period, startup_grace=options.startup_grace_period
        )

    def _lease(self, name: str) -> Lease | None:
        return self._leases.get(f"{LEASE_NAMESPACE}/{name}")

    def _now(self) -> ClockReading:
        return ClockReading(self._env.monotonic(), self._env.now())

    def _record_node_event(self, name: str, uid: str, reason: str, message: str) -> None:
        reference = ObjectReference(api_version="v1", kind="Node", name=name, uid=uid)
        self._recorder.event(reference, NORMAL, reason, message)
