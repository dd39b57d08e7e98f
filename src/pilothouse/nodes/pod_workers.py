"""Runs the pods on simulated nodes, as the pod workers of a kubelet, with one status write per change.

One informer on pods feeds one queue for all nodes; pods that are not bound to one of them are ignored. ``pod_steps``
decides, ``containers`` simulates the containers, ``pod_status`` builds the status; this module writes it and keeps the
state of each pod. A version of a pod that is older than our last write to it is ignored. A write that fails is retried
with backoff, whatever the reason, as long as the pod exists. A node that is down does nothing; its containers may
continue meanwhile.
"""

import math
from collections.abc import Mapping

from pilothouse.api.core import Container, Node
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.nodes import pod_status
from pilothouse.nodes.addresses import PodAddresses, node_address
from pilothouse.nodes.admission import Loads, load_of, refuse
from pilothouse.nodes.behaviour import behaviour_of
from pilothouse.nodes.containers import RUNNING, ContainerEvent, advance, lose, rescript
from pilothouse.nodes.eviction_manager import EvictionManager
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.pod_status import Moment, Verdict
from pilothouse.nodes.pod_steps import (
    Memory,
    Remove,
    Rest,
    Take,
    Wait,
    Write,
    begin,
    deadline_of,
    decide,
    note,
    recover,
)
from pilothouse.nodes.profile import Profile
from pilothouse.nodes.recording import RecordEvent
from pilothouse.nodes.views import NODE_PODS, NodePod
from pilothouse.nodes.volume_manager import VolumeManager
from pilothouse.runtime import (
    ExponentialFailureLimiter,
    InformerFactory,
    Requeue,
    RetryLater,
    WorkerPool,
    WorkQueue,
    object_reference,
)
from pilothouse.runtime.cache import Cache
from pilothouse.semantics.pods import is_terminal

_WORKERS = 16
_RETRY_SECONDS = (0.05, 10.0)
"""First and longest pause after a failed write; a kubelet's own is its look at all pods every ten seconds."""


class PodWorkers:
    """The pods of the nodes ``index`` (name to number)."""

    def __init__(
        self,
        env: Env,
        index: Mapping[str, int],
        *,
        informers: InformerFactory,
        nodes: Cache[Node],
        clients: Mapping[str, Client],
        profile: Profile,
        outages: Outages,
        pressures: EvictionManager,
        record_event: RecordEvent,
        log: Log,
        storage: bool = False,
    ) -> None:
        self._env = env
        self._index = index
        self._nodes = nodes
        self._clients = clients
        self._profile = profile
        self._outages = outages
        self._pressures = pressures
        self._record_event = record_event
        self._memories: dict[str, Memory] = {}
        self._on_node: dict[str, dict[str, None]] = {name: {} for name in index}
        self._loads: dict[str, Loads] = {}
        self._addresses = PodAddresses()
        self._pods = informers.informer(NODE_PODS)
        self._queue: WorkQueue[str] = WorkQueue(env, "node pods", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS))
        self._pool = WorkerPool("node pods", self._queue, self._reconcile, workers=_WORKERS, log=log)
        self._pods.add_handler(
            on_add=lambda pod, _initial: self._on_update(None, pod),
            on_update=self._on_update,
            on_delete=lambda pod, _unknown: self._on_delete(pod),
        )
        outages.on_change.append(self._node_changed)
        self.volume_manager: VolumeManager | None = None
        """Set where pods wait for their volumes."""
        if storage:
            self.volume_manager = VolumeManager(
                env, index, informers=informers, clients=clients, outages=outages, ring=self._queue.add, log=log
            )

    async def run(self) -> None:
        """Serve pods until cancelled."""
        # All addresses in use have to be known before the first one is given away.
        await self._pods.wait_synced()
        if self.volume_manager is not None:
            await self.volume_manager.wait_synced()
        await self._pool.run()

    def candidates(self, node: str) -> list[tuple[str, NodePod, Memory]]:
        """The pods of a node that run, and may be evicted."""
        found = []
        for key in self._on_node[node]:
            pod, memory = self._pods.cache.get(key), self._memories.get(key)
            if pod is None or memory is None or memory.verdict is not None or memory.uid != pod.metadata.uid:
                continue
            if memory.course is not None and memory.stopping_since is None and not is_terminal(pod):
                found.append((key, pod, memory))
        return found

    def evict(self, key: str, verdict: Verdict) -> None:
        """End a pod for good."""
        pod, memory = self._pods.cache.get(key), self._memories[key]
        memory.verdict = verdict
        if pod is not None:
            about = object_reference(NODE_PODS, pod.metadata)
            self._record_event(pod.spec.node_name, about, verdict.reason, verdict.message, warning=True)
        self._queue.add(key)

    # What the watch tells

    def _on_update(self, old: NodePod | None, pod: NodePod) -> None:
        meta, node = pod.metadata, pod.spec.node_name
        if old is not None and old.metadata.uid != meta.uid:
            # Replaced while nobody watched, maybe on another node.
            self._on_delete(old)
            old = None
        if old is not None and old.status.pod_ip != pod.status.pod_ip != "":
            self._addresses.release(old.status.pod_ip, meta.uid)  # a boot has given it another
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.hold(pod.status.pod_ip, meta.uid)
        if node in self._index:
            key = f"{meta.namespace}/{meta.name}"
            self._on_node[node][key] = None
            if is_terminal(pod):
                self._loads_of(node).drop(key)
                self._unmount(node, key)
            elif (old is None or not old.spec.node_name) and pod.status.start_time is not None:
                self._loads_of(node).add(key, load_of(pod))
            self._queue.add(key)

    def _on_delete(self, pod: NodePod) -> None:
        node, key = pod.spec.node_name, f"{pod.metadata.namespace}/{pod.metadata.name}"
        self._addresses.release_all(pod.metadata.uid)
        if node in self._index:
            self._on_node[node].pop(key, None)
            self._loads_of(node).drop(key)
            self._unmount(node, key)
            self._outages.forget(node, key)
            self._queue.add(key)

    def _node_changed(self, node: str) -> None:
        if self._outages.is_down(node) and not self._outages.is_gone(node):
            return
        now = self._env.monotonic()
        lost = self._outages.take_lost(node)
        for key in self._on_node[node]:
            memory = self._memories.get(key)
            if memory is not None and memory.course is not None and lost:
                advance(memory.course, now)
                lose(memory.course, now)
                memory.address = ""
            self._queue.add(key)

    # One pod

    async def _reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.cache.get(key)
        memory = self._memories.get(key)
        if memory is not None and (pod is None or pod.metadata.uid != memory.uid):
            self._forget(key, memory)
            memory = None
        if pod is None or pod.spec.node_name not in self._index:
            return None
        if self._outages.is_down(pod.spec.node_name):
            return None
        if memory is None:
            memory = self._memories[key] = self._meet(pod)
        elif is_newer(memory.version, pod.metadata.resource_version):
            return None  # the watch will bring what we wrote
        elif self._is_changed(pod, memory):
            self._adapt(pod, memory)
        try:
            return await self._advance(key, pod, memory)
        except NotFound:
            self._forget(key, memory)
        except Conflict as error:
            # Another pod has the name by now, or another program wrote at the same time. The watch will show which.
            raise RetryLater(str(error)) from error
        return None

    def _meet(self, pod: NodePod) -> Memory:
        now = self._moment()
        behaviour = behaviour_of(pod, self._profile)
        memory = Memory(
            uid=pod.metadata.uid,
            behaviour=behaviour,
            annotations=pod.metadata.annotations,
            seen_at=now.loop,
            course=recover(pod, behaviour, self._profile, now),
            address=pod.status.pod_ip,
        )
        if memory.course is not None:
            memory.deadline_at = deadline_of(pod, now)
            memory.written = pod_status.fingerprint(memory.course, None)
            if not self._mount(pod) and not memory.course.ran:
                memory.course.begins_at = math.inf
        self._record_invalid_annotations(pod, memory)
        return memory

    def _is_changed(self, pod: NodePod, memory: Memory) -> bool:
        """Whether the pod may behave otherwise than it did: it is annotated otherwise, somebody debugs it, or an image
        that could not be had may be another one."""
        if memory.annotations is not pod.metadata.annotations and memory.annotations != pod.metadata.annotations:
            return True
        behaviour = memory.behaviour
        debugged = len(pod.spec.ephemeral_containers) != len(behaviour.ephemeral)
        return debugged or behaviour.waits_for_images

    def _adapt(self, pod: NodePod, memory: Memory) -> None:
        memory.annotations = pod.metadata.annotations
        behaviour = behaviour_of(pod, self._profile)
        if behaviour != memory.behaviour:
            memory.behaviour = behaviour
            if memory.course is not None:
                now = self._env.monotonic()
                advance(memory.course, now)
                rescript(memory.course, behaviour, now)
            self._record_invalid_annotations(pod, memory)

    def _record_invalid_annotations(self, pod: NodePod, memory: Memory) -> None:
        for complaint in memory.behaviour.invalid_annotations:
            about = object_reference(NODE_PODS, pod.metadata)
            self._record_event(pod.spec.node_name, about, "InvalidAnnotation", complaint, warning=True, always=True)

    async def _advance(self, key: str, pod: NodePod, memory: Memory) -> Requeue | None:
        if pod.metadata.deletion_timestamp is not None and memory.stopping_since is None:
            self._record_killing(pod, memory)
        course = memory.course
        waits = course is not None and course.begins_at == math.inf and not course.stopping
        if waits and pod.metadata.deletion_timestamp is None and not is_terminal(pod) and self._mount(pod):
            assert course is not None, "it waits"
            course.begins_at = self._env.monotonic() + memory.behaviour.start_delay
        while True:
            now = self._env.monotonic()
            note(pod, memory, now)
            match decide(pod, memory, now, self._profile):
                case Rest():
                    return None
                case Wait(seconds):
                    return Requeue(after=seconds)
                case step:
                    late = self._outages.lateness(pod.spec.node_name, key)
                    if late > 0:
                        return Requeue(after=late)
            match step:
                case Take():
                    pod = await self._take(key, pod, memory)
                case Write():
                    pod = await self._write(key, pod, memory)
                case Remove():
                    await self._remove(pod)
                    memory.finished = True

    async def _take(self, key: str, pod: NodePod, memory: Memory) -> NodePod:
        name, now = pod.spec.node_name, self._moment()
        loads, load = self._loads_of(name), load_of(pod)
        node = self._nodes.get(name)
        verdict = None
        if node is not None and pod.metadata.deletion_timestamp is None:
            verdict = refuse(pod, key, load, loads, node, self._pressures.conditions(name))
        if verdict is None:
            loads.add(key, load)
            memory.course = begin(pod, memory.behaviour, self._profile, now.loop + memory.behaviour.start_delay)
            memory.deadline_at = deadline_of(pod, now)
            memory.course.stopping = pod.metadata.deletion_timestamp is not None
            if not memory.course.stopping and not self._mount(pod):
                memory.course.begins_at = math.inf
            if memory.course.begins_at > now.loop and not memory.course.stopping:
                return await self._write(key, pod, memory)
            note(pod, memory, now.loop)
            advance(memory.course, now.loop)
            return await self._write(key, pod, memory)
        about = object_reference(NODE_PODS, pod.metadata)
        self._record_event(name, about, verdict.reason, verdict.message, warning=True)
        return await self._send(pod, memory, pod_status.rejected(pod, now, verdict))

    def _mount(self, pod: NodePod) -> bool:
        """Whether the pod's volumes are there; if not its turn comes when they may be."""
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        return self.volume_manager is None or self.volume_manager.mount(key, pod)

    def _unmount(self, node: str, key: str) -> None:
        if self.volume_manager is not None:
            self.volume_manager.unmount(node, key)

    async def _write(self, key: str, pod: NodePod, memory: Memory) -> NodePod:
        course = memory.course
        assert course is not None, "only the pods that the node has taken have a status"
        name = pod.spec.node_name
        host = node_address(self._index[name])
        if course.sandbox and not memory.address:
            memory.address = host if pod.spec.host_network else self._addresses.take(pod.metadata.uid)
        address = host if pod.spec.host_network else memory.address
        body = pod_status.status(pod, course, self._moment(), host, address, memory.verdict)
        written = pod_status.fingerprint(course, memory.verdict)
        happened, course.happened = course.happened, []
        try:
            pod = await self._send(pod, memory, body)
        except BaseException:
            course.happened = happened + course.happened
            raise
        for event in happened:
            self._record_container_event(pod, memory, event)
        memory.written = written
        memory.differs_since = None
        if is_terminal(pod):
            self._loads_of(name).drop(key)
        return pod

    async def _send(self, pod: NodePod, memory: Memory, body: dict[str, object]) -> NodePod:
        written = await self._clients[pod.spec.node_name].patch(
            NODE_PODS, pod.metadata.name, strategic_merge_patch(body), pod.metadata.namespace, subresource="status"
        )
        memory.version = written.metadata.resource_version
        return written

    async def _remove(self, pod: NodePod) -> None:
        """The final delete, of this pod and no other of its name."""
        await self._clients[pod.spec.node_name].delete(
            NODE_PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_period_seconds=0
        )

    def _forget(self, key: str, memory: Memory) -> None:
        del self._memories[key]
        self._addresses.release_all(memory.uid)

    def _loads_of(self, node: str) -> Loads:
        loads = self._loads.get(node)
        if loads is None:
            loads = self._loads[node] = Loads()
        return loads

    def _moment(self) -> Moment:
        return Moment(self._env.monotonic(), self._env.now())

    # Events

    def _record_container_event(self, pod: NodePod, memory: Memory, event: ContainerEvent) -> None:
        path, container = _place(pod, event.place)
        about = object_reference(NODE_PODS, pod.metadata, field_path=path)
        node, message = pod.spec.node_name, event.message
        if event.reason == "Started":
            pulled = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
            self._record_event(node, about, "Pulled", pulled)
            self._record_event(node, about, "Created", "Container created")
        elif not message:
            meta = pod.metadata
            message = f"Back-off restarting failed container {container.name} in pod "
            message += f"{meta.name}_{meta.namespace}({meta.uid})"
        self._record_event(node, about, event.reason, message, warning=event.warning)

    def _record_killing(self, pod: NodePod, memory: Memory) -> None:
        course = memory.course
        for place, run in enumerate(course.all_runs if course is not None else ()):
            if run.state == RUNNING:
                path, container = _place(pod, place)
                about = object_reference(NODE_PODS, pod.metadata, field_path=path)
                self._record_event(pod.spec.node_name, about, "Killing", f"Stopping container {container.name}")


def _place(pod: NodePod, place: int) -> tuple[str, Container]:
    """A container by its place, with its path in the pod."""
    inits = pod.spec.init_containers
    if place < len(inits):
        return f"spec.initContainers{{{inits[place].name}}}", inits[place]
    place -= len(inits)
    if place < len(pod.spec.containers):
        container = pod.spec.containers[place]
        return f"spec.containers{{{container.name}}}", container
    container = pod.spec.ephemeral_containers[place - len(pod.spec.containers)]
    return f"spec.ephemeralContainers{{{container.name}}}", container
