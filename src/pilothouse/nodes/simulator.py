"""The simulated nodes at work: registration, heartbeats, and the lives of the pods bound to them.

One informer on bound pods feeds one queue for all nodes; each pod moves from stage to stage when its delay is over.
``pod_status`` and ``node_object`` say what is written. Every node writes as itself through ``client_for(name)``, so an
API server can hold it to the rights of ``system:node:NAME``.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import msgspec

from pilothouse.api.coordination import LEASES
from pilothouse.api.core import NODES, PODS, Node, Pod
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.machinery.splice import replace_fields
from pilothouse.nodes import node_object, pod_status
from pilothouse.nodes.profile import Profile
from pilothouse.runtime import InformerFactory, Requeue, WorkerPool, WorkQueue
from pilothouse.semantics.pods import is_terminal

WORKERS = 16
_POD_NETWORK = ipaddress.IPv4Address("10.128.0.0")
_POD_ADDRESSES = 1 << 22
_START_TAINT = ("node.kubernetes.io/not-ready", "NoSchedule")
_RETRY_SECONDS = (0.2, 7.0)
"""Back-off of registration and Lease creation, first and longest (kubelet v1.36
``pkg/kubelet/kubelet_node_status.go``)."""


class Stage(IntEnum):
    """How far a pod has come, by what has been written for it."""

    BOUND = 0
    ACCEPTED = 1
    RUNNING = 2
    READY = 3
    STOPPED = 4


class _Progress:
    """What this process knows of one pod on top of the cache, which may lag its own writes."""

    __slots__ = ("since", "stage", "stopping_since", "uid")

    def __init__(self, uid: str, stage: Stage, since: float) -> None:
        self.uid = uid
        self.stage = stage
        self.since = since
        self.stopping_since: float | None = None


class NodeSimulator:
    """Simulated nodes ``names`` on one API server."""

    def __init__(
        self,
        env: Env,
        *,
        names: Sequence[str],
        informers: InformerFactory,
        client_for: Callable[[str], Client],
        profile: Profile | None = None,
        log: Log | None = None,
    ) -> None:
        self._env = env
        self._profile = profile or Profile()
        self._index: Mapping[str, int] = {name: index for index, name in enumerate(names)}
        self._clients = {name: client_for(name) for name in names}
        self._log = log or Log("nodes")
        self._progress: dict[str, _Progress] = {}
        self._addresses = 0
        self._registered = 0
        self._random = env.stream("nodes")
        self._pods = informers.informer(PODS, field_selector="spec.nodeName!=")
        self._queue: WorkQueue[str] = WorkQueue(env, "nodes")
        self._pool = WorkerPool("nodes", self._queue, self._reconcile, workers=WORKERS, log=self._log)
        self._pods.add_handler(
            on_add=lambda pod, _initial: self._enqueue(pod),
            on_update=lambda _old, pod: self._enqueue(pod),
            on_delete=lambda pod, _unknown: self._enqueue(pod),
        )
        self.ready = asyncio.Event()
        """Set once every node has registered and reported Ready."""

    async def run(self) -> None:
        """Register, heartbeat and serve pods until cancelled."""
        async with TaskGroup("nodes") as group:
            registered = [group.start(self._live(name), name=f"node {name}") for name in self._index]
            await self._pods.wait_synced()
            group.start(self._pool.run(), name="node pods")
            await asyncio.gather(*registered)

    # Nodes

    async def _live(self, name: str) -> None:
        uid, since = await self._register(name)
        self._registered += 1
        if self._registered == len(self._index):
            self.ready.set()
        async with TaskGroup(f"heartbeat of {name}") as group:
            group.start(self._renew_lease(name, uid))
            group.start(self._report_status(name, since))

    async def _register(self, name: str) -> tuple[str, Any]:
        client, pause = self._clients[name], _RETRY_SECONDS[0]
        body = node_object.new_node(name, self._index[name], self._profile)
        while True:
            try:
                node = await self._create_or_get(client, name, body)
                since = _ready_since(node) or self._env.now()
                await self._write_status(client, name, since)
                await self._take_off_start_taint(client, node)
                return node.metadata.uid, since
            except (ApiError, ConnectionError, TimeoutError) as error:
                self._log.error("Unable to register node with API server", error=error, node=name)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_SECONDS[1])

    async def _take_off_start_taint(self, client: Client, node: Node) -> None:
        """Admission puts not-ready:NoSchedule on every new node, and the node lifecycle controller takes it off.

        Where that controller doesn't run nobody would, and no pod could ever be placed.
        """
        if not self._profile.clears_start_taint:
            return
        left = [t for t in node.spec.taints if (t.key, t.effect) != _START_TAINT]
        if len(left) < len(node.spec.taints):
            taints = [msgspec.to_builtins(t) for t in left]
            patch = strategic_merge_patch({"spec": {"taints": taints or None}})
            await client.patch(NODES.raw, node.metadata.name, patch)

    async def _create_or_get(self, client: Client, name: str, body: dict[str, Any]) -> Node:
        try:
            return await client.create(NODES, body)
        except AlreadyExists:
            return await client.get(NODES, name)

    async def _write_status(self, client: Client, name: str, since: Any) -> None:
        patch = strategic_merge_patch(node_object.status_patch(self._env.now(), since))
        await client.patch(NODES, name, patch, subresource="status")

    async def _report_status(self, name: str, since: Any) -> None:
        while True:
            await asyncio.sleep(self._stretched(self._profile.status_period))
            try:
                await self._write_status(self._clients[name], name, since)
            except (ApiError, ConnectionError, TimeoutError) as error:
                self._log.error("Error updating node status, will retry", error=error, node=name)

    async def _renew_lease(self, name: str, node_uid: str) -> None:
        """PUT the last known Lease with a new renewTime; only a conflict makes a kubelet look again."""
        client = self._clients[name]
        raw = await self._ensure_lease(client, name, node_uid)
        while True:
            await asyncio.sleep(self._stretched(self._profile.lease_period))
            spec = msgspec.json.encode(node_object.lease_spec(name, self._env.now()))
            try:
                raw = await client.update(
                    LEASES.raw, name, replace_fields(raw, {"spec": spec}), node_object.LEASE_NAMESPACE
                )
            except (Conflict, NotFound):
                raw = await self._ensure_lease(client, name, node_uid)
            except (ApiError, ConnectionError, TimeoutError) as error:
                self._log.error("Failed to update lease", error=error, node=name)

    async def _ensure_lease(self, client: Client, name: str, node_uid: str) -> msgspec.Raw:
        pause = _RETRY_SECONDS[0]
        while True:
            try:
                try:
                    return await client.get(LEASES.raw, name, node_object.LEASE_NAMESPACE)
                except NotFound:
                    body = node_object.new_lease(name, node_uid, self._env.now())
                    return await client.create(LEASES.raw, body, node_object.LEASE_NAMESPACE)
            except (ApiError, ConnectionError, TimeoutError) as error:
                self._log.error("Failed to ensure lease exists, will retry", error=error, node=name)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _RETRY_SECONDS[1])

    def _stretched(self, seconds: float) -> float:
        return seconds * (1 + self._random.random() * self._profile.jitter)

    # Pods

    def _enqueue(self, pod: Pod) -> None:
        if pod.spec.node_name in self._index:
            self._queue.add(f"{pod.metadata.namespace}/{pod.metadata.name}")

    async def _reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.cache.get(key)
        if pod is None:
            self._progress.pop(key, None)
            return None
        now = self._env.monotonic()
        progress = self._progress.get(key)
        if progress is None or progress.uid != pod.metadata.uid:
            progress = self._progress[key] = _Progress(pod.metadata.uid, _stage_of(pod), now)
        try:
            if pod.metadata.deletion_timestamp is not None:
                return await self._stop(pod, progress)
            if is_terminal(pod):
                return None  # Whoever ended it, an ended pod never runs again.
            return await self._start(pod, progress)
        except NotFound:
            self._progress.pop(key, None)
            return None

    async def _start(self, pod: Pod, progress: _Progress) -> Requeue | None:
        profile = self._profile
        stages = (
            (Stage.ACCEPTED, profile.accept_delay),
            (Stage.RUNNING, profile.start_delay),
            (Stage.READY, profile.ready_delay),
        )
        for stage, delay in stages:
            if progress.stage >= stage:
                continue
            pause = self._until(progress.since + delay)
            if pause > 0:
                return Requeue(after=pause)
            pod = await self._advance(pod, progress, stage)
        return None

    async def _advance(self, pod: Pod, progress: _Progress, stage: Stage) -> Pod:
        now = self._env.now()
        host = node_object.node_address(self._index[pod.spec.node_name])
        if stage is Stage.ACCEPTED:
            patch = pod_status.accepted(pod, now, host)
        else:
            ready = stage is Stage.READY or self._profile.ready_delay == 0
            stage = Stage.READY if ready else Stage.RUNNING
            patch = pod_status.running(pod, now, pod.status.pod_ip or self._new_address(), ready=ready)
        written = await self._patch_status(pod, patch)
        progress.stage = stage
        progress.since = self._env.monotonic()
        return written

    async def _stop(self, pod: Pod, progress: _Progress) -> Requeue | None:
        now = self._env.monotonic()
        if progress.stopping_since is None:
            progress.stopping_since = now
        client = self._clients[pod.spec.node_name]
        if progress.stage is not Stage.STOPPED:
            grace = pod.metadata.deletion_grace_period_seconds or 0
            pause = self._until(progress.stopping_since + min(self._profile.stop_delay, grace))
            if pause > 0:
                return Requeue(after=pause)
            if not is_terminal(pod):
                await self._patch_status(pod, pod_status.stopped(pod, self._env.now()))
            progress.stage = Stage.STOPPED
            progress.since = self._env.monotonic()
        pause = self._until(progress.since + self._profile.remove_delay)
        if pause > 0:
            return Requeue(after=pause)
        try:
            await client.delete(
                PODS,
                pod.metadata.name,
                pod.metadata.namespace,
                uid=pod.metadata.uid,
                grace_period_seconds=0,
            )
        except Conflict:
            # Another pod has the name by now: this one is gone.
            self._log.info("Pod was replaced before its final delete", v=2, pod=_key(pod.metadata))
        return None

    def _until(self, due: float) -> float:
        """Seconds until an instant of loop time, which must be the same one each time it is asked for.

        "Delay minus time waited" will not do: it may leave a rest too small to move the clock (47.1 + 7e-15 is 47.1),
        and a virtual clock would then stand still for ever.
        """
        return due - self._env.monotonic()

    async def _patch_status(self, pod: Pod, patch: dict[str, Any]) -> Pod:
        return await self._clients[pod.spec.node_name].patch(
            PODS, pod.metadata.name, strategic_merge_patch(patch), pod.metadata.namespace, subresource="status"
        )

    def _new_address(self) -> str:
        self._addresses = self._addresses % _POD_ADDRESSES + 1
        return str(_POD_NETWORK + self._addresses)


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"


def _stage_of(pod: Pod) -> Stage:
    """Where a pod stands that was there before this process was."""
    if is_terminal(pod):
        return Stage.STOPPED
    if pod.status.phase == "Running":
        ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
        return Stage.READY if ready else Stage.RUNNING
    return Stage.ACCEPTED if pod.status.start_time is not None else Stage.BOUND


def _ready_since(node: Node) -> Any:
    for condition in node.status.conditions:
        if condition.type == "Ready" and condition.status == "True":
            return condition.last_transition_time
    return None
