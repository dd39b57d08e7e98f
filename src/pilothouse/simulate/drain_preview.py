"""Previews a drain of nodes: on a snapshot of the cluster, in virtual time.

First the cluster of the snapshot runs until it is quiet; then the nodes are drained as by ``kubectl drain``. The
result: whether the drain completes, its duration, what blocks it, which workloads have fewer ready pods in the
meantime, and which pods remain pending. CronJobs and Jobs run on in the meantime: the cluster can be quiet although
they write, their completed pods are not missing, and a pod of a CronJob that had pending pods before is as pending as
these.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
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
from pilothouse.sim.run_log import Origin
from pilothouse.simulate.actions import pods
from pilothouse.simulate.actions.administrator import ActionError
from pilothouse.simulate.actions.nodes import Nodes
from pilothouse.simulate.cluster import restored_manager, restored_options
from pilothouse.simulate.scenario.actions import Drain
from pilothouse.simulate.scenario.scalars import Duration, counted
from pilothouse.simulate.scheduled_work import CRON_JOBS, JOBS, ScheduledObjects, ScheduledWork
from pilothouse.snapshots.restoring import Restored
from pilothouse.storage import Change

REST_SECONDS = 60.0
"""The cluster is quiet after this time without writes except heartbeats and scheduled work."""
SETTLE_SECONDS = 3600.0
"""The maximum time to wait after the drain until the cluster is quiet."""
BUSY_SETTLE_SECONDS = 600.0
"""The maximum time to wait before the drain; and after it, if the cluster was not quiet before."""
_CONTROLLERS = ("*", "-horizontal-pod-autoscaler-controller")
"""A snapshot has no usage: autoscalers would compare that of idle pods, and scale down what is needed."""
_JOB_BACKOFF_SECONDS = 600.0
"""The maximum delay until a Job replaces a pod (``MaxJobPodFailureBackOff``, v1.36 ``pkg/controller/job``)."""
Progress = Callable[[str, Callable[[], float]], None]
"""Receives what a preview does next, and a function that returns the virtual seconds since its start."""
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
    """How long fewer pods were ready; until the last write, if they still are at the end. Pods of Jobs that have
    completed count as ready."""


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
    busy: tuple[str, ...] = ()
    """The most frequent writes before the drain, if the cluster was not quiet then."""
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


def preview(
    restored: Restored, options: DrainOptions, *, seed: int = 0, progress: Progress = lambda _what, _seconds: None
) -> Preview:
    """Preview the drain. Raises ``UnknownNodes``."""
    names = select_nodes(restored, options)
    previews: list[Preview] = []

    async def main(env: Env) -> None:
        readiness, scheduled = Readiness(), ScheduledWork(ScheduledObjects((CRON_JOBS, JOBS)))
        options_of_manager = Options(controllers=_CONTROLLERS, leader_election=LeaderElection(enabled=False))
        manager = restored_manager(restored, options_of_manager)
        simulation_options = SimulationOptions(nodes=0, manager=manager, **restored_options(restored))
        began = env.monotonic()

        def report(noun: str) -> None:
            progress(noun, lambda: env.monotonic() - began)

        report("starting the cluster")
        async with simulated(env, simulation_options, [readiness, scheduled]) as simulation:
            previews.append(await _Drain(simulation, restored, readiness, scheduled, options, names, report).run())

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
    ``begin``.

    A pod that completes counts as ready until another is ready in its place. So does every pod of a Job once the Job
    has completed.
    """

    def __init__(self) -> None:
        self._workload_of: dict[str, tuple[str, str, str]] = {}
        """The workload of each ready pod, by key."""
        self._owners: dict[str, tuple[str, str]] = {}
        """Kind and name of the Deployment of a ReplicaSet, by uid."""
        self._now: Counter[tuple[str, str, str]] = Counter()
        self._ready_before: Counter[tuple[str, str, str]] = Counter()
        self._completed: Counter[tuple[str, str, str]] = Counter()
        """The pods that were ready at ``begin``, have completed, and were not replaced."""
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
        self._ready_before = Counter(self._now)
        self._completed.clear()
        self._least = dict(self._now)
        self._fewer.clear()
        self._fewer_since.clear()

    def committed(self, change: Change, _origin: Origin | None) -> None:
        """A pod, a ReplicaSet or a Job has changed."""
        if self._env is None or not change.key.startswith(("/pods/", "apps/replicasets/", JOBS)):
            return
        if change.type == "DELETED":
            self._set(change.key, None)
        else:
            self._take(change.key, _decode(change.value))

    def _take(self, key: str, obj: Object) -> None:
        if key.startswith(JOBS):
            if _is_complete(obj):
                job = "Job", obj["metadata"]["namespace"], obj["metadata"]["name"]
                self._complete(job, self._ready_before[job])
                self._measure(job)
            return
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
        self._set(key, workload, completed=_has_succeeded(obj))

    def _set(self, key: str, workload: tuple[str, str, str] | None, *, completed: bool = False) -> None:
        old_workload = self._workload_of.pop(key, None)
        if workload is not None:
            self._workload_of[key] = workload
        if old_workload == workload:
            return
        for affected, step in ((old_workload, -1), (workload, 1)):
            if affected is not None:
                self._now[affected] += step
                self._complete(affected, int(completed))
                self._measure(affected)

    def _complete(self, workload: tuple[str, str, str], more: int) -> None:
        missing = max(0, self._ready_before[workload] - self._now[workload])
        self._completed[workload] = min(self._completed[workload] + more, missing)

    def _count(self, workload: tuple[str, str, str]) -> int:
        return self._now[workload] + self._completed[workload]

    def recovering_jobs(self) -> bool:
        """Whether Jobs have fewer pods than before."""
        return any(workload[0] == "Job" for workload in self._fewer_since)

    def _measure(self, workload: tuple[str, str, str]) -> None:
        assert self._env is not None, "something is followed"
        count, now = self._count(workload), self._env.monotonic()
        if workload not in self._ready_before:
            return
        self._least[workload] = min(self._least.get(workload, count), count)
        since = self._fewer_since.pop(workload, None)
        if since is not None:
            self._fewer[workload] += now - since  # type: ignore[assignment]  # seconds
        if count < self._ready_before[workload]:
            self._fewer_since[workload] = now

    def results(self, until: float) -> tuple[WorkloadResult, ...]:
        """Workloads that had fewer ready pods, the most affected first. ``until`` is the time of the last write."""
        for workload, since in self._fewer_since.items():
            self._fewer[workload] += max(0.0, until - since)  # type: ignore[assignment]  # seconds
        results = [
            WorkloadResult(
                kind=kind,
                namespace=namespace,
                name=name,
                ready=self._ready_before[kind, namespace, name],
                least=least,
                end=self._count((kind, namespace, name)),
                seconds=round(float(self._fewer[kind, namespace, name]), 1),
            )
            for (kind, namespace, name), least in self._least.items()
            if least < self._ready_before[kind, namespace, name]
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
        scheduled: ScheduledWork,
        options: DrainOptions,
        names: Sequence[str],
        report: Callable[[str], None],
    ) -> None:
        self._simulation = simulation
        self._client: Client = simulation.user
        self._restored = restored
        self._readiness = readiness
        self._scheduled = scheduled
        self._options = options
        self._names = names
        self._report = report

    async def run(self) -> Preview:
        simulation, env = self._simulation, self._simulation.env
        self._readiness.follow(simulation)
        self._scheduled.follow(simulation)
        self._report("waiting until the cluster is quiet")
        busy = await self._rest(BUSY_SETTLE_SECONDS)
        self._readiness.begin()
        began, writes = env.monotonic(), simulation.log.writes
        pending_before = {identity for identity, _pod in self._without_node()}
        self._report(f"draining {counted(len(self._names), 'node')}")
        nodes = await self._nodes()
        self._report("waiting until the cluster is quiet after the drain")
        at_rest = not await self._rest(BUSY_SETTLE_SECONDS if busy else SETTLE_SECONDS)
        await self._jobs_recovered()
        return Preview(
            objects=len(self._restored.records),
            nodes=nodes,
            workloads=self._readiness.results(self._scheduled.last_other_write),
            pending=self._pending(pending_before),
            at_rest=at_rest,
            busy=busy,
            seconds=round(max(0.0, self._scheduled.last_other_write - began), 1),
            writes=simulation.log.writes - writes,
        )

    async def _rest(self, limit: float) -> tuple[str, ...]:
        """Wait until the cluster is quiet; returns what is still written if it is not within this time."""
        env, recent = self._simulation.env, self._scheduled.recent()
        began = env.monotonic()
        while env.monotonic() - began < limit:
            rest = max(self._scheduled.last_other_write, began) + REST_SECONDS - env.monotonic()
            if rest <= 0:
                return ()
            await asyncio.sleep(rest)
            recent = self._scheduled.recent() or recent
        return tuple(f"{key} ({counted(times, 'time')})" for key, times in recent)

    async def _jobs_recovered(self) -> None:
        """Wait for the pods that Jobs create, after their backoff, in place of evicted ones."""
        for _ in range(round(_JOB_BACKOFF_SECONDS / REST_SECONDS)):
            if not self._readiness.recovering_jobs():
                return
            await asyncio.sleep(REST_SECONDS)

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

    def _without_node(self) -> list[tuple[str, Object]]:
        """The pods that are not scheduled, unless they have ended or are being deleted. Each with its uid, or that of
        the CronJob that creates such pods again and again."""
        cron_jobs = {
            job["metadata"]["uid"]: owner["uid"]
            for job in self._stored(JOBS)
            if (owner := _controller(job)) is not None and owner["kind"] == "CronJob"
        }
        pods = []
        for pod in self._stored("/pods/"):
            has_ended = (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
            if not pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp") and not has_ended:
                owner = _controller(pod) or {}
                pods.append((cron_jobs.get(owner.get("uid", ""), pod["metadata"]["uid"]), pod))
        return pods

    def _stored(self, prefix: str) -> list[Object]:
        return [_decode(record.value) for record in self._simulation.store.list(prefix).records]

    def _pending(self, pending_before: AbstractSet[str]) -> tuple[Pending, ...]:
        pending = []
        for identity, pod in self._without_node():
            conditions = (pod.get("status") or {}).get("conditions") or ()
            reasons = [
                condition.get("message") or "" for condition in conditions if condition.get("type") == "PodScheduled"
            ]
            if not reasons and (_controller(pod) or {}).get("kind") == "Job":
                continue  # created just now
            meta = pod["metadata"]
            pending.append(
                Pending(
                    namespace=meta["namespace"],
                    name=meta["name"],
                    reason="".join(reasons),
                    before=identity in pending_before,
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


def _has_succeeded(pod: Object) -> bool:
    """Whether the pod has completed by itself, rather than because it is deleted."""
    return not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") == "Succeeded"


def _is_complete(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Complete" and condition.get("status") == "True" for condition in conditions)
