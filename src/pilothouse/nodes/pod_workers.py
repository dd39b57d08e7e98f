"""Runs the pods on simulated nodes, as the pod workers of a kubelet, with one status write per change.

One informer of pods feeds one queue for all nodes; pods of other nodes are ignored. ``pod_steps`` decides,
``containers`` simulates the containers, ``pod_status`` builds the status; this module writes it and keeps the state of
each pod. A version of a pod that is older than the node's last write is ignored. A failed write is retried with
backoff, for any error, as long as the pod exists. A node that is down does nothing; its containers may continue
in the meantime.
"""

import math
from collections.abc import Mapping
from typing import Any

from pilothouse.api.core import Container, Node
from pilothouse.client import Client, strategic_merge_patch
from pilothouse.client.errors import Conflict, NotFound
from pilothouse.env import Env, Log
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.names import object_key
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.machinery.shared_values import SharedValues
from pilothouse.nodes import containers, pod_status
from pilothouse.nodes.addresses import PodAddresses, node_address
from pilothouse.nodes.admission import NodeInfo, PodInfo, admit, new_pod_info
from pilothouse.nodes.behaviour import Behaviour, DeriveBehaviour, behaviour_of
from pilothouse.nodes.containers import (
    RUNNING,
    ContainerEvent,
    RuntimePod,
    advance,
    new_runtime_pod,
    reboot,
    update_behaviour,
)
from pilothouse.nodes.eviction_manager import EvictionManager
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.pod_status import Instant, PodFailure
from pilothouse.nodes.pod_steps import (
    DEADLINE,
    Admit,
    DeletePod,
    Idle,
    PodSyncStatus,
    Wait,
    WriteStatus,
    decide,
    observe,
    recover,
    update_deadline,
)
from pilothouse.nodes.profile import KUBELET, Profile
from pilothouse.nodes.recording import NodeEventRecorder
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

with lazy_imports():
    from pilothouse.nodes import configuration, image_pulls, references

_WORKERS = 16
_RETRY_SECONDS = (0.05, 10.0)
"""First and longest pause after a failed write; a kubelet retries with its next sync, every ten seconds."""


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
        profiles: Mapping[str, Profile],
        outages: Outages,
        eviction_manager: EvictionManager,
        record_event: NodeEventRecorder,
        log: Log,
        storage: bool = False,
        derive_behaviour: DeriveBehaviour = behaviour_of,
    ) -> None:
        self._env = env
        self._index = index
        self._nodes = nodes
        self._clients = clients
        self._profiles = profiles
        self._derive_behaviour = derive_behaviour
        self._outages = outages
        self._eviction_manager = eviction_manager
        self._record_event = record_event
        self._configurator: configuration.Configurator | None = None
        """Created for the first pod that needs a ConfigMap or Secret."""
        self._sync_statuses: dict[str, PodSyncStatus] = {}
        self._on_node: dict[str, dict[str, None]] = {name: {} for name in index}
        self._node_infos: dict[str, NodeInfo] = {}
        self._addresses = PodAddresses()
        self._behaviours: SharedValues[Behaviour] = SharedValues()
        self._pod_infos: SharedValues[PodInfo] = SharedValues()
        self._fingerprints: SharedValues[tuple[Any, ...]] = SharedValues()
        self._pods = informers.informer(NODE_PODS)
        self._queue: WorkQueue[str] = WorkQueue(env, "node pods", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS))
        self._pool = WorkerPool("node pods", self._queue, self._reconcile, workers=_WORKERS, log=log, component=KUBELET)
        self._pods.add_handler(
            on_add=lambda pod, _initial: self._on_update(None, pod),
            on_update=self._on_update,
            on_delete=lambda pod, _unknown: self._on_delete(pod),
        )
        outages.on_change.append(self._node_changed)
        eviction_manager.active_pods, eviction_manager.kill_pod = self.active_pods, self.evict
        self.volume_manager: VolumeManager | None = None
        """Set where pods wait for their volumes."""
        if storage:
            self.volume_manager = VolumeManager(
                env, index, informers=informers, clients=clients, outages=outages, enqueue_pod=self._queue.add, log=log
            )

    async def run(self) -> None:
        """Serve pods until cancelled."""
        # All addresses in use have to be known before the first one is assigned.
        await self._pods.wait_synced()
        if self.volume_manager is not None:
            await self.volume_manager.wait_synced()
        await self._pool.run()

    def active_pods(self, node: str) -> list[tuple[str, NodePod, Behaviour]]:
        """The pods of a node that may be evicted."""
        active = []
        for key in self._on_node[node]:
            pod, sync_status = self._pods.cache.get(key), self._sync_statuses.get(key)
            if (
                pod is None
                or sync_status is None
                or sync_status.failure is not None
                or sync_status.uid != pod.metadata.uid
            ):
                continue
            if sync_status.runtime_pod is not None and sync_status.stopping_since is None and not is_terminal(pod):
                active.append((key, pod, sync_status.behaviour))
        return active

    def evict(self, key: str, failure: PodFailure) -> None:
        """Evict a pod."""
        pod, sync_status = self._pods.cache.get(key), self._sync_statuses[key]
        sync_status.failure = failure
        if pod is not None:
            about = object_reference(NODE_PODS, pod.metadata)
            self._record_event(pod.spec.node_name, about, failure.reason, failure.message, warning=True)
        self._queue.add(key)

    def crash(self, key: str, container: str, code: int) -> bool:
        """End a container of a pod, or all of them. Returns whether any was running."""
        sync_status = self._sync_statuses.get(key)
        if sync_status is None or sync_status.runtime_pod is None:
            return False
        now = self._env.monotonic()
        containers.advance(sync_status.runtime_pod, now)
        crashed = containers.crash(sync_status.runtime_pod, now, container, code)
        self._queue.add(key)
        return crashed

    # Events of the watch

    def _on_update(self, old: NodePod | None, pod: NodePod) -> None:
        meta, node = pod.metadata, pod.spec.node_name
        if old is not None and old.metadata.uid != meta.uid:
            # Replaced while the watch was lost, maybe on another node.
            self._on_delete(old)
            old = None
        if old is not None and old.status.pod_ip != pod.status.pod_ip != "":
            self._addresses.release(old.status.pod_ip, meta.uid)  # a reboot has assigned another one
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.hold(pod.status.pod_ip, meta.uid)
        if node in self._index:
            key = object_key(meta)
            self._on_node[node][key] = None
            if is_terminal(pod):
                self._node_info(node).drop(key)
                self._unmount(node, key)
            elif (old is None or not old.spec.node_name) and pod.status.start_time is not None:
                self._node_info(node).add(key, self._pod_info(pod))
            self._queue.add(key)

    def _on_delete(self, pod: NodePod) -> None:
        node, key = pod.spec.node_name, object_key(pod.metadata)
        self._addresses.release_all(pod.metadata.uid)
        if node in self._index:
            self._on_node[node].pop(key, None)
            self._node_info(node).drop(key)
            self._unmount(node, key)
            self._outages.forget(node, key)
            self._queue.add(key)

    def _node_changed(self, node: str) -> None:
        if self._outages.is_down(node) and not self._outages.is_gone(node):
            return
        now = self._env.monotonic()
        lost = self._outages.take_lost(node)
        for key in self._on_node[node]:
            sync_status = self._sync_statuses.get(key)
            if sync_status is not None and sync_status.runtime_pod is not None and lost:
                advance(sync_status.runtime_pod, now)
                reboot(sync_status.runtime_pod, now)
                sync_status.address = ""
            self._queue.add(key)

    # One pod

    async def _reconcile(self, key: str) -> Requeue | None:
        pod = self._pods.cache.get(key)
        sync_status = self._sync_statuses.get(key)
        if sync_status is not None and (pod is None or pod.metadata.uid != sync_status.uid):
            self._forget(key, sync_status)
            sync_status = None
        if pod is None or pod.spec.node_name not in self._index:
            return None
        if self._outages.is_down(pod.spec.node_name):
            return None
        if sync_status is None:
            sync_status = self._sync_statuses[key] = self._new_sync_status(pod)
        elif is_newer(sync_status.version, pod.metadata.resource_version):
            return None  # the watch will deliver the written version
        elif self._is_changed(pod, sync_status):
            self._update_behaviour(pod, sync_status)
        try:
            return await self._advance(key, pod, sync_status)
        except NotFound:
            self._forget(key, sync_status)
        except Conflict as error:
            # A new pod of this name, or a concurrent write: the watch will show which.
            raise RetryLater(str(error)) from error
        return None

    def _new_sync_status(self, pod: NodePod) -> PodSyncStatus:
        now = self._now()
        profile = self._profiles[pod.spec.node_name]
        behaviour = self._behaviour_of(pod, profile)
        sync_status = PodSyncStatus(
            uid=pod.metadata.uid,
            behaviour=behaviour,
            annotations=pod.metadata.annotations,
            seen_at=now.loop,
            runtime_pod=recover(pod, behaviour, profile, now),
            address=pod.status.pod_ip,
        )
        recovered = sync_status.runtime_pod
        begun = recovered is not None and (recovered.sandbox or recovered.ran)
        if _may_need_configuration(pod):
            sync_status.configuration = references.configuration_of(pod, mounted=begun)
        if sync_status.runtime_pod is not None:
            update_deadline(pod, sync_status, now)
            sync_status.written = self._fingerprint(sync_status.runtime_pod, None)
            if self._lacks_volumes(pod, sync_status) and not sync_status.runtime_pod.ran:
                sync_status.runtime_pod.starts_at = math.inf
        self._record_invalid_annotations(pod, sync_status)
        return sync_status

    def _is_changed(self, pod: NodePod, sync_status: PodSyncStatus) -> bool:
        """Whether the behaviour may have changed: by annotations, ephemeral containers or images."""
        if (
            sync_status.annotations is not pod.metadata.annotations
            and sync_status.annotations != pod.metadata.annotations
        ):
            return True
        behaviour = sync_status.behaviour
        has_new_ephemeral_containers = len(pod.spec.ephemeral_containers) != len(behaviour.ephemeral)
        return has_new_ephemeral_containers or behaviour.waits_for_images

    def _update_behaviour(self, pod: NodePod, sync_status: PodSyncStatus) -> None:
        sync_status.annotations = pod.metadata.annotations
        behaviour = self._behaviour_of(pod, self._profiles[pod.spec.node_name])
        if behaviour != sync_status.behaviour:
            sync_status.behaviour = behaviour
            if sync_status.runtime_pod is not None:
                now = self._env.monotonic()
                advance(sync_status.runtime_pod, now)
                update_behaviour(sync_status.runtime_pod, behaviour, now)
            self._record_invalid_annotations(pod, sync_status)

    def _record_invalid_annotations(self, pod: NodePod, sync_status: PodSyncStatus) -> None:
        for message in sync_status.behaviour.invalid_annotations:
            about = object_reference(NODE_PODS, pod.metadata)
            self._record_event(pod.spec.node_name, about, "InvalidAnnotation", message, warning=True, always=True)

    async def _advance(self, key: str, pod: NodePod, sync_status: PodSyncStatus) -> Requeue | None:
        if pod.metadata.deletion_timestamp is not None and sync_status.stopping_since is None:
            self._record_killing(pod, sync_status)
        runtime_pod = sync_status.runtime_pod
        waits = runtime_pod is not None and runtime_pod.starts_at == math.inf and not runtime_pod.stopping
        if waits and pod.metadata.deletion_timestamp is None and not is_terminal(pod):
            assert runtime_pod is not None, "it waits"
            if await self._set_up_volumes(pod, sync_status):
                runtime_pod.starts_at = self._env.monotonic() + sync_status.behaviour.start_delay
        if runtime_pod is not None and pod.spec.active_deadline_seconds != sync_status.active_deadline_seconds:
            update_deadline(pod, sync_status, self._now())
        profile = self._profiles[pod.spec.node_name]
        while True:
            now = self._env.monotonic()
            await self._resolve_environments(pod, sync_status, now)
            observe(pod, sync_status, now)
            failed = sync_status.failure is not None
            step = decide(pod, sync_status, now, profile)
            if sync_status.failure is DEADLINE and not failed:
                about = object_reference(NODE_PODS, pod.metadata)
                self._record_event(pod.spec.node_name, about, DEADLINE.reason, DEADLINE.message)
            match step:
                case Idle():
                    self._record_container_events(pod, sync_status)
                    return None
                case Wait(seconds):
                    self._record_container_events(pod, sync_status)
                    return Requeue(after=seconds)
                case _:
                    late = self._outages.lateness(pod.spec.node_name, key)
                    if late > 0:
                        return Requeue(after=late)
            match step:
                case Admit():
                    pod = await self._admit(key, pod, sync_status)
                case WriteStatus():
                    pod = await self._write(key, pod, sync_status)
                case DeletePod():
                    await self._remove(pod)
                    sync_status.finished = True

    async def _admit(self, key: str, pod: NodePod, sync_status: PodSyncStatus) -> NodePod:
        name, now = pod.spec.node_name, self._now()
        node_info, pod_info = self._node_info(name), self._pod_info(pod)
        node = self._nodes.get(name)
        failure = None
        if node is not None and pod.metadata.deletion_timestamp is None:
            failure = admit(pod, key, pod_info, node_info, node, self._eviction_manager.conditions(name))
        if failure is None:
            node_info.add(key, pod_info)
            sync_status.runtime_pod = new_runtime_pod(
                pod, sync_status.behaviour, self._profiles[name], now.loop + sync_status.behaviour.start_delay
            )
            update_deadline(pod, sync_status, now)
            sync_status.runtime_pod.stopping = pod.metadata.deletion_timestamp is not None
            if not sync_status.runtime_pod.stopping and not await self._set_up_volumes(pod, sync_status):
                sync_status.runtime_pod.starts_at = math.inf
            if sync_status.runtime_pod.starts_at > now.loop and not sync_status.runtime_pod.stopping:
                return await self._write(key, pod, sync_status)
            await self._resolve_environments(pod, sync_status, now.loop)
            observe(pod, sync_status, now.loop)
            advance(sync_status.runtime_pod, now.loop)
            return await self._write(key, pod, sync_status)
        about = object_reference(NODE_PODS, pod.metadata)
        self._record_event(name, about, failure.reason, failure.message, warning=True)
        record_decision(f"{name} rejects the pod, {failure.reason}: {failure.message}")
        return await self._send(pod, sync_status, pod_status.rejected(pod, now, failure))

    def _mount(self, pod: NodePod) -> bool:
        """Whether the pod's volumes are attached; if not, the pod is enqueued when they may be."""
        key = object_key(pod.metadata)
        return self.volume_manager is None or self.volume_manager.mount(key, pod)

    def _lacks_volumes(self, pod: NodePod, sync_status: PodSyncStatus) -> bool:
        attached = self._mount(pod)
        return not attached or (sync_status.configuration is not None and bool(sync_status.configuration.mounts))

    async def _set_up_volumes(self, pod: NodePod, sync_status: PodSyncStatus) -> bool:
        """Whether the pod's volumes are attached, and the objects that they contain exist."""
        needs = sync_status.configuration
        if not self._mount(pod):
            if needs is not None:
                needs.retry_at = math.inf  # the volume manager enqueues the pod
            return False
        return needs is None or await self._configure().set_up_volumes(pod, needs, self._env.monotonic())

    async def _resolve_environments(self, pod: NodePod, sync_status: PodSyncStatus, now: float) -> None:
        needs, runtime_pod = sync_status.configuration, sync_status.runtime_pod
        if needs is not None and runtime_pod is not None and pod.metadata.deletion_timestamp is None:
            await self._configure().resolve_environments(pod, runtime_pod, needs, now)

    def _configure(self) -> "configuration.Configurator":
        if self._configurator is None:
            self._configurator = configuration.Configurator(self._clients, self._record_event)
        return self._configurator

    def _unmount(self, node: str, key: str) -> None:
        if self.volume_manager is not None:
            self.volume_manager.unmount(node, key)

    def _host(self, name: str) -> str:
        """The address of a node: that of its Node, which may be an adopted one."""
        node = self._nodes.get(name)
        addresses = () if node is None else node.status.addresses
        return next(
            (address.address for address in addresses if address.type == "InternalIP"), node_address(self._index[name])
        )

    async def _write(self, key: str, pod: NodePod, sync_status: PodSyncStatus) -> NodePod:
        runtime_pod = sync_status.runtime_pod
        assert runtime_pod is not None, "the node has admitted the pod"
        name = pod.spec.node_name
        host = self._host(name)
        if runtime_pod.sandbox and not sync_status.address:
            sync_status.address = host if pod.spec.host_network else self._addresses.take(pod.metadata.uid)
        address = host if pod.spec.host_network else sync_status.address
        body = pod_status.status(pod, runtime_pod, self._now(), host, address, sync_status.failure)
        written = self._fingerprint(runtime_pod, sync_status.failure)
        record_decision(pod_status.describe(pod, runtime_pod, body["status"]["phase"], sync_status.failure))
        events = runtime_pod.take_events()
        try:
            pod = await self._send(pod, sync_status, body)
        except BaseException:
            runtime_pod.events = events + runtime_pod.take_events()
            raise
        for event in events:
            self._record_container_event(pod, sync_status, event)
        sync_status.written = written
        sync_status.differs_since = None
        if is_terminal(pod):
            self._node_info(name).drop(key)
        return pod

    async def _send(self, pod: NodePod, sync_status: PodSyncStatus, body: dict[str, object]) -> NodePod:
        written = await self._clients[pod.spec.node_name].patch(
            NODE_PODS, pod.metadata.name, strategic_merge_patch(body), pod.metadata.namespace, subresource="status"
        )
        sync_status.version = written.metadata.resource_version
        return written

    async def _remove(self, pod: NodePod) -> None:
        """The final delete, of this pod and no other of its name."""
        phase = pod.status.phase
        record_decision(f"{pod.spec.node_name} removes the pod: it is being deleted, and has ended as {phase}")
        await self._clients[pod.spec.node_name].delete(
            NODE_PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace_period_seconds=0
        )

    def _forget(self, key: str, sync_status: PodSyncStatus) -> None:
        del self._sync_statuses[key]
        self._addresses.release_all(sync_status.uid)

    def _behaviour_of(self, pod: NodePod, profile: Profile) -> Behaviour:
        behaviour = self._derive_behaviour(pod, profile)
        return self._behaviours.share((behaviour.scripts, behaviour.start_delay), behaviour)

    def _pod_info(self, pod: NodePod) -> PodInfo:
        pod_info = new_pod_info(pod)
        return self._pod_infos.share((*pod_info.requests.items(), *pod_info.ports), pod_info)

    def _fingerprint(self, runtime_pod: RuntimePod, failure: PodFailure | None) -> tuple[Any, ...]:
        fingerprint = pod_status.fingerprint(runtime_pod, failure)
        return self._fingerprints.share(fingerprint, fingerprint)

    def _node_info(self, node: str) -> NodeInfo:
        node_info = self._node_infos.get(node)
        if node_info is None:
            node_info = self._node_infos[node] = NodeInfo()
        return node_info

    def _now(self) -> Instant:
        return Instant(self._env.monotonic(), self._env.now())

    # Events

    def _record_container_events(self, pod: NodePod, sync_status: PodSyncStatus) -> None:
        """Those of changes that the status does not show."""
        runtime_pod = sync_status.runtime_pod
        if runtime_pod is not None and runtime_pod.events:
            for event in runtime_pod.take_events():
                self._record_container_event(pod, sync_status, event)

    def _record_container_event(self, pod: NodePod, sync_status: PodSyncStatus, event: ContainerEvent) -> None:
        path, container = _container_at(pod, event.index)
        about = object_reference(NODE_PODS, pod.metadata, field_path=path)
        node, message = pod.spec.node_name, event.message
        if event.reason == "Started":
            pulled = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
            if event.pull_seconds:
                pulled = image_pulls.pulled_message(container.image, event.pull_seconds)
            self._record_event(node, about, "Pulled", pulled)
            self._record_event(node, about, "Created", "Container created")
        elif event.reason == "Pulling":
            message = image_pulls.pulling_message(container.image)
        elif not message:
            meta = pod.metadata
            message = f"Back-off restarting failed container {container.name} in pod "
            message += f"{meta.name}_{meta.namespace}({meta.uid})"
        self._record_event(node, about, event.reason, message, warning=event.warning)

    def _record_killing(self, pod: NodePod, sync_status: PodSyncStatus) -> None:
        runtime_pod = sync_status.runtime_pod
        for index, run in enumerate(runtime_pod.all_containers if runtime_pod is not None else ()):
            if run.state == RUNNING:
                path, container = _container_at(pod, index)
                about = object_reference(NODE_PODS, pod.metadata, field_path=path)
                self._record_event(pod.spec.node_name, about, "Killing", f"Stopping container {container.name}")


def _may_need_configuration(pod: NodePod) -> bool:
    """Whether the pod may need ConfigMaps or Secrets: ``references``, which most clusters never load, finds out."""
    spec = pod.spec
    return bool(spec.volumes) or any(
        container.env or container.env_from for container in (*spec.init_containers, *spec.containers)
    )


def _container_at(pod: NodePod, index: int) -> tuple[str, Container]:
    """The field path and the spec of a container."""
    inits = pod.spec.init_containers
    if index < len(inits):
        return f"spec.initContainers{{{inits[index].name}}}", inits[index]
    index -= len(inits)
    if index < len(pod.spec.containers):
        container = pod.spec.containers[index]
        return f"spec.containers{{{container.name}}}", container
    container = pod.spec.ephemeral_containers[index - len(pod.spec.containers)]
    return f"spec.ephemeralContainers{{{container.name}}}", container
