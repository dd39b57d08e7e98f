"""Previews a drain of nodes: on a snapshot of the cluster, in virtual time.

First the cluster of the snapshot runs until it is quiet; then the nodes are drained as by ``kubectl drain``. The
result: whether the drain completes, its duration, what blocks it, which workloads have fewer ready pods meanwhile, and
which pods remain pending.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.env import Env, virtual
from pilothouse.env.logging import without_log
from pilothouse.machinery.labels import parse_selector
from pilothouse.sim import Simulation, SimulationOptions
from pilothouse.sim import running as simulated
from pilothouse.sim.invariants import Invariant
from pilothouse.sim.story import Origin
from pilothouse.simulate.actions import pods
from pilothouse.simulate.actions.administrator import ActionError
from pilothouse.simulate.actions.nodes import Nodes
from pilothouse.simulate.cluster import restored_manager, restored_options
from pilothouse.simulate.scenario.actions import Drain
from pilothouse.simulate.scenario.scalars import Duration
from pilothouse.snapshots.restoring import Restored
from pilothouse.storage import Change

REST_SECONDS = 60.0
"""The cluster is quiet after this time without writes except heartbeats."""
SETTLE_SECONDS = 3600.0
"""The maximum time to wait until the cluster is quiet."""
_decode = msgspec.json.decode
Object = dict[str, Any]


class NodeResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one node."""

    name: str
    pods: int
    """The pods that were evicted: all except mirror pods and those of DaemonSets."""
    drained: bool
    seconds: float
    reason: str = ""
    """Why the node was not drained."""


class WorkloadResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload that had fewer ready pods than before."""

    kind: str
    namespace: str
    name: str
    ready: int
    """Ready pods before the drain."""
    least: int
    end: int
    seconds: float
    """How long fewer pods were ready."""


class Pending(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod that is not scheduled at the end."""

    namespace: str
    name: str
    reason: str
    before: bool = False
    """Whether the pod was pending before the drain."""


class Preview(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result."""

    objects: int
    nodes: tuple[NodeResult, ...]
    workloads: tuple[WorkloadResult, ...]
    pending: tuple[Pending, ...]
    at_rest: bool
    """Whether the cluster was quiet at the end."""
    seconds: float
    """From the start of the drain until the last write."""
    writes: int

    @property
    def succeeded(self) -> bool:
        """Whether all nodes were drained, and no further pods are pending."""
        return all(node.drained for node in self.nodes) and all(pod.before for pod in self.pending)


class DrainOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The flags of ``kubectl drain``."""

    names: tuple[str, ...] = ()
    selector: str = ""
    timeout: float = 3600.0
    """The time limit for each node."""
    grace_period: float | None = None
    force: bool = False
    parallel: bool = False


class UnknownNodes(ValueError):
    """Nodes that are not in the snapshot."""


def preview(restored: Restored, options: DrainOptions, *, seed: int = 0) -> Preview:
    """Preview the drain. Raises ``UnknownNodes``."""
    names = select_nodes(restored, options)
    previews: list[Preview] = []

    async def main(env: Env) -> None:
        readiness = Readiness()
        manager = restored_manager(restored, Options(leader_election=LeaderElection(enabled=False)))
        simulation_options = SimulationOptions(nodes=0, manager=manager, **restored_options(restored))
        async with simulated(env, simulation_options, [readiness]) as simulation:
            previews.append(await _Drain(simulation, restored, readiness, options, names).run())

    with without_log():
        virtual.run(main, seed=seed, start=restored.time or virtual.START)
    return previews[0]


def select_nodes(restored: Restored, options: DrainOptions) -> list[str]:
    """The names of the selected nodes, in order. Raises ``UnknownNodes``."""
    nodes = [_decode(record.value) for record in restored.records if record.key.startswith("/nodes/")]
    nodes.sort(key=lambda node: node["metadata"]["name"])
    names = [node["metadata"]["name"] for node in nodes]
    for name in options.names:
        if name not in names:
            listed = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
            raise UnknownNodes(f"there is no node {name!r} in the snapshot; there are {listed or 'none'}")
    wanted = list(options.names)
    if options.selector:
        matches = parse_selector(options.selector).matches
        wanted += [
            node["metadata"]["name"]
            for node in nodes
            if matches(node["metadata"].get("labels") or {}) and node["metadata"]["name"] not in wanted
        ]
    if not wanted:
        raise UnknownNodes(f"no node of the snapshot matches {options.selector!r}")
    return wanted


class Readiness(Invariant):
    """Counts the ready pods of each workload: the current number, the minimum, and how long it was lower than at
    ``begin``."""

    def __init__(self) -> None:
        self._workload_of: dict[str, tuple[str, str, str]] = {}
        """The workload of each ready pod, by key."""
        self._owners: dict[str, tuple[str, str]] = {}
        """Kind and name of the Deployment of a ReplicaSet, by uid."""
        self._now: Counter[tuple[str, str, str]] = Counter()
        self._before: Counter[tuple[str, str, str]] = Counter()
        self._least: dict[tuple[str, str, str], int] = {}
        self._fewer_since: dict[tuple[str, str, str], float] = {}
        self._fewer: Counter[tuple[str, str, str]] = Counter()
        self._env: Env | None = None

    def follow(self, simulation: Simulation) -> None:
        """Start with the existing objects."""
        self._env = simulation.env
        for prefix in ("apps/replicasets/", "/pods/"):
            for record in simulation.store.list(prefix).records:
                self._take(record.key, _decode(record.value))

    def begin(self) -> None:
        """Set the reference: the number of pods that are ready now."""
        self._before = Counter(self._now)
        self._least = dict(self._now)
        self._fewer.clear()
        self._fewer_since.clear()

    def committed(self, change: Change, _origin: Origin | None) -> None:
        """A pod or a ReplicaSet has changed."""
        if self._env is None or not change.key.startswith(("/pods/", "apps/replicasets/")):
            return
        if change.type == "DELETED":
            self._set(change.key, None)
        else:
            self._take(change.key, _decode(change.value))

    def _take(self, key: str, obj: Object) -> None:
        owner = _controller(obj)
        if not key.startswith("/pods/"):
            if owner is not None:
                self._owners[obj["metadata"]["uid"]] = owner["kind"], owner["name"]
            return
        workload = None
        if _is_ready(obj):
            kind, name = ("Pod", obj["metadata"]["name"]) if owner is None else (owner["kind"], owner["name"])
            if owner is not None and owner["uid"] in self._owners:
                kind, name = self._owners[owner["uid"]]
            workload = kind, obj["metadata"]["namespace"], name
        self._set(key, workload)

    def _set(self, key: str, workload: tuple[str, str, str] | None) -> None:
        before = self._workload_of.pop(key, None)
        if workload is not None:
            self._workload_of[key] = workload
        if before == workload:
            return
        for affected, step in ((before, -1), (workload, 1)):
            if affected is not None:
                self._now[affected] += step
                self._measure(affected)

    def _measure(self, workload: tuple[str, str, str]) -> None:
        assert self._env is not None, "something is followed"
        count, now = self._now[workload], self._env.monotonic()
        if workload not in self._before:
            return
        self._least[workload] = min(self._least.get(workload, count), count)
        since = self._fewer_since.pop(workload, None)
        if since is not None:
            self._fewer[workload] += now - since  # type: ignore[assignment]  # seconds
        if count < self._before[workload]:
            self._fewer_since[workload] = now

    def results(self) -> tuple[WorkloadResult, ...]:
        """Workloads that had fewer ready pods, the most affected first."""
        for workload in list(self._fewer_since):
            self._measure(workload)
        results = [
            WorkloadResult(
                kind=kind,
                namespace=namespace,
                name=name,
                ready=self._before[kind, namespace, name],
                least=least,
                end=self._now[kind, namespace, name],
                seconds=round(float(self._fewer[kind, namespace, name]), 1),
            )
            for (kind, namespace, name), least in self._least.items()
            if least < self._before[kind, namespace, name]
        ]
        return tuple(
            sorted(results, key=lambda result: (result.end - result.ready, result.least / result.ready, result.name))
        )


class _Drain:
    def __init__(
        self,
        simulation: Simulation,
        restored: Restored,
        readiness: Readiness,
        options: DrainOptions,
        names: Sequence[str],
    ) -> None:
        self._simulation = simulation
        self._client: Client = simulation.user
        self._restored = restored
        self._readiness = readiness
        self._options = options
        self._names = names

    async def run(self) -> Preview:
        simulation, env = self._simulation, self._simulation.env
        self._readiness.follow(simulation)
        await self._rest()
        self._readiness.begin()
        began, writes = env.monotonic(), simulation.story.writes
        before = {pod["metadata"]["uid"] for pod in self._without_node()}
        nodes = await self._nodes()
        at_rest = await self._rest()
        return Preview(
            objects=len(self._restored.records),
            nodes=nodes,
            workloads=self._readiness.results(),
            pending=self._pending(before),
            at_rest=at_rest,
            seconds=round(max(0.0, simulation.last_write - began), 1),
            writes=simulation.story.writes - writes,
        )

    async def _rest(self) -> bool:
        """Wait until the cluster is quiet. Returns whether that was in time."""
        simulation, env = self._simulation, self._simulation.env
        began = env.monotonic()
        while env.monotonic() - began < SETTLE_SECONDS:
            rest = max(simulation.last_write, began) + REST_SECONDS - env.monotonic()
            if rest <= 0:
                return True
            await asyncio.sleep(rest)
        return False

    async def _nodes(self) -> tuple[NodeResult, ...]:
        drained = Drain(
            names=tuple(self._names),
            timeout=Duration(self._options.timeout),
            grace_period=None if self._options.grace_period is None else Duration(self._options.grace_period),
            force=self._options.force,
        )
        nodes = Nodes(self._simulation, (), self._restored.nodes)
        await nodes.cordon(self._names, unschedulable=True)
        if self._options.parallel:
            return tuple(await asyncio.gather(*(self._node(name, drained) for name in self._names)))
        return tuple([await self._node(name, drained) for name in self._names])

    async def _node(self, name: str, drained: Drain) -> NodeResult:
        env = self._simulation.env
        began, count, reason = env.monotonic(), len(await pods.evictable(self._client, name)), ""
        try:
            await pods.drain_node(self._client, name, drained, force_option="--force")
        except ActionError as error:
            reason = str(error)
            if budgets := await self._budgets(name):
                reason = f"{reason}; {budgets}"
        return NodeResult(
            name=name, pods=count, drained=not reason, seconds=round(env.monotonic() - began, 1), reason=reason
        )

    async def _budgets(self, name: str) -> str:
        """The reason why an eviction of a remaining pod is rejected."""
        for pod in await pods.evictable(self._client, name):
            try:
                await pods.evict(self._client, pod, dry_run=True)
            except ApiError as error:
                causes = [cause.message for cause in error.status.details.causes] if error.status.details else []
                return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}: {'; '.join([str(error), *causes])}"
        return ""

    def _without_node(self) -> list[Object]:
        """The pods that are neither scheduled nor being deleted."""
        stored = [_decode(record.value) for record in self._simulation.store.list("/pods/").records]
        return [
            pod for pod in stored if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
        ]

    def _pending(self, before: AbstractSet[str]) -> tuple[Pending, ...]:
        pending = []
        for pod in self._without_node():
            conditions = (pod.get("status") or {}).get("conditions") or ()
            reasons = [
                condition.get("message") or "" for condition in conditions if condition.get("type") == "PodScheduled"
            ]
            meta = pod["metadata"]
            pending.append(
                Pending(
                    namespace=meta["namespace"],
                    name=meta["name"],
                    reason="".join(reasons),
                    before=meta["uid"] in before,
                )
            )
        return tuple(pending)


def _controller(obj: Object) -> Object | None:
    return next(
        (reference for reference in obj["metadata"].get("ownerReferences") or () if reference.get("controller")), None
    )


def _is_ready(pod: Object) -> bool:
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions)
