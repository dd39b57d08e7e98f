"""Simulated nodes as such: they register, renew their Leases, report their status.

One queue for all nodes; a node is due when its Lease or its status is, or when somebody changed what it had written.
Liveness is the Lease; the status is written at registration, when it differs, and every ``status_period``. Facts:
kubelet v1.36 ``pkg/kubelet/kubelet_node_status.go``, component-helpers ``apimachinery/lease/controller.go``.

A node that is down (``outages``) sends nothing. What is wrong with it can be commanded by annotations on its Node
(``commands``). With ``reports`` off somebody else writes the status, and only Leases are kept here.

As with a kubelet, a Node that is deleted stays deleted until somebody creates it again, or the simulator starts anew:
then the node takes it for its own, writes its whole status and gets a new Lease.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES, Node, NodeCondition, ObjectReference, Taint
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.machinery.splice import replace_fields
from pilothouse.nodes import node_object
from pilothouse.nodes.commands import Commands, commands_of
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.pressure import Pressures
from pilothouse.nodes.profile import Profile
from pilothouse.nodes.telling import Tell
from pilothouse.runtime import ExponentialFailureLimiter, InformerFactory, Requeue, WorkerPool, WorkQueue

_WORKERS = 32
_RETRY_SECONDS = (0.2, 7.0)
"""Back-off of registration and of Leases, first and longest."""
_LEASE_TRIES = 5
_TAINT_TRIES = 5
_START_TAINT = ("node.kubernetes.io/not-ready", "NoSchedule")
_OUT_OF_SERVICE = Taint(key="node.kubernetes.io/out-of-service", value="nodeshutdown", effect="NoExecute")


class _Heart:
    """What is known of one node. Times are loop times."""

    __slots__ = (
        "boots",
        "commands",
        "conditions",
        "deleted",
        "doomed",
        "lease",
        "lease_due",
        "name",
        "new",
        "registered",
        "status_due",
        "tainted",
        "uid",
        "version",
        "whole",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.registered = False
        self.uid = ""  # "" while there is no Node
        self.deleted = (
            ""  # the uid of the one that was there last: the watch may still tell of it, or a finalizer hold it
        )
        self.doomed = False  # we have asked for its deletion
        self.version = ""
        self.conditions: tuple[NodeCondition, ...] = ()
        self.lease: msgspec.Raw | None = None
        self.lease_due = 0.0
        self.status_due = 0.0
        self.new = False  # the Node has to be taken on: its start taint, its whole status
        self.whole = False  # the next status report has to be complete
        self.commands: Commands | None = None
        self.boots = 0
        self.tainted = False  # with our out-of-service taint

    def adopt(self, node: Node) -> None:
        """There is a Node, maybe a new one."""
        if node.metadata.uid != self.uid:
            self.uid, self.deleted, self.doomed = node.metadata.uid, "", False
            self.lease = None
            self.lease_due = self.status_due = 0.0
            self.new = self.whole = True
        self.remember(node)

    def lose(self) -> None:
        """There is no Node any more."""
        self.uid, self.deleted = "", self.uid

    def remember(self, node: Node) -> None:
        """This is the newest version of the Node that was seen."""
        self.version = node.metadata.resource_version
        self.conditions = node.status.conditions


class Heartbeats:
    """The nodes ``index`` (name to number) on one API server, each writing through its own client."""

    def __init__(
        self,
        env: Env,
        index: Mapping[str, int],
        *,
        informers: InformerFactory,
        clients: Mapping[str, Client],
        profile: Profile,
        outages: Outages,
        pressures: Pressures,
        tell: Tell,
        log: Log,
        reports: bool = True,
    ) -> None:
        self._env = env
        self._index = index
        self._clients = clients
        self._profile = profile
        self._outages = outages
        self._pressures = pressures
        self._reports = reports
        self._tell = tell
        self._log = log
        self._random = env.stream("nodes")
        self._hearts = {name: _Heart(name) for name in index}
        self._arrived: set[str] = set()
        self._queue: WorkQueue[str] = WorkQueue(env, "nodes", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS))
        self._pool = WorkerPool("node heartbeats", self._queue, self._reconcile, workers=_WORKERS, log=log)
        self._nodes = informers.informer(NODES)
        self._nodes.add_handler(
            on_add=lambda node, _initial: self._see(None, node),
            on_update=self._see,
            on_delete=lambda node, _unknown: self._lose(node),
        )
        outages.on_change.append(self._outage_changed)
        pressures.on_change.append(self._conditions_changed)
        self.ready = asyncio.Event()
        """Set once every node has registered and reported Ready."""

    async def run(self) -> None:
        """Register and heartbeat until cancelled."""
        if not self._index:
            self.ready.set()
        for name in self._index:
            self._queue.add(name)
        await self._pool.run()

    # What others do to the Nodes

    def _see(self, old: Node | None, node: Node) -> None:
        heart = self._hearts.get(node.metadata.name)
        if heart is None or not heart.registered or is_newer(heart.version, node.metadata.resource_version):
            return
        if node.metadata.uid == heart.deleted:
            return
        if node.metadata.uid != heart.uid:
            heart.adopt(node)
            heart.tainted = False
            if self._outages.is_gone(heart.name):
                self._outages.restore(heart.name, containers=False)
            self._obey(heart, node)
            self._queue.add(heart.name)
            return
        heart.remember(node)
        self._obey(heart, node)
        if old is not None and old.spec.unschedulable != node.spec.unschedulable:
            reason = "NodeNotSchedulable" if node.spec.unschedulable else "NodeSchedulable"
            self._tell_status(heart.name, reason)
        if self._reports and node_object.changes(node.status.conditions, self._rows(heart.name)):
            heart.status_due = min(heart.status_due, self._env.monotonic() + self._profile.sync_period)
            self._queue.add(heart.name)

    def _lose(self, node: Node) -> None:
        heart = self._hearts.get(node.metadata.name)
        if heart is not None and heart.uid == node.metadata.uid:
            self._miss(heart)

    def _miss(self, heart: _Heart) -> None:
        """There is no Node any more. One that we have deleted ourselves, and that has been revived before that was
        known, registers again; any other stays deleted."""
        heart.lose()
        if heart.doomed and not self._outages.is_gone(heart.name):
            heart.registered = False
            self._queue.add(heart.name)

    # What is commanded

    def _obey(self, heart: _Heart, node: Node) -> None:
        """Do what the Node's annotations say, if that has changed."""
        commands = commands_of(node.metadata.annotations)
        seen_before = heart.commands is not None
        before, heart.commands = heart.commands or Commands(), commands
        if commands == before:
            return
        for complaint in commands.complaints:
            self._tell(
                heart.name, self._reference(heart.name), "InvalidAnnotation", complaint, warning=True, always=True
            )
        name, outages = heart.name, self._outages
        # What is there when the simulator starts was obeyed by an earlier one.
        rebooted = seen_before and commands.boot not in ("", before.boot)
        if before.faults - commands.faults or rebooted:
            outages.restore(name, containers=not rebooted)
        if commands.out_of_service:
            outages.take_out_of_service(name)
        elif commands.silent:
            outages.silence(name)
        if commands.gone:
            outages.remove(name)
        if commands.slow_seconds or before.slow_seconds:
            outages.slow(name, commands.slow_seconds)
        for resource in before.pressures:
            if resource not in commands.pressures:
                self._pressures.relieve(name, resource)
        for resource, amount in commands.pressures.items():
            if resource not in before.pressures or before.pressures[resource] != amount:
                self._pressures.press(name, resource, amount)

    def _outage_changed(self, name: str) -> None:
        heart = self._hearts[name]
        if not self._outages.is_down(name):
            heart.lease_due = heart.status_due = 0.0
            if not heart.uid:
                heart.registered = False
        self._queue.add(name)

    def _conditions_changed(self, name: str) -> None:
        self._hearts[name].status_due = 0.0
        self._queue.add(name)

    def _rows(self, name: str) -> tuple[node_object.Row, ...]:
        return node_object.rows_under(self._pressures.conditions(name))

    # What the nodes do

    async def _reconcile(self, name: str) -> Requeue | None:
        heart, outages = self._hearts[name], self._outages
        if heart.uid and heart.tainted != outages.is_out_of_service(name):
            await self._change_taint(heart)
        if outages.is_gone(name) and heart.uid:
            await self._delete(heart)
        if outages.is_down(name):
            return None
        if not heart.registered:
            await self._register(heart)
        if not heart.uid:
            return None
        if heart.boots != outages.boots(name):
            self._reboot(heart)
        if self._reports and self._env.monotonic() >= heart.status_due:
            late = outages.lateness(name, "status")
            if late > 0:
                return Requeue(after=late)
            await self._report(heart)
        if heart.uid and self._env.monotonic() >= heart.lease_due:
            late = outages.lateness(name, "lease")
            if late > 0:
                return Requeue(after=late)
            await self._renew(heart)
        if not heart.uid:
            return None
        soonest = min(heart.lease_due, heart.status_due) if self._reports else heart.lease_due
        return Requeue(after=soonest - self._env.monotonic())

    def _reboot(self, heart: _Heart) -> None:
        heart.boots = self._outages.boots(heart.name)
        heart.whole, heart.status_due = True, 0.0
        boot = node_object.machine(heart.name, self._index[heart.name], self._profile, heart.boots)["nodeInfo"][
            "bootID"
        ]
        message = f"Node {heart.name} has been rebooted, boot id: {boot}"
        self._tell(heart.name, self._reference(heart.name), "Rebooted", message, warning=True)

    async def _delete(self, heart: _Heart) -> None:
        """The machine is away: what a cloud provider's controller does then."""
        uid, heart.doomed = heart.uid, True
        try:
            await self._clients[heart.name].delete(NODES, heart.name, uid=uid)
        except (NotFound, Conflict):
            self._log.info("Node was deleted before", v=1, node=heart.name)
        if heart.uid == uid:
            self._miss(heart)

    async def _change_taint(self, heart: _Heart) -> None:
        """What an administrator does to a node that will not come back, and takes back when it has."""
        wanted = self._outages.is_out_of_service(heart.name)
        client = self._clients[heart.name]
        node = await client.get(NODES, heart.name)
        taint = _OUT_OF_SERVICE
        await self._edit_taints(client, node, taint.key, taint.effect, *([taint] if wanted else []))
        heart.tainted = wanted

    async def _edit_taints(self, client: Client, node: Node, key: str, effect: str, *instead: Taint) -> None:
        """Take a taint off, or put another in its place.

        The list goes as a whole, it has no merge key; so only into the version that it was made from.
        """
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

    async def _register(self, heart: _Heart) -> None:
        name = heart.name
        body = node_object.new_node(name, self._index[name], self._profile, self._env.now(), conditions=self._reports)
        created = False
        try:
            node = await self._clients[name].create(NODES, body)
        except AlreadyExists:
            node = await self._clients[name].get(NODES, name)
        else:
            self._tell(name, self._reference(name), "Starting", "Starting kubelet.")
            message = "Updated Node Allocatable limit across pods"
            self._tell(name, self._reference(name), "NodeAllocatableEnforced", message)
            created = True
        heart.adopt(node)
        heart.boots = self._outages.boots(name)
        if created:
            heart.whole = False
        if self._reports:
            await self._write_status(heart)
        else:
            await self._take_off_start_taint(self._clients[name], node)
        heart.registered = True
        self._obey(heart, node)
        if name not in self._arrived:
            self._arrived.add(name)
            if len(self._arrived) == len(self._index):
                self.ready.set()

    async def _report(self, heart: _Heart) -> None:
        uid = heart.uid
        try:
            await self._write_status(heart)
        except NotFound:
            # Deleted, and the watch will say so; unless it has said meanwhile that there is a new one.
            if heart.uid == uid:
                self._miss(heart)
        except (ApiError, OSError) as error:
            # Not a reason to let the Lease wait. A kubelet tries again with its next look at the status.
            self._log.error("Error updating node status, will retry", error=error, node=heart.name)
            heart.status_due = self._env.monotonic() + self._stretched(self._profile.sync_period)

    async def _write_status(self, heart: _Heart) -> None:
        client, name, uid = self._clients[heart.name], heart.name, heart.uid
        rows = self._rows(name)
        changed = node_object.changes(heart.conditions, rows)
        whole = node_object.machine(name, self._index[name], self._profile, heart.boots) if heart.whole else None
        patch = strategic_merge_patch(node_object.status_patch(self._env.now(), heart.conditions, whole, rows))
        node = await client.patch(NODES, name, patch, subresource="status")
        if heart.new:
            await self._take_off_start_taint(client, node)
        for change in changed:
            self._tell_status(name, node_object.STATUS_EVENTS[change])
        if heart.uid == uid == node.metadata.uid:
            heart.new = heart.whole = heart.doomed = False
            if not is_newer(heart.version, node.metadata.resource_version):
                heart.remember(node)
            # While this was on its way the pressure may have changed, or somebody else the conditions.
            period = self._stretched(self._profile.status_period)
            if self._rows(name) != rows:
                period = 0.0
            elif node_object.changes(heart.conditions, rows):
                period = self._profile.sync_period
            heart.status_due = self._env.monotonic() + period

    async def _take_off_start_taint(self, client: Client, node: Node) -> None:
        """Admission puts not-ready:NoSchedule on every new node, and the node lifecycle controller takes it off.

        Where that controller doesn't run nobody would, and no pod could ever be placed.
        """
        if self._profile.clears_start_taint and any((t.key, t.effect) == _START_TAINT for t in node.spec.taints):
            await self._edit_taints(client, node, *_START_TAINT)

    async def _renew(self, heart: _Heart) -> None:
        """PUT the last known Lease with a new renewTime, up to five times at once; look at it again after a conflict.

        Past that the queue's backoff sets the pace, as a kubelet's does.
        """
        uid = heart.uid
        for tries in range(1, _LEASE_TRIES + 1):
            try:
                lease = await self._write_lease(heart.name, uid, heart.lease)
            except (ApiError, OSError) as error:
                if isinstance(error, Conflict | NotFound):
                    heart.lease = None
                if tries == _LEASE_TRIES:
                    raise
                self._log.info("Failed to update lease", v=1, node=heart.name, err=error)
            else:
                if heart.uid == uid:
                    heart.lease = lease
                    heart.lease_due = self._env.monotonic() + self._stretched(self._profile.lease_period)
                return

    async def _write_lease(self, name: str, uid: str, lease: msgspec.Raw | None) -> msgspec.Raw:
        client, namespace = self._clients[name], node_object.LEASE_NAMESPACE
        if lease is None:
            try:
                lease = await client.get(LEASES.raw, name, namespace)
            except NotFound:
                return await client.create(LEASES.raw, node_object.new_lease(name, uid, self._env.now()), namespace)
        spec = msgspec.json.encode(node_object.lease_spec(name, self._env.now()))
        return await client.update(LEASES.raw, name, replace_fields(lease, {"spec": spec}), namespace)

    def _stretched(self, seconds: float) -> float:
        return seconds * (1 + self._random.random() * self._profile.jitter)

    # Events

    def _tell_status(self, name: str, reason: str) -> None:
        self._tell(name, self._reference(name), reason, f"Node {name} status is now: {reason}")

    def _reference(self, name: str) -> ObjectReference:
        # The uid is the name: a kubelet tells of its node before it knows the uid (v1.36 ``pkg/kubelet/kubelet.go``).
        return ObjectReference(kind="Node", name=name, uid=name)
