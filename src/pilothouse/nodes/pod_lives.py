"""The pods on simulated nodes: each is taken from stage to stage, one status write per stage, until it is gone.

One informer on bound pods feeds one queue for all nodes. ``pod_stages`` decides, ``pod_status`` says what is written;
here it is sent, and what has to be remembered is. Nothing is done for a version of a pod that is older than our own
last write to it. A write that fails is tried again with backoff, whatever the reason, as long as the pod is there.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.api.core import PODS, Container, ObjectReference, Pod
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.nodes import pod_status
from pilothouse.nodes.addresses import PodAddresses, node_address
from pilothouse.nodes.pod_stages import Memory, Remove, Rest, Stage, Step, Wait, Write, decide, note, stage_of
from pilothouse.nodes.profile import Profile
from pilothouse.runtime import (
    ExponentialFailureLimiter,
    InformerFactory,
    Requeue,
    RetryLater,
    WorkerPool,
    WorkQueue,
    object_reference,
)

Tell = Callable[[str, ObjectReference, str, str], None]
"""Send an event: node, about what, reason, message."""

_WORKERS = 16
_RETRY_SECONDS = (0.05, 10.0)
"""First and longest pause after a failed write; a kubelet's own is its look at all pods every ten seconds."""


class PodLives:
    """The pods of the nodes ``index`` (name to number)."""

    def __init__(
        self,
        env: Env,
        index: Mapping[str, int],
        *,
        informers: InformerFactory,
        clients: Mapping[str, Client],
        profile: Profile,
        tell: Tell,
        log: Log,
    ) -> None:
        self._env = env
        self._index = index
        self._clients = clients
        self._profile = profile
        self._tell = tell
        self._log = log
        self._memories: dict[str, Memory] = {}
        self._addresses = PodAddresses()
        self._pods = informers.informer(PODS, field_selector="spec.nodeName!=")
        self._queue: WorkQueue[str] = WorkQueue(env, "node pods", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS))
        self._pool = WorkerPool("node pods", self._queue, self._reconcile, workers=_WORKERS, log=log)
        self._pods.add_handler(
            on_add=lambda pod, _initial: self._see(None, pod),
            on_update=self._see,
            on_delete=lambda pod, _unknown: self._lose(pod),
        )

    async def run(self) -> None:
        """Serve pods until cancelled."""
        # All addresses in use have to be known before the first one is given away.
        await self._pods.wait_synced()
        await self._pool.run()

    # What the watch tells

    def _see(self, old: Pod | None, pod: Pod) -> None:
        meta = pod.metadata
        if old is not None and old.metadata.uid != meta.uid:
            self._addresses.release(old.status.pod_ip, old.metadata.uid)
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.hold(pod.status.pod_ip, meta.uid)
        if pod.spec.node_name in self._index:
            self._queue.add(f"{meta.namespace}/{meta.name}")

    def _lose(self, pod: Pod) -> None:
        self._addresses.release(pod.status.pod_ip, pod.metadata.uid)
        if pod.spec.node_name in self._index:
            self._queue.add(f"{pod.metadata.namespace}/{pod.metadata.name}")

    # One pod

    async def _reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.cache.get(key)
        memory = self._memories.get(key)
        if memory is not None and (pod is None or pod.metadata.uid != memory.uid):
            self._forget(key, memory)
            memory = None
        if pod is None:
            return None
        now = self._env.monotonic()
        if memory is None:
            address = pod.status.pod_ip
            memory = Memory(uid=pod.metadata.uid, stage=stage_of(pod), since=now, address=address)
            self._memories[key] = memory
        elif is_newer(memory.version, pod.metadata.resource_version):
            return None  # the watch will bring what we wrote
        try:
            return await self._advance(pod, memory)
        except NotFound:
            self._forget(key, memory)
        except Conflict as error:
            # Another pod has the name by now, or somebody wrote at the same time. The watch will tell which.
            raise RetryLater(str(error)) from error
        return None

    async def _advance(self, pod: Pod, memory: Memory) -> Requeue | None:
        if pod.metadata.deletion_timestamp is not None and memory.stopping_since is None:
            self._tell_stopping(pod, memory)
        while True:
            now = self._env.monotonic()
            note(pod, memory, now)
            step: Step = decide(pod, memory, now, self._profile)
            match step:
                case Rest():
                    return None
                case Wait(seconds):
                    return Requeue(after=seconds)
                case Write():
                    pod = await self._write(pod, memory, step)
                case Remove():
                    await self._remove(pod)
                    memory.finished = True

    async def _write(self, pod: Pod, memory: Memory, step: Write) -> Pod:
        patch = self._status(pod, memory, step)
        written = await self._clients[pod.spec.node_name].patch(
            PODS, pod.metadata.name, strategic_merge_patch(patch), pod.metadata.namespace, subresource="status"
        )
        if memory.stage < Stage.RUNNING <= step.stage < Stage.STOPPED:
            self._tell_started(pod)
        memory.stage = step.stage
        memory.since = self._env.monotonic()
        memory.version = written.metadata.resource_version
        return written

    def _status(self, pod: Pod, memory: Memory, step: Write) -> dict[str, Any]:
        now, host = self._env.now(), node_address(self._index[pod.spec.node_name])
        match step.stage:
            case Stage.RUNNING | Stage.READY:
                if not memory.address:
                    memory.address = host if pod.spec.host_network else self._addresses.take(pod.metadata.uid)
                return pod_status.running(pod, now, host, memory.address, ready=step.stage is Stage.READY)
            case Stage.STOPPED:
                return pod_status.stopped(pod, now, host, ran=memory.stage >= Stage.RUNNING, killed=step.killed)
            case _:
                return pod_status.accepted(pod, now, host)

    async def _remove(self, pod: Pod) -> None:
        """The final delete, of this pod and no other of its name."""
        await self._clients[pod.spec.node_name].delete(
            PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_period_seconds=0
        )

    def _forget(self, key: str, memory: Memory) -> None:
        del self._memories[key]
        self._addresses.release(memory.address, memory.uid)

    # Events

    def _tell_started(self, pod: Pod) -> None:
        for path, container in _containers(pod):
            about = object_reference(PODS, pod.metadata, field_path=path)
            pulled = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
            self._tell(pod.spec.node_name, about, "Pulled", pulled)
            self._tell(pod.spec.node_name, about, "Created", "Container created")
            self._tell(pod.spec.node_name, about, "Started", "Container started")

    def _tell_stopping(self, pod: Pod, memory: Memory) -> None:
        if not Stage.RUNNING <= memory.stage < Stage.STOPPED:
            return
        for path, container in _containers(pod, running=True):
            about = object_reference(PODS, pod.metadata, field_path=path)
            self._tell(pod.spec.node_name, about, "Killing", f"Stopping container {container.name}")


def _containers(pod: Pod, *, running: bool = False) -> list[tuple[str, Container]]:
    """Containers in the order in which they start, with their path in the pod; only those that run on, if so asked."""
    before = [c for c in pod.spec.init_containers if not running or c.restart_policy == "Always"]
    return [(f"spec.initContainers{{{c.name}}}", c) for c in before] + [
        (f"spec.containers{{{c.name}}}", c) for c in pod.spec.containers
    ]
