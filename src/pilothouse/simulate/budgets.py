"""The measures of a run and its budgets: unavailable pods, times to ready, restarts, writes.

Updated with every commit. An exceeded budget fails the run at its end, so that the measures are complete.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from pilothouse.sim import Origin, Simulation
from pilothouse.sim.invariants import Invariant
from pilothouse.simulate.readiness import TimesToReady, Wait, Waits, percentile
from pilothouse.simulate.result import BudgetResult, Failure
from pilothouse.simulate.scenario.scalars import shown_seconds
from pilothouse.simulate.scenario.schema import WORKLOAD_KINDS, Budget
from pilothouse.simulate.unavailable import Moment, UnavailablePods
from pilothouse.storage import Change

MAX_WORKLOADS = 200
"""Maximum number of workloads with measures."""
_PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
_WORKLOADS = {"apps/deployments/": "Deployment", "apps/statefulsets/": "StatefulSet", "apps/daemonsets/": "DaemonSet"}
_REPLICASETS = "apps/replicasets/"
_JOBS = "batch/jobs/"
_PODS = "/pods/"
_PODS_NAMED = 20
"""Maximum number of named pods that were never ready."""
_NAMESPACES_NAMED = 5
"""Maximum number of named namespaces that have a workload of the same name."""
_SCHEDULED_PERIOD = 60.0
"""The shortest period of a CronJob: younger pods of its Jobs have just begun."""
LOG_LINES = 60
"""Maximum number of log lines of a failure."""
_SLOWEST_NAMED = 5
"""Maximum number of named pods that exceeded a time to ready."""
Workload = tuple[str, str, str]
"""Kind, namespace, name."""


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    kind: str
    name: str
    uid: str
    controller: bool = False


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    owner_references: tuple[_Owner, ...] = ()
    deletion_timestamp: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _Container(msgspec.Struct, frozen=True, rename="camel"):
    restart_count: int = 0


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: tuple[_Condition, ...] = ()
    container_statuses: tuple[_Container, ...] = ()


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _PodStatus = _PodStatus()


class _WorkloadSpec(msgspec.Struct, frozen=True):
    replicas: int = 1


class _WorkloadStatus(msgspec.Struct, frozen=True, rename="camel"):
    desired_number_scheduled: int = 0


class _WorkloadObject(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()


_pod = msgspec.json.Decoder(_Pod).decode
_workload = msgspec.json.Decoder(_WorkloadObject).decode


class _Usage(msgspec.Struct):
    """The measures of one workload."""

    desired: int = 0
    required: int = 0
    """Replicas at the time when all of them were ready last, or fewer if it was scaled down since: pods that are not
    created yet were never available. For a workload that existed before the run at least the number of pods that were
    ready at the start."""
    is_measured: bool = False
    """Whether pods were required at some time."""
    ready: dict[str, None] = {}
    most_unavailable: int = 0
    exceeded_at: dict[int, float] = {}
    """By budget number: when it was exceeded first."""
    closest: dict[int, tuple[int, int]] = {}
    """By budget number: unavailable pods and limit at the time when the budget came closest to its limit or exceeded it
    most. A limit in percent changes with the replicas."""
    unavailable: UnavailablePods | None = None
    """Only of workloads with a budget."""
    moments: dict[int, tuple[Moment, ...]] = {}
    """By budget number: when it was exceeded first, and most, if that was later."""
    why: dict[int, str] = {}
    """By budget number: the causes of the write that exceeded it first."""


class _PodUsage(msgspec.Struct):
    owner: Workload | None
    restarts: int = 0


class Usage(Invariant):
    """Computes the measures of one run."""

    def __init__(self, budgets: tuple[Budget, ...], *, partial: bool = False) -> None:
        """``partial``: entries are left out, so workloads of budgets may be missing."""
        self._budgets = budgets
        self._missing = set() if partial else {workload_of(budget) for budget in budgets if budget.workload}
        """Workloads with a budget that have not existed so far."""
        self._logs: dict[float, str] = {}
        self._elsewhere: dict[tuple[str, str], set[str]] = {(kind, name): set() for kind, _, name in self._missing}
        """By kind and name: the namespaces that have a workload of that kind and name."""
        self._simulation: Simulation | None = None
        self._began = 0.0
        self._replicasets: dict[str, Workload] = {}
        self._workloads: dict[Workload, _Usage] = {}
        self._pods: dict[str, _PodUsage] = {}
        self.times: TimesToReady | None = None
        """Covers pods that are created after ``begin``."""
        self._waits: dict[Workload | None, Waits] = {}
        self._timed_workloads = {
            workload_of(limit) if limit.workload else None for limit in budgets if limit.time_to_ready
        }
        self._deleted_unready: list[str] = []
        self._more_deleted_unready = 0
        self._restarts: dict[Workload | None, int] = {}
        self._budgets_by_workload: dict[Workload, list[int]] = {}
        for number, budget in enumerate(budgets):
            if budget.max_unavailable is not None:
                self._budgets_by_workload.setdefault(workload_of(budget), []).append(number)

    def begin(self, simulation: Simulation) -> None:
        """Start measuring, with the existing objects, for example of a snapshot."""
        self._simulation, self._began = simulation, simulation.env.monotonic()
        self.times = TimesToReady(simulation)
        self.times.on_end.append(self._wait_ended)
        for prefix, kind in _WORKLOADS.items():
            for record in simulation.store.list(prefix).records:
                self._workload_changed(kind, "ADDED", record.value)
        for record in simulation.store.list(_REPLICASETS).records:
            self._replicaset_changed("ADDED", record.value)
        for record in simulation.store.list(_JOBS).records:
            self._job_added(record.key)
        for record in simulation.store.list(_PODS).records:
            self._add_existing_pod(record.key, record.value)
        for usage in self._workloads.values():
            usage.required = min(usage.desired, len(usage.ready))
            usage.is_measured = usage.required > 0

    def begin_timeline(self) -> None:
        """Measure times from now on, as expectations and actions do."""
        assert self._simulation is not None, "begin was called"
        self._began = self._simulation.env.monotonic()

    # Changes

    def committed(self, change: Change, origin: Origin | None) -> None:
        """A write has become visible."""
        if self._simulation is None:
            return
        key = change.key
        if key.startswith(_PODS):
            self._pod_changed(change, origin)
        elif key.startswith(_REPLICASETS):
            self._replicaset_changed(change.type, change.value)
        elif key.startswith(_JOBS):
            if change.type == "ADDED":
                self._job_added(key)
        else:
            for prefix, kind in _WORKLOADS.items():
                if key.startswith(prefix):
                    self._workload_changed(kind, change.type, change.value)
                    return

    def _replicaset_changed(self, type_: str, value: bytes) -> None:
        metadata = _workload(value).metadata
        owner = next((reference for reference in metadata.owner_references if reference.controller), None)
        if type_ == "ADDED":
            name = ("ReplicaSet", metadata.namespace, metadata.name)
            self._replicasets[metadata.uid] = name if owner is None else (owner.kind, metadata.namespace, owner.name)
        if owner is None:
            self._workload_changed("ReplicaSet", type_, value)

    def _job_added(self, key: str) -> None:
        namespace, _slash, name = key.removeprefix(_JOBS).partition("/")
        self._add_existing(("Job", namespace, name))

    def _add_existing(self, workload: Workload) -> None:
        self._missing.discard(workload)
        kind, namespace, name = workload
        if (namespaces := self._elsewhere.get((kind, name))) is not None:
            namespaces.add(namespace)

    def _workload_changed(self, kind: str, type_: str, value: bytes) -> None:
        workload = _workload(value)
        name = (kind, workload.metadata.namespace, workload.metadata.name)
        self._add_existing(name)
        if type_ == "DELETED":
            if name not in self._budgets_by_workload:
                self._workloads.pop(name, None)
            elif (usage := self._workloads.get(name)) is not None:
                usage.desired = usage.required = 0
            return
        usage = self._workloads.setdefault(name, _Usage())
        if usage.unavailable is None and name in self._budgets_by_workload:
            usage.unavailable = UnavailablePods()
        usage.desired = workload.status.desired_number_scheduled if kind == "DaemonSet" else workload.spec.replicas
        usage.required = min(usage.required, usage.desired)
        self._count(name, usage)

    def _add_existing_pod(self, key: str, value: bytes) -> None:
        """A pod that existed before the run."""
        pod = _pod(value)
        restarts = sum(status.restart_count for status in pod.status.container_statuses)
        owner = self._owner(pod)
        self._pods[key] = _PodUsage(owner, restarts=restarts)
        usage = self._workloads.get(owner) if owner is not None else None
        if usage is None:
            return
        if _is_ready(pod) and not pod.metadata.deletion_timestamp:
            usage.ready[key] = None
        elif usage.unavailable is not None:
            is_deleted = bool(pod.metadata.deletion_timestamp)
            usage.unavailable.not_ready(key, self._now(), None, was_ready=False, is_deleted=is_deleted)

    def _pod_changed(self, change: Change, origin: Origin | None) -> None:
        pod = _pod(change.value)
        key = change.key
        pod_usage = self._pods.get(key)
        if change.type == "ADDED" or pod_usage is None:
            pod_usage = self._pods[key] = _PodUsage(self._owner(pod))
        self._times_to_ready.committed(change)
        restarts = sum(status.restart_count for status in pod.status.container_statuses)
        if restarts > pod_usage.restarts:
            self._restarts[pod_usage.owner] = self._restarts.get(pod_usage.owner, 0) + restarts - pod_usage.restarts
            pod_usage.restarts = restarts
        deleted = change.type == "DELETED"
        ready = _is_ready(pod)
        if deleted:
            del self._pods[key]
        if pod_usage.owner is not None:
            usage = self._workloads.get(pod_usage.owner)
            if usage is not None:
                is_deleted = deleted or bool(pod.metadata.deletion_timestamp)
                is_available = ready and not is_deleted
                if usage.unavailable is not None:
                    if is_available:
                        usage.unavailable.ready(key)
                    else:
                        was_ready = key in usage.ready
                        usage.unavailable.not_ready(
                            key, self._now(), origin, was_ready=was_ready, is_deleted=is_deleted
                        )
                    if deleted:
                        usage.unavailable.removed(key, change.value)
                if is_available:
                    usage.ready[key] = None
                else:
                    usage.ready.pop(key, None)
                self._count(pod_usage.owner, usage)

    def _wait_ended(self, wait: Wait) -> None:
        """Record a finished wait."""
        _add(self._waits, self._pods[wait.key].owner, wait, self._timed_workloads, self._times_to_ready)
        if wait.outcome != "ready":
            if len(self._deleted_unready) < _PODS_NAMED:
                self._deleted_unready.append(wait.key.removeprefix(_PODS))
            else:
                self._more_deleted_unready += 1

    @property
    def _times_to_ready(self) -> TimesToReady:
        assert self.times is not None, "the run has begun"
        return self.times

    def _owner(self, pod: _Pod) -> Workload | None:
        owner = next((reference for reference in pod.metadata.owner_references if reference.controller), None)
        if owner is None:
            return None
        if owner.kind == "ReplicaSet":
            return self._replicasets.get(owner.uid, ("ReplicaSet", pod.metadata.namespace, owner.name))
        return (owner.kind, pod.metadata.namespace, owner.name)

    def _count(self, name: Workload, usage: _Usage) -> None:
        ready = len(usage.ready)
        if ready >= usage.desired:
            usage.required = usage.desired
            usage.is_measured = usage.is_measured or usage.required > 0
        missing = max(0, usage.required - ready)
        usage.most_unavailable = max(usage.most_unavailable, missing)
        if not missing and usage.unavailable is not None:
            usage.unavailable.complete()
        for number in self._budgets_by_workload.get(name, ()):
            share = self._budgets[number].max_unavailable
            if share is None or not missing:
                continue
            limit = share.of(usage.required)
            if missing > limit and number not in usage.exceeded_at:
                assert self._simulation is not None, "the run has begun"
                usage.exceeded_at[number] = self._now() - self._began
                self._logs[usage.exceeded_at[number]] = self._simulation.log.last(LOG_LINES, repeated=False)
                usage.why[number] = self._simulation.explained().strip()
            closest = usage.closest.get(number)
            if closest is None or (missing - limit, missing) > (closest[0] - closest[1], closest[0]):
                usage.closest[number] = missing, limit
                if missing > limit:
                    self._add_moment(number, usage, missing)

    def _add_moment(self, number: int, usage: _Usage, missing: int) -> None:
        """A budget is exceeded more than before. The first instant is kept, with all of its writes: the pods of a node
        become not ready one after the other."""
        assert self._simulation is not None, "the run has begun"
        assert usage.unavailable is not None, "the workload has a budget"
        moment = usage.unavailable.moment(self._simulation, self._began, missing)
        first = usage.moments.get(number, (moment,))[0]
        usage.moments[number] = (moment,) if first.at == moment.at else (first, moment)

    def log_until(self, at: float) -> str:
        """The last lines of the log when a budget was exceeded first, at this time of the run; else empty."""
        return self._logs.get(at, "")

    def _now(self) -> float:
        assert self._simulation is not None, "the run has begun"
        return self._simulation.env.monotonic()

    # Results

    def measures(self) -> dict[str, float]:
        """The measures by name."""
        assert self._simulation is not None, "the run has begun"
        log = self._simulation.log
        measures: dict[str, float] = {"writes": log.writes, "restarts": sum(self._restarts.values())}
        times = self._all_waits().get(None, Waits()).sorted_seconds()
        if times:
            measures |= {f"timeToReady.{name}": percentile(times, share) for name, share in _PERCENTILES}
        for (kind, namespace, name), usage in list(self._workloads.items())[:MAX_WORKLOADS]:
            measures[f"maxUnavailable {_label(f'{kind.lower()}/{name}', namespace)}"] = usage.most_unavailable
        return measures

    def _all_waits(self) -> dict[Workload | None, Waits]:
        """By workload, None for all pods; pods that are not ready yet are included with their age."""
        all_waits = {owner: waits.copy() for owner, waits in self._waits.items()}
        for wait in self._times_to_ready.waiting():
            _add(all_waits, self._pods[wait.key].owner, wait, self._timed_workloads, self._times_to_ready)
        return all_waits

    def never_ready(self) -> tuple[str, ...]:
        """The first pods by name, ``NAMESPACE/NAME``, that were never ready until now, and the number of further
        ones. Without pods of CronJobs that have just begun: with a CronJob of every minute there is often one."""
        waiting = (wait for wait in self._times_to_ready.waiting() if not self._has_just_begun(wait))
        keys = sorted(wait.key.removeprefix(_PODS) for wait in waiting)
        return _named(keys[:_PODS_NAMED], len(keys) - _PODS_NAMED)

    def _has_just_begun(self, wait: Wait) -> bool:
        """Whether it is a young pod of a CronJob's Job."""
        owner = self._pods[wait.key].owner
        if wait.seconds >= _SCHEDULED_PERIOD or owner is None or owner[0] != "Job" or self._simulation is None:
            return False
        job = self._simulation.store.get(f"{_JOBS}{owner[1]}/{owner[2]}")
        return job is not None and any(
            reference.kind == "CronJob" for reference in _workload(job.value).metadata.owner_references
        )

    def deleted_unready(self) -> tuple[str, ...]:
        """The first pods that were deleted or failed before they were ready, and the number of further ones."""
        return _named(self._deleted_unready, self._more_deleted_unready)

    def notices(self) -> Iterator[str]:
        """Notices about budgets that are kept because there was nothing to measure."""
        for workload, numbers in self._budgets_by_workload.items():
            usage = self._workloads.get(workload)
            if usage is None or usage.is_measured or not usage.desired:
                continue
            for number in numbers:
                budget = self._budgets[number]
                yield (
                    f"budget {budget.name or budget_name(budget)} measures nothing: of {usage.desired} pods "
                    f"{len(usage.ready)} are ready at the end, and all of them never were at the same time"
                )

    def results(self) -> tuple[BudgetResult, ...]:
        """The result of each budget."""
        waits = self._all_waits()
        return tuple(
            result for number, budget in enumerate(self._budgets) for result in self._results(number, budget, waits)
        )

    def _results(self, number: int, budget: Budget, all_waits: dict[Workload | None, Waits]) -> list[BudgetResult]:
        owner = workload_of(budget) if budget.workload else None
        name = budget.name or budget_name(budget)
        if owner is not None and owner in self._missing:
            namespaces = sorted(self._elsewhere[owner[0], owner[2]])
            return [
                BudgetResult(
                    name=name,
                    measured=0,
                    limit=0,
                    held=False,
                    missing=budget.workload,
                    namespace=owner[1],
                    elsewhere=tuple(namespaces[:_NAMESPACES_NAMED]),
                )
            ]
        if budget.max_unavailable is not None and owner is not None:
            usage = self._workloads.get(owner) or _Usage()
            at = usage.exceeded_at.get(number)
            nothing_missing = 0, budget.max_unavailable.of(max(usage.required, usage.desired))
            missing, limit = usage.closest.get(number, nothing_missing)
            return [
                BudgetResult(
                    name=name,
                    measured=missing,
                    limit=limit,
                    held=at is None,
                    at=at,
                    moments=usage.moments.get(number, ()),
                    why=usage.why.get(number, ""),
                )
            ]
        if budget.time_to_ready is not None:
            waits = all_waits.get(owner, Waits())
            times = waits.sorted_seconds()
            return [
                BudgetResult(
                    name=f"{name} {label}",
                    measured=(measured := percentile(times, share)),
                    limit=float(limit),
                    held=measured <= limit,
                    is_time=True,
                    pods=tuple(wait for wait in waits.slowest if wait.seconds > limit) if measured > limit else (),
                )
                for label, share in _PERCENTILES
                if (limit := getattr(budget.time_to_ready, label)) is not None
            ]
        if budget.writes is not None:
            assert self._simulation is not None, "the run has begun"
            by = budget.writes.by
            written = self._simulation.log.written_by
            used = sum(count for writer, count in written.items() if not by or writer.partition(" ")[0] == by)
            return [BudgetResult(name=name, measured=used, limit=budget.writes.max, held=used <= budget.writes.max)]
        assert budget.restarts is not None, "a budget has one measure"
        used = self._restarts.get(owner, 0) if owner is not None else sum(self._restarts.values())
        return [BudgetResult(name=name, measured=used, limit=budget.restarts.max, held=used <= budget.restarts.max)]


def _is_ready(pod: _Pod) -> bool:
    return any((condition.type, condition.status) == ("Ready", "True") for condition in pod.status.conditions)


def _add(
    waits: dict[Workload | None, Waits],
    owner: Workload | None,
    wait: Wait,
    timed: Iterable[Workload | None],
    times: TimesToReady,
) -> None:
    """Add to the waits of the owner and to those of all pods."""
    for workload in (None,) if owner is None else (owner, None):
        if workload not in waits:
            waits[workload] = Waits(_SLOWEST_NAMED if workload in timed else 0)
        waits[workload].add(wait, times.node_is_ready)


def _named(pods: list[str], more: int) -> tuple[str, ...]:
    return (*pods, *([f"and {more} more"] if more > 0 else []))


def workload_of(budget: Budget) -> Workload:
    """The workload of a budget."""
    kind, _slash, name = budget.workload.partition("/")
    return (WORKLOAD_KINDS[kind.lower()], budget.namespace, name)


def budget_name(budget: Budget) -> str:
    """The name of a budget without ``name``."""
    measure: Any = next(
        name for name in ("max_unavailable", "time_to_ready", "writes", "restarts") if getattr(budget, name) is not None
    )
    first, *others = measure.split("_")
    by = budget.writes.by if budget.writes is not None else ""
    workload = _label(budget.workload, budget.namespace) if budget.workload else ""
    return " ".join(filter(None, (first + "".join(map(str.capitalize, others)), workload, by)))


def _label(workload: str, namespace: str) -> str:
    """``deployment/web``, or ``deployment/web in shop`` outside of the default namespace."""
    return workload if namespace == "default" else f"{workload} in {namespace}"


def failure_of(results: tuple[BudgetResult, ...], at: float) -> Failure | None:
    """The failure of the first exceeded budget."""
    for result in results:
        if result.missing and result.elsewhere:
            message = (
                f"no such workload in namespace {result.namespace}: {result.missing}; there is one in "
                f"{', '.join(result.elsewhere)}: `namespace: {result.elsewhere[0]}`"
            )
            return Failure(kind="budget", name=result.name, message=message, at=at)
        if result.missing:
            message = (
                f"{result.missing} never existed in the run, so the budget measures nothing; correct workload or "
                "namespace (pods of a Deployment's ReplicaSet count as the Deployment's)"
            )
            return Failure(kind="budget", name=result.name, message=message, at=at)
        if not result.held:
            measured, limit = (
                (shown_seconds(result.measured), shown_seconds(result.limit))
                if result.is_time
                else (f"{result.measured:g}", f"{result.limit:g}")
            )
            message = f"{measured}, at most {limit} is allowed"
            if result.at is not None:
                message += f"; exceeded first at {shown_seconds(round(result.at, 3))}"
            message += "".join(f"\n  {pod}" for pod in result.pods)
            message += "".join(f"\n  {line}" for moment in result.moments for line in moment.lines())
            at = result.at if result.at is not None else at
            return Failure(kind="budget", name=result.name, message=message, at=at, why=result.why)
    return None
