"""Registration, Leases and status reports of simulated nodes.

One queue for all nodes; a node is due when its Lease or its status is, or when another client changed its status.
Liveness is the Lease; the status is written at registration, when it differs, and every ``status_period``. Facts:
kubelet v1.36 ``pkg/kubelet/kubelet_node_status.go``, component-helpers ``apimachinery/lease/controller.go``.

A node that is down (``outages``) sends nothing. Annotations on the Node can cause faults (``commands``). With
``reports`` off another program writes the status, and only Leases are renewed here.

As with a kubelet, a deleted Node is not created again by itself, until somebody creates it or the simulator restarts:
then the simulator writes its whole status and a new Lease.
"""

import asyncio
import datetime
import functools
import math
from collections.abc import Callable, Mapping

import msgspec

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES, Node, NodeCondition, ObjectReference, Taint
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.causes import (
    TIMER,
    Moment,
    Triggers,
    begin_sync,
    current_moment,
    record_decision,
    return_to,
)
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.machinery.splice import replace_spec
from pilothouse.machinery.times import format_micro_time
from pilothouse.nodes import node_object
from pilothouse.nodes.commands import Commands, commands_of
from pilothouse.nodes.eviction_manager import EvictionManager
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.profile import KUBELET, Profile
from pilothouse.nodes.recording import NodeEventRecorder
from pilothouse.runtime import ExponentialFailureLimiter, InformerFactory, Requeue, WorkerPool, WorkQueue

_WORKERS = 32
_RETRY_SECONDS = (0.2, 7.0)
"""Back-off of registration and of Leases, first and longest."""
_LEASE_TRIES = 5
_TURN_SECONDS = 0.25
"""Leases are renewed at multiples of this."""
_TURN = Triggers()
_TURN.add(TIMER)
_TAINT_TRIES = 5
_START_TAINT = ("node.kubernetes.io/not-ready", "NoSchedule")
_OUT_OF_SERVICE = Taint(key="node.kubernetes.io/out-of-service", value="nodeshutdown", effect="NoExecute")


class _NodeState(msgspec.Struct):
    """The state of one node. Times are loop times."""

    name: str
    profile: Profile
    registered: bool = False
    uid: str = ""  # "" while there is no Node
    deleted: str = ""  # the uid of the previous Node, which the watch may still have, or a finalizer may keep
    deletion_sent: bool = False
    version: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    lease: msgspec.Raw | None = None
    renew: Callable[[str], bytes | None] | None = None  # renews ``lease`` without a request
    moment: Moment | None = None  # of these renewals
    renewed_at: datetime.datetime | None = None  # the last of them
    lease_spec: bytes = b""  # as last sent: the final part of ``lease``, unless another client has changed it
    lease_due: float = 0.0
    turn: float = -1.0
    """The turn in which the Lease will be renewed; none if it is negative."""
    status_due: float = 0.0
    new: bool = False  # the Node was not processed yet: its start taint must be removed, its whole status written
    whole: bool = False  # the next status report must be complete
    commands: Commands | None = None
    boots: int = 0
    tainted: bool = False  # with our out-of-service taint

    def observe(self, node: Node) -> None:
        """Take over a Node, maybe a new one."""
        if node.metadata.uid != self.uid:
            self.uid, self.deleted, self.deletion_sent = node.metadata.uid, "", False
            self.lease = None
            self.lease_due = self.status_due = 0.0
            self.new = self.whole = True
        self.remember(node)

    def remember(self, node: Node) -> None:
        """Keep the newest version of the Node."""
        self.version = node.metadata.resource_version
        self.conditions = node.status.conditions


class Heartbeats:
    """The nodes ``index`` (name to number) on one API server. Each writes through its own client; taints and the
    deletion of a Node go through that of an administrator."""

    def __init__(
        self,
        env: Env,
        index: Mapping[str, int],
        *,
        informers: InformerFactory,
        clients: Mapping[str, Client],
        administrators: Mapping[str, Client],
        profiles: Mapping[str, Profile],
        outages: Outages,
        eviction_manager: EvictionManager,
        record_event: NodeEventRecorder,
        log: Log,
        reports: bool = True,
    ) -> None:
        self._env = env
        self._index = index
        self._clients = clients
        self._administrators = administrators
        self._outages = outages
        self._eviction_manager = eviction_manager
        self._reports = reports
        self._record_event = record_event
        self._log = log
        self._random = env.stream("nodes")
        self._states = {name: _NodeState(name, profiles[name]) for name in index}
        self._arrived: set[str] = set()
        self._turns: dict[float, tuple[asyncio.TimerHandle, list[str]]] = {}
        """The nodes whose Leases are due, by loop time."""
        self._queue: WorkQueue[str] = WorkQueue(env, "nodes", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS))
        self._pool = WorkerPool(
            "node heartbeats", self._queue, self._reconcile, workers=_WORKERS, log=log, component=KUBELET
        )
        self._nodes = informers.informer(NODES)
        self._nodes.add_handler(
            on_add=lambda node, _initial: self._on_update(None, node),
            on_update=self._on_update,
            on_delete=lambda node, _unknown: self._on_delete(node),
        )
        outages.on_change.append(self._outage_changed)
        eviction_manager.on_change.append(self._conditions_changed)
        self.ready = asyncio.Event()
        """Set once every node has registered and reported Ready, unless an annotation has silenced it before."""

    async def adopt_silent_nodes(self) -> None:
        """Take over the existing Nodes that annotations have silenced, for an earlier process: they send nothing, not
        even at the start. Call it before ``run``, and before their pods are served."""
        await self._nodes.wait_synced()
        for name, node_state in self._states.items():
            node = self._nodes.cache.get(name)
            if node is None or node_state.registered:
                continue
            commands = commands_of(node.metadata.annotations)
            if commands.silent or commands.out_of_service:
                self._adopt(node_state, node)
                self._arrive(name)

    async def run(self) -> None:
        """Register and heartbeat until cancelled."""
        if not self._index:
            self.ready.set()
        for name in self._index:
            self._queue.add(name)
        try:
            await self._pool.run()
        finally:
            for timer, _names in self._turns.values():
                timer.cancel()
            self._turns.clear()

    # Events of the watch

    def _on_update(self, old: Node | None, node: Node) -> None:
        node_state = self._states.get(node.metadata.name)
        if (
            node_state is None
            or not node_state.registered
            or is_newer(node_state.version, node.metadata.resource_version)
        ):
            return
        if node.metadata.uid == node_state.deleted:
            return
        if node.metadata.uid != node_state.uid:
            node_state.observe(node)
            node_state.tainted = False
            if self._outages.is_gone(node_state.name):
                self._outages.restore(node_state.name, containers=False)
            self._apply_commands(node_state, node)
            self._queue.add(node_state.name)
            return
        node_state.remember(node)
        self._apply_commands(node_state, node)
        if old is not None and old.spec.unschedulable != node.spec.unschedulable:
            reason = "NodeNotSchedulable" if node.spec.unschedulable else "NodeSchedulable"
            self._record_node_event(node_state.name, reason)
        if self._reports and node_object.changes(node.status.conditions, self._rows(node_state.name)):
            node_state.status_due = min(node_state.status_due, self._env.monotonic() + node_state.profile.sync_period)
            self._queue.add(node_state.name)

    def _on_delete(self, node: Node) -> None:
        node_state = self._states.get(node.metadata.name)
        if node_state is not None and node_state.uid == node.metadata.uid:
            self._on_node_gone(node_state)

    def _on_node_gone(self, node_state: _NodeState) -> None:
        """The Node was deleted. If the simulator deleted it, and has revived the node since, it registers again;
        otherwise it stays deleted."""
        node_state.uid, node_state.deleted = "", node_state.uid
        if node_state.deletion_sent and not self._outages.is_gone(node_state.name):
            node_state.registered = False
            self._queue.add(node_state.name)

    # Annotations and faults

    def _apply_commands(self, node_state: _NodeState, node: Node) -> None:
        """Apply the Node's annotations, if they have changed."""
        name, outages = node_state.name, self._outages
        commands = commands_of(node.metadata.annotations)
        had_commands = node_state.commands is not None
        old, node_state.commands = node_state.commands or Commands(), commands
        if commands == old:
            return
        for complaint in commands.invalid_annotations:
            self._record_event(name, self._reference(name), "InvalidAnnotation", complaint, warning=True, always=True)
        # An annotation that is there when the simulator starts was applied by an earlier process.
        rebooted = had_commands and commands.boot not in ("", old.boot)
        if old.faults - commands.faults or rebooted:
            outages.restore(name, containers=not rebooted)
        if commands.out_of_service:
            outages.take_out_of_service(name)
        elif commands.silent:
            outages.silence(name)
        if commands.gone:
            outages.remove(name)
        if commands.slow_seconds or old.slow_seconds:
            outages.slow(name, commands.slow_seconds)
        for resource in old.pressures:
            if resource not in commands.pressures:
                self._eviction_manager.relieve(name, resource)
        for resource, amount in commands.pressures.items():
            if resource not in old.pressures or old.pressures[resource] != amount:
                self._eviction_manager.press(name, resource, amount)

    def _outage_changed(self, name: str) -> None:
        node_state = self._states[name]
        if not self._outages.is_down(name):
            node_state.lease_due = node_state.status_due = 0.0
            if not node_state.uid:
                node_state.registered = False
        self._queue.add(name)

    def _conditions_changed(self, name: str) -> None:
        self._states[name].status_due = 0.0
        self._queue.add(name)

    def _rows(self, name: str) -> tuple[node_object.Row, ...]:
        return node_object.rows_under(self._eviction_manager.conditions(name))

    # Writes

    async def _reconcile(self, name: str) -> Requeue | None:
        node_state, outages = self._states[name], self._outages
        if node_state.uid and node_state.tainted != outages.is_out_of_service(name):
            await self._change_taint(node_state)
        if outages.is_gone(name) and node_state.uid:
            await self._delete(node_state)
        if outages.is_down(name):
            return None
        if not node_state.registered:
            await self._register(node_state)
        if not node_state.uid:
            return None
        if node_state.boots != outages.boots(name):
            self._reboot(node_state)
        if self._reports and self._env.monotonic() >= node_state.status_due:
            late = outages.lateness(name, "status")
            if late > 0:
                return Requeue(after=late)
            await self._report(node_state)
        if node_state.uid and self._env.monotonic() >= node_state.lease_due:
            late = outages.lateness(name, "lease")
            if late > 0:
                return Requeue(after=late)
            await self._renew(node_state)
        if not node_state.uid:
            return None
        self._set_turn(node_state)
        return Requeue(after=node_state.status_due - self._env.monotonic()) if self._reports else None

    def _reboot(self, node_state: _NodeState) -> None:
        node_state.boots = self._outages.boots(node_state.name)
        node_state.whole, node_state.status_due = True, 0.0
        name = node_state.name
        machine = node_object.machine(name, self._index[name], node_state.profile, node_state.boots)
        message = f"Node {name} has been rebooted, boot id: {machine['nodeInfo']['bootID']}"
        self._record_event(name, self._reference(name), "Rebooted", message, warning=True)

    async def _delete(self, node_state: _NodeState) -> None:
        """Delete the Node of a deleted machine, as a cloud provider's controller does."""
        uid, node_state.deletion_sent = node_state.uid, True
        record_decision(f"the machine of {node_state.name} is gone: its Node is deleted")
        try:
            await self._administrators[node_state.name].delete(NODES, node_state.name, uid=uid)
        except (NotFound, Conflict):
            self._log.info("Node was deleted before", v=1, node=node_state.name)
        if node_state.uid == uid:
            self._on_node_gone(node_state)

    async def _change_taint(self, node_state: _NodeState) -> None:
        """Set or remove the out-of-service taint, as an administrator does."""
        wanted, uid = self._outages.is_out_of_service(node_state.name), node_state.uid
        node = await self._administrators[node_state.name].get(NODES, node_state.name)
        taint = _OUT_OF_SERVICE
        record_decision(f"{node_state.name} is {'' if wanted else 'no longer '}out of service: taint {taint.key}")
        await self._edit_taints(node, taint.key, taint.effect, *([taint] if wanted else []))
        if node_state.uid == uid:  # else there is another Node by now, without that taint
            node_state.tainted = wanted

    async def _edit_taints(self, node: Node, key: str, effect: str, *instead: Taint) -> None:
        """Remove a taint, or replace it. The list has no merge key, so the patch has the resourceVersion that it is
        based on."""
        client = self._administrators[node.metadata.name]
        for tries in range(1, _TAINT_TRIES + 1):
            taints = [t for t in node.spec.taints if (t.key, t.effect) != (key, effect)] + list(instead)
            if len(taints) == len(node.spec.taints):
                return
            spec = {"taints": [msgspec.to_builtins(t) for t in taints] or None}
            meta = {"resourceVersion": node.metadata.resource_version}
            patch = strategic_merge_patch({"metadata": meta, "spec": spec})
            try:
                await client.patch(NODES.raw, node.metadata.name, patch)
            except Conflict:
                if tries == _TAINT_TRIES:
                    raise
                node = await client.get(NODES, node.metadata.name)
            else:
                return

    async def _register(self, node_state: _NodeState) -> None:
        name = node_state.name
        body = node_object.new_node(
            name, self._index[name], node_state.profile, self._env.now(), conditions=self._reports
        )
        created = False
        record_decision(f"kubelet of {name} starts: its Node is registered")
        try:
            node = await self._clients[name].create(NODES, body)
        except AlreadyExists:
            node = await self._clients[name].get(NODES, name)
        else:
            self._record_event(name, self._reference(name), "Starting", "Starting kubelet.")
            message = "Updated Node Allocatable limit across pods"
            self._record_event(name, self._reference(name), "NodeAllocatableEnforced", message)
            created = True
        node_state.observe(node)
        node_state.boots = self._outages.boots(name)
        if created or node_state.profile.adopts:
            node_state.whole = False
        if self._reports:
            await self._write_status(node_state)
        else:
            await self._take_off_start_taint(node_state, node)
        node_state.registered = True
        self._apply_commands(node_state, node)
        self._arrive(name)

    def _adopt(self, node_state: _NodeState, node: Node) -> None:
        """As ``_register``, without a request."""
        node_state.observe(node)
        node_state.boots = self._outages.boots(node_state.name)
        if node_state.profile.adopts:
            node_state.whole = False
        node_state.registered = True
        self._apply_commands(node_state, node)

    def _arrive(self, name: str) -> None:
        if name not in self._arrived:
            self._arrived.add(name)
            if len(self._arrived) == len(self._index):
                self.ready.set()

    async def _report(self, node_state: _NodeState) -> None:
        uid = node_state.uid
        try:
            await self._write_status(node_state)
        except NotFound:
            # Deleted, as the watch will report; unless it has already reported a new one.
            if node_state.uid == uid:
                self._on_node_gone(node_state)
        except (ApiError, OSError) as error:
            # This must not delay the Lease. A kubelet retries with its next status sync.
            self._log.error("Error updating node status, will retry", error=error, node=node_state.name)
            node_state.status_due = self._env.monotonic() + self._stretched(
                node_state.profile, node_state.profile.sync_period
            )

    async def _write_status(self, node_state: _NodeState) -> None:
        client, name, uid = self._clients[node_state.name], node_state.name, node_state.uid
        rows = self._rows(name)
        changed = node_object.changes(node_state.conditions, rows)
        whole = (
            node_object.machine(name, self._index[name], node_state.profile, node_state.boots)
            if node_state.whole
            else None
        )
        patch = strategic_merge_patch(node_object.status_patch(self._env.now(), node_state.conditions, whole, rows))
        differs = ", ".join(f"{kind} becomes {status}" for kind, status in changed)
        period = node_state.profile.status_period
        record_decision(f"status of {name}: {differs or f'no condition changes, reported every {period:g} s'}")
        node = await client.patch(NODES, name, patch, subresource="status")
        if node_state.new:
            await self._take_off_start_taint(node_state, node)
        for change in changed:
            self._record_node_event(name, node_object.STATUS_EVENTS[change])
        if node_state.uid == uid == node.metadata.uid:
            node_state.new = node_state.whole = node_state.deletion_sent = False
            if not is_newer(node_state.version, node.metadata.resource_version):
                node_state.remember(node)
            # In the meantime the pressure may have changed, or another client may have changed the conditions.
            period = self._stretched(node_state.profile, node_state.profile.status_period)
            if self._rows(name) != rows:
                period = 0.0
            elif node_object.changes(node_state.conditions, rows):
                period = node_state.profile.sync_period
            node_state.status_due = self._env.monotonic() + period

    async def _take_off_start_taint(self, node_state: _NodeState, node: Node) -> None:
        """Remove the taint not-ready:NoSchedule that admission sets, where no node lifecycle controller does."""
        if node_state.profile.clears_start_taint and any((t.key, t.effect) == _START_TAINT for t in node.spec.taints):
            record_decision(f"{node.metadata.name} is ready: its taint {_START_TAINT[0]} is removed")
            await self._edit_taints(node, *_START_TAINT)

    async def _renew(self, node_state: _NodeState) -> None:
        """PUT the last known Lease with a new renewTime, up to five times immediately; read it again after a conflict.

        Past that the queue's backoff sets the pace, as a kubelet's does.
        """
        uid = node_state.uid
        record_decision(_lease_decision(node_state.profile.lease_period))
        for tries in range(1, _LEASE_TRIES + 1):
            try:
                lease = await self._write_lease(node_state, uid)
            except (ApiError, OSError) as error:
                if isinstance(error, Conflict | NotFound):
                    node_state.lease = None
                if tries == _LEASE_TRIES:
                    raise
                self._log.info("Failed to update lease", v=1, node=node_state.name, err=error)
            else:
                if node_state.uid == uid:
                    node_state.lease, node_state.renew = lease, None
                    self._plan_renewal(node_state)
                return

    async def _write_lease(self, node_state: _NodeState, uid: str) -> msgspec.Raw:
        name, lease = node_state.name, node_state.lease
        client, namespace = self._clients[name], node_object.LEASE_NAMESPACE
        if lease is None:
            try:
                lease = await client.get(LEASES.raw, name, namespace)
            except NotFound:
                return await client.create(LEASES.raw, node_object.new_lease(name, uid, self._env.now()), namespace)
        spec = msgspec.json.encode(node_object.lease_spec(name, self._env.now()))
        old_spec = node_state.lease_spec
        if not old_spec and node_state.renewed_at is not None:
            old_spec = msgspec.json.encode(node_object.lease_spec(name, node_state.renewed_at))
        body = replace_spec(bytes(lease), old_spec, spec)
        node_state.lease_spec = spec
        return await client.update(LEASES.raw, name, body, namespace)

    def _set_turn(self, node_state: _NodeState) -> None:
        due = node_state.lease_due
        if due == node_state.turn:
            return
        node_state.turn = due
        waiting = self._turns.get(due)
        if waiting is None:
            timer = asyncio.get_running_loop().call_at(due, self._take_turn, due)
            self._env.mark_renewal(timer, functools.partial(self._turn_only_renews, due))
            self._turns[due] = timer, [node_state.name]
        else:
            waiting[1].append(node_state.name)

    def _take_turn(self, due: float) -> None:
        """Renew the Leases that are due: without waking a task, if that is possible for all of them, because their
        order must be kept."""
        names = [name for name in self._turns.pop(due)[1] if self._states[name].turn == due]
        states = [self._states[name] for name in names]
        for node_state in states:
            node_state.turn = -1.0
        renewed = 0
        if self._env.is_alone() and all(map(self._only_renews, states)):
            for node_state in states:
                if not self._renew_nowait(node_state):
                    break
                renewed += 1
            self._env.mark_what_follows()
        for name in names[renewed:]:
            self._queue.add_due(name)

    def _turn_only_renews(self, due: float) -> bool:
        states = (self._states[name] for name in self._turns[due][1])
        return all(node_state.turn == due and self._only_renews(node_state) for node_state in states)

    def _only_renews(self, node_state: _NodeState) -> bool:
        """Whether ``_reconcile`` would do nothing but renew the Lease that was written last."""
        name, outages = node_state.name, self._outages
        return (
            node_state.lease is not None
            and node_state.uid != ""
            and node_state.registered
            and node_state.tainted == outages.is_out_of_service(name)
            and not outages.is_down(name)
            and node_state.boots == outages.boots(name)
            and not outages.is_slow(name)
            and not (self._reports and self._env.monotonic() >= node_state.status_due)
            and not self._queue.is_taken(name)
        )

    def _renew_nowait(self, node_state: _NodeState) -> bool:
        name = node_state.name
        if node_state.renew is None:
            node_state.renew = self._clients[name].renewal(LEASES.raw, name, node_object.LEASE_NAMESPACE)
            if node_state.renew is None:
                return False
        if node_state.moment is None:
            begin_sync(KUBELET, name, _TURN)
            record_decision(_lease_decision(node_state.profile.lease_period))
            node_state.moment = current_moment()
        else:
            return_to(node_state.moment)
        now = self._env.now()
        lease = node_state.renew(format_micro_time(now))
        if lease is None:
            node_state.renew = None
            return False
        node_state.lease, node_state.lease_spec, node_state.renewed_at = msgspec.Raw(lease), b"", now
        self._plan_renewal(node_state)
        self._set_turn(node_state)
        return True

    def _plan_renewal(self, node_state: _NodeState) -> None:
        profile = node_state.profile
        node_state.lease_due = self._turn_after(self._stretched(profile, profile.lease_period))

    def _turn_after(self, seconds: float) -> float:
        """The first turn at least this many seconds from now: Leases that are due at about the same time are renewed
        together, and wake the loop and the readers of their watch once."""
        return math.ceil((self._env.monotonic() + seconds) / _TURN_SECONDS) * _TURN_SECONDS

    def _stretched(self, profile: Profile, seconds: float) -> float:
        return seconds * (1 + self._random.random() * profile.jitter)

    # Events

    def _record_node_event(self, name: str, reason: str) -> None:
        self._record_event(name, self._reference(name), reason, f"Node {name} status is now: {reason}")

    def _reference(self, name: str) -> ObjectReference:
        # A kubelet uses the name as uid, because it has it before the Node exists (v1.36 ``pkg/kubelet/kubelet.go``).
        return ObjectReference(kind="Node", name=name, uid=name)


@functools.lru_cache(maxsize=64)
def _lease_decision(period: float) -> str:
    return f"the Lease is renewed every {period:g} s"
