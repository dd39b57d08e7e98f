"""Nodes under memory, disk or PID pressure: their conditions, and the pods that they evict.

Pressure is only simulated on request. While it lasts, one pod is
evicted per period, the first by rank. With an amount, pressure ends when the evicted pods used that much; otherwise
when it is relieved. The condition stays for another five minutes. Ranking and messages: kubelet v1.36
``pkg/kubelet/eviction/helpers.go``.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from pilothouse.api.core import NODES, ObjectReference
from pilothouse.env import Env, Log
from pilothouse.machinery.quantities import canonical, parse_quantity
from pilothouse.nodes.admission import is_critical
from pilothouse.nodes.behaviour import Behaviour
from pilothouse.nodes.pod_status import PodFailure
from pilothouse.nodes.profile import KUBELET, Profile
from pilothouse.nodes.recording import NodeEventRecorder
from pilothouse.nodes.views import NodePod
from pilothouse.runtime import Requeue, WorkerPool, WorkQueue

CONDITIONS = {"memory": "MemoryPressure", "disk": "DiskPressure", "pids": "PIDPressure"}
"""The resources, in the order in which they are reclaimed, and their conditions."""
_REQUESTED = {"memory": "memory", "disk": "ephemeral-storage", "pids": ""}
_DEFAULT_USAGE = {"memory": 32 << 20, "disk": 16 << 20, "pids": 1}
"""The usage of a container without annotations and requests."""
_THRESHOLD = {"memory": "100Mi", "disk": "10%", "pids": "10%"}


class ResourcePressure(msgspec.Struct):
    """Pressure on one resource of one node. Times are loop times."""

    wanted: int | None
    """How much must be freed; None: until the pressure is relieved."""
    freed: int = 0
    active: bool = True
    last_at: float = 0.0
    """When the pressure was last active."""


class Usage(msgspec.Struct, frozen=True):
    """Usage and request of a pod for one resource."""

    used: int
    requested: int


class EvictionManager:
    """The pressures of all nodes. ``on_change`` is called with a node's name when its conditions may have changed."""

    def __init__(self, env: Env, profiles: Mapping[str, Profile], record_event: NodeEventRecorder, log: Log) -> None:
        self._env = env
        self._profiles = profiles
        self._record_event = record_event
        self._pressures: dict[str, dict[str, ResourcePressure]] = {}
        self._next_at: dict[str, float] = {}
        """When a node under pressure may evict again, in loop time."""
        self._queue: WorkQueue[str] = WorkQueue(env, "node pressure")
        self._pool = WorkerPool("node pressure", self._queue, self._reconcile, log=log, component=KUBELET)
        self.on_change: list[Callable[[str], None]] = []
        self.active_pods: Callable[[str], Sequence[tuple[str, NodePod, Behaviour]]] = lambda _node: ()
        """The pods of a node that may be evicted, as ``ActivePodsFunc``: key, pod, behaviour. Set by ``PodWorkers``."""
        self.kill_pod: Callable[[str, PodFailure], None] | None = None

    async def run(self) -> None:
        """Evict until cancelled."""
        await self._pool.run()

    def press(self, node: str, resource: str, amount: int | None = None) -> None:
        """The node lacks a resource (``memory``, ``disk``, ``pids``), maybe until ``amount`` of it was freed."""
        if resource not in CONDITIONS:
            raise ValueError(f"{resource!r} is none of {', '.join(CONDITIONS)}")
        pressure = self._pressures.setdefault(node, {}).get(resource)
        if pressure is not None and pressure.active and pressure.wanted == amount:
            return
        self._pressures[node][resource] = ResourcePressure(amount, last_at=self._env.monotonic())
        self._changed(node)
        self._queue.add(node)

    def relieve(self, node: str, resource: str = "") -> None:
        """There is enough again, of one resource or of all."""
        for name, pressure in self._pressures.get(node, {}).items():
            if pressure.active and resource in ("", name):
                pressure.active, pressure.last_at = False, self._env.monotonic()
                self._queue.add(node)

    def conditions(self, node: str) -> list[str]:
        """The conditions that are true, in the order of ``CONDITIONS``."""
        pressures = self._pressures.get(node)
        return [CONDITIONS[name] for name in CONDITIONS if name in pressures] if pressures else []

    def _changed(self, node: str) -> None:
        for record_event in self.on_change:
            record_event(node)

    async def _reconcile(self, node: str) -> Requeue | None:
        pressures = self._pressures.get(node)
        if not pressures:
            return None
        now = self._env.monotonic()
        active = next((name for name in CONDITIONS if name in pressures and pressures[name].active), "")
        if active and now >= self._next_at.get(node, now):
            self._next_at[node] = now + self._profiles[node].eviction_period
            self._evict_one(node, active, pressures[active])
        transition = self._profiles[node].pressure_transition
        ends = {name: s.last_at + transition for name, s in pressures.items() if not s.active}
        for name, at in ends.items():
            if now >= at:
                del pressures[name]
                self._changed(node)
        due = [at for name, at in ends.items() if name in pressures]
        if len(due) < len(pressures):
            due.append(self._next_at[node])
        else:
            self._next_at.pop(node, None)
        return Requeue(after=min(due) - now) if due else None

    def _evict_one(self, node: str, resource: str, pressure: ResourcePressure) -> None:
        pressure.last_at = self._env.monotonic()
        active_pods = self.active_pods(node)
        name = _REQUESTED[resource] or resource
        about = ObjectReference(kind=NODES.kind, name=node, uid=node)
        self._record_event(node, about, "EvictionThresholdMet", f"Attempting to reclaim {name}", warning=True)
        usages = {key: usage_of(pod, behaviour, resource) for key, pod, behaviour in active_pods}
        order = sorted(active_pods, key=lambda entry: rank(entry[1], usages[entry[0]], resource))
        for key, pod, _behaviour in order:
            if is_critical(pod):
                continue
            assert self.kill_pod is not None, "who has active pods can kill them"
            failure = PodFailure("Evicted", message(pod, usages[key], resource), disruption=True)
            self.kill_pod(key, failure)
            pressure.freed += usages[key].used
            break
        if pressure.wanted is not None and pressure.freed >= pressure.wanted:
            pressure.active = False


def usage_of(pod: NodePod, behaviour: Behaviour, resource: str) -> Usage:
    """Usage by annotation, else by requests, else a default."""
    name = _REQUESTED[resource]
    requested = used = 0
    for container in pod.spec.containers:
        text = container.resources.requests.get(name, "") if name else ""
        amount = parse_quantity(text).value if text else 0
        requested += amount
        used += amount or _DEFAULT_USAGE[resource]
    return Usage(behaviour.usage.get(resource, used), requested)


def rank(pod: NodePod, usage: Usage, resource: str) -> tuple[object, ...]:
    """The order of eviction: pods that exceed their request first, then by priority, then by the excess.

    Process ids have no requests: priority, then how many. Equal ones by name, so that order is chosen.
    """
    key = (pod.metadata.namespace, pod.metadata.name)
    priority = pod.spec.priority or 0
    if resource == "pids":
        return (priority, -usage.used, *key)
    return (usage.used <= usage.requested, priority, usage.requested - usage.used, *key)


def message(pod: NodePod, usage: Usage, resource: str) -> str:
    """The kubelet's message for an eviction."""
    name = _REQUESTED[resource] or resource
    text = f"The node was low on resource: {name}. Threshold quantity: {_THRESHOLD[resource]}, available: 0. "
    if usage.used > usage.requested and resource != "pids":
        container = pod.spec.containers[0]
        used, requested = _shown(usage.used), _shown(usage.requested)
        text += f"Container {container.name} was using {used}, request is {requested}, "
        text += f"has larger consumption of {name}. "
    return text


def _shown(amount: int) -> str:
    return canonical(f"{amount // 1024}Ki") if amount >= 1024 else str(amount)
