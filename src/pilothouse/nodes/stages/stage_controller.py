"""Applies stages: after each change of an object on a simulated node its stage is matched, delayed, and applied.

As KWOK's controllers (``pkg/kwok/controllers/pod_controller.go``): a change before the delay has passed starts over; a
stage uses the object as it was when it matched; completed steps are not repeated after a failure. One informer and one
queue for all objects. KWOK omits a patch that would change nothing; here it is sent, and the API server writes nothing.
"""

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

import pilothouse
from pilothouse.api.core import NODES, PODS, Node, Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client import Client, Patch, json_patch
from pilothouse.client.errors import ApiError, NotFound
from pilothouse.env import Env, Log
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.resource_versions import is_newer
from pilothouse.machinery.times import format_micro_time
from pilothouse.nodes.addresses import PodAddresses, node_address
from pilothouse.nodes.node_object import KUBELET_PORT
from pilothouse.nodes.outages import Outages
from pilothouse.nodes.profile import KUBELET
from pilothouse.nodes.recording import NodeEventRecorder
from pilothouse.nodes.stages.lifecycle import choose, draw_delay, finalizer_operations, patch_body
from pilothouse.nodes.stages.stage import ApplyPatch, ChangeFinalizers, Delete, SendEvent, Stage, StageError
from pilothouse.runtime import (
    ExponentialFailureLimiter,
    InformerFactory,
    Requeue,
    WorkerPool,
    WorkQueue,
    object_reference,
)

KWOK_NODE_CONDITIONS = [
    {"type": kind, "status": status, "reason": reason, "message": message}
    for kind, status, reason, message in (
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"),
    )
]
"""The result of ``NodeConditions`` (KWOK ``pkg/utils/gotpl/funcs.go``)."""

_WORKERS = 16
_RETRY_SECONDS = (1.0, 32 * 60.0)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class _Job(msgspec.Struct):
    """The chosen stage for a version of an object, and its completed steps. ``due`` is a loop time.

    Versions older than ``floor``, the controller's own last write, are ignored.
    """

    version: str
    uid: str
    stage: Stage | None
    document: dict[str, Any]
    due: float = math.inf
    step: int = 0
    written: bytes | None = None
    floor: str = ""


class StageController:
    """The objects of one kind (``PODS`` bound to the nodes ``index``, or those ``NODES`` themselves)."""

    def __init__(
        self,
        env: Env,
        index: Mapping[str, int],
        kind: Kind[Pod] | Kind[Node],
        stages: Sequence[Stage],
        *,
        informers: InformerFactory,
        clients: Mapping[str, Client],
        outages: Outages,
        record_event: NodeEventRecorder,
        log: Log,
    ) -> None:
        self._env = env
        self._index = index
        self._kind = kind
        self._stages = [stage for stage in stages if stage.kind == kind.kind]
        self._clients = clients
        self._outages = outages
        self._record_event = record_event
        self._log = log
        self._random = env.stream(f"{kind.resource} stages")
        self._jobs: dict[str, _Job] = {}
        self._addresses = PodAddresses()
        self._own: dict[str, str] = {}  # uid to address
        self._started = env.now()
        self._queue: WorkQueue[str] = WorkQueue(
            env, f"{kind.resource} stages", limiter=ExponentialFailureLimiter(*_RETRY_SECONDS)
        )
        self._pool = WorkerPool(
            f"{kind.resource} stages", self._queue, self._reconcile, workers=_WORKERS, log=log, component=KUBELET
        )
        if kind is PODS:
            pods = informers.informer(PODS, field_selector="spec.nodeName!=", keep_raw=True)
            pods.add_handler(
                on_add=lambda pod, _initial: self._on_pod(None, pod),
                on_update=self._on_pod,
                on_delete=lambda pod, _unknown: self._on_delete(pod),
            )
            self._informer: Any = pods
        else:
            nodes = informers.informer(NODES, keep_raw=True)
            nodes.add_handler(
                on_add=lambda node, _initial: self._on_update(node.metadata, node.metadata.name),
                on_update=lambda _old, node: self._on_update(node.metadata, node.metadata.name),
                on_delete=lambda node, _unknown: self._on_delete(node),
            )
            self._informer = nodes
        outages.on_change.append(self._node_changed)

    async def run(self) -> None:
        """Play until cancelled."""
        await self._informer.wait_synced()
        await self._pool.run()

    # Events of the watch

    def _on_pod(self, old: Pod | None, pod: Pod) -> None:
        if old is not None and old.metadata.uid != pod.metadata.uid:
            self._on_delete(old)  # replaced while the watch was lost
        if pod.status.pod_ip and not pod.spec.host_network:
            self._addresses.hold(pod.status.pod_ip, pod.metadata.uid)
        self._on_update(pod.metadata, pod.spec.node_name)

    def _on_update(self, meta: ObjectMeta, node: str) -> None:
        if node in self._index:
            self._queue.add(_key(meta))

    def _on_delete(self, obj: Pod | Node) -> None:
        uid = obj.metadata.uid
        if isinstance(obj, Pod):
            self._own.pop(uid, None)
            self._addresses.release_all(uid)
        self._outages.forget(self._node_of(obj), _key(obj.metadata))
        self._queue.add(_key(obj.metadata))

    def _node_changed(self, node: str) -> None:
        if not self._outages.is_down(node):
            for obj in self._informer.cache.list():
                if self._node_of(obj) == node:
                    self._queue.add(_key(obj.metadata))

    def _node_of(self, obj: Pod | Node) -> str:
        return obj.spec.node_name if isinstance(obj, Pod) else obj.metadata.name

    # One object

    async def _reconcile(self, key: str) -> Requeue | None:
        obj: Pod | Node | None = self._informer.cache.get(key)
        if obj is None:
            self._jobs.pop(key, None)
            return None
        node = self._node_of(obj)
        if node not in self._index or self._outages.is_down(node):
            return None
        job = self._jobs.get(key)
        meta = obj.metadata
        if job is not None and job.uid == meta.uid and is_newer(job.floor, meta.resource_version):
            return None  # the watch will deliver the written version
        if job is None or job.uid != meta.uid or job.version != meta.resource_version:
            raw = self._informer.cache.raw(key)
            assert raw is not None, "the informer keeps what it read"
            job = self._jobs[key] = self._match(raw, meta.resource_version, meta.uid)
        if job.stage is None:
            return None
        delay = job.due - self._env.monotonic()
        if delay > 0:
            return Requeue(after=delay)
        lateness = self._outages.lateness(node, key)
        return Requeue(after=lateness) if lateness > 0 else await self._apply_stage(key, job, obj)

    def _match(self, raw: bytes, version: str, uid: str) -> _Job:
        document: dict[str, Any] = msgspec.json.decode(raw)
        # Items of a list do not have these fields, and templates may use them.
        document = {"apiVersion": "v1", "kind": self._kind.kind, **document}
        stage = choose(self._stages, document, self._random)
        if stage is None:
            return _Job(version, uid, None, {})
        delay = draw_delay(stage, document, self._env.now(), self._random)
        return _Job(version, uid, stage, document, self._env.monotonic() + delay)

    async def _apply_stage(self, key: str, job: _Job, obj: Pod | Node) -> Requeue | None:
        stage = job.stage
        assert stage is not None, "only a stage can be played"
        try:
            while job.step < len(stage.steps):
                if job.step and not self._informer.cache.still_has(obj.metadata):
                    break  # it was deleted in the meantime: state of a step would never be dropped
                await self._apply_step(stage, stage.steps[job.step], job, obj)
                job.step += 1
        except NotFound:
            job.stage = None
            return None
        except StageError as error:
            # It would fail again in the same way: the next change of the object is the next attempt.
            self._log.error("Stage can't be applied", error=error, object=key)
            job.stage = None
            return None
        written = job.written
        job.stage, job.document = None, {}  # until the object changes
        if written is not None:
            meta = _meta(written)
            job.floor = meta.resource_version
            if stage.immediate:
                next_job = self._jobs[key] = self._match(written, meta.resource_version, meta.uid)
                next_job.floor = meta.resource_version
                return Requeue(after=next_job.due - self._env.monotonic()) if next_job.stage is not None else None
        return None

    async def _apply_step(self, stage: Stage, step: Any, job: _Job, obj: Pod | Node) -> None:
        node, meta = self._node_of(obj), obj.metadata
        client = self._clients[node]
        record_decision(f"stage {stage.name} of {stage.source}: {type(step).__name__} on {self._kind.kind} {meta.name}")
        match step:
            case SendEvent():
                reference = object_reference(PODS, meta) if isinstance(obj, Pod) else object_reference(NODES, meta)
                self._record_event(
                    node, reference, step.reason, step.message, warning=step.type == "Warning", always=True
                )
            case ChangeFinalizers():
                operations = finalizer_operations(step, job.document["metadata"].get("finalizers") or [])
                if operations:
                    patch = json_patch(operations)
                    job.written = await client.patch(self._kind.raw, meta.name, patch, meta.namespace)
            case Delete():
                await client.delete(self._kind, meta.name, meta.namespace, uid=meta.uid, grace_period_seconds=0)
                job.written = None
            case ApplyPatch():
                media, body = patch_body(stage, step, job.document, self._context(node, obj))
                try:
                    job.written = await client.patch(
                        self._kind.raw, meta.name, Patch(media, body), meta.namespace, subresource=step.subresource
                    )
                except ApiError as error:
                    if error.code in (400, 403, 405, 415, 422):
                        raise StageError(f"{step.location} for {meta.name}: {error}") from error
                    raise

    # Functions for templates

    def _context(self, node: str, obj: Pod | Node) -> dict[str, Callable[..., Any]]:
        def pod_ip(_node: str = "", host: bool = False, uid: str = "", *_name: str) -> str:
            if host:
                return node_address(self._index[node])
            uid = uid or obj.metadata.uid
            current = obj.status.pod_ip if isinstance(obj, Pod) else ""
            if uid not in self._own:
                self._own[uid] = current or self._addresses.take(uid)
            return self._own[uid]

        def node_ip(name: str = node) -> str:
            return node_address(self._index[name]) if name in self._index else ""

        return {
            "Now": lambda: _rfc3339(self._env.now()),
            "now": lambda: _rfc3339(self._env.now()),
            "StartTime": lambda: _rfc3339(self._started),
            "Version": lambda: pilothouse.__version__,
            "NodeConditions": lambda: KWOK_NODE_CONDITIONS,
            "NodeIP": node_ip,
            "NodeIPWith": node_ip,
            "NodeIPsWith": lambda name=node: [node_ip(name)],
            "NodeName": lambda: node,
            "NodePort": lambda: KUBELET_PORT,
            "PodIP": pod_ip,
            "PodIPWith": pod_ip,
            "PodIPsWith": lambda *words: [pod_ip(*words)],
            "randInt": lambda least, most: self._random.randrange(int(least), int(most)),
            "randAlphaNum": lambda count: "".join(self._random.choice(_LETTERS) for _ in range(int(count))),
            "uuidv4": self._env.uid,
        }


def _key(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class _Written(msgspec.Struct):
    metadata: ObjectMeta


def _meta(raw: bytes) -> ObjectMeta:
    return msgspec.json.decode(raw, type=_Written).metadata


def _rfc3339(time: datetime.datetime) -> str:
    """Go's ``time.RFC3339Nano``: no trailing zeros."""
    return format_micro_time(time)[:-1].rstrip("0").rstrip(".") + "Z"
