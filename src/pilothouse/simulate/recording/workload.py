"""``WorkloadTracker``: counts the pods of one owner, updated with each change."""

from pilothouse.simulate.recording import structs
from pilothouse.simulate.recording.bounds import Demand
from pilothouse.simulate.recording.pods import PodState
from pilothouse.simulate.recording.series import Durations, StepSeries

MAX_REVISIONS = 12
MAX_ROLLOUTS = 50
MAX_BOUNDS = 4
MAX_CLIENTS = 12
OTHERS = "others"
_JOBS = ("Job", "CronJob")


class _RevisionTracker:
    def __init__(self, name: str, at: float) -> None:
        self.name = name
        self.numbers: list[str] = []
        self.image = ""
        self.pods = StepSeries(at)

    def number(self) -> str:
        return ", ".join(self.numbers)


class _BoundTracker:
    """A required number of ready pods, and how long it was not met after it was met once."""

    def __init__(self, name: str, at: float) -> None:
        self.name = name
        self.least = StepSeries(at)
        self.seconds_below = 0.0
        self.most_below = 0
        self._below_since: float | None = None

    def recount(self, at: float, ready: int, owed: int) -> None:
        """``owed``: the number of pods that were ready before, at most the desired number."""
        least = self.least.value
        below = least - ready if owed >= least else 0
        if below > 0:
            self.most_below = max(self.most_below, below)
            if self._below_since is None:
                self._below_since = at
        else:
            self.close(at)

    def close(self, at: float) -> None:
        """The requirement is met, or recording ends."""
        if self._below_since is not None:
            self.seconds_below += at - self._below_since
            self._below_since = None


class _RolloutTracker:
    def __init__(self, revision: str, number: str, at: float) -> None:
        self.revision = revision
        self.number = number
        self.began = at
        self.finished: float | None = None
        self.fewest_ready: int | None = None
        self.most_pods = 0

    def recount(self, ready: int, pods: int) -> None:
        self.fewest_ready = ready if self.fewest_ready is None else min(self.fewest_ready, ready)
        self.most_pods = max(self.most_pods, pods)


class WorkloadTracker:
    """One workload. Times are those of the run and must not decrease."""

    def __init__(self, kind: str, namespace: str, name: str, at: float) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.labels: dict[str, str] = {}
        """The labels of the pod that was created last; selectors of PodDisruptionBudgets are matched against them."""
        self.created_in_run = True
        self._created = at
        self._deleted: float | None = None
        self._revisions: dict[str, _RevisionTracker] = {}
        self._desired = StepSeries(at)
        self._parts: dict[str, int] = {}
        """Desired pods by the uid of the owner: a CronJob has several Jobs."""
        self._ready = StepSeries(at)
        self._unavailable = StepSeries(at)
        self._pending = StepSeries(at)
        self._terminating = StepSeries(at)
        self._succeeded = StepSeries(at)
        self._failed = StepSeries(at)
        self._active = 0
        self._owed = 0
        """The maximum number of ready pods since the desired number was last lower."""
        self._most_unavailable = 0
        self._bounds: dict[str, _BoundTracker] = {}
        self._target: tuple[int, str] | None = None
        self._rollouts: list[_RolloutTracker] = []
        self._durations = Durations()
        self._never_ready = 0
        self._pods_created = self._pods_deleted = self._restarts = self._evictions = 0
        self._deleted_by: dict[str, int] = {}

    # Owner

    @property
    def desired(self) -> int:
        """The desired number of pods."""
        return self._desired.value

    def set_desired(self, at: float, uid: str, pods: int) -> None:
        """Set the desired number of pods of the owner with this uid."""
        if pods:
            self._parts[uid] = pods
        else:
            self._parts.pop(uid, None)
        self._desired.set(at, sum(self._parts.values()))
        self._recount(at)

    def set_requirements(self, at: float, demands: list[Demand]) -> None:
        """Replace the requirements."""
        names = {demand.name: demand.least for demand in demands[:MAX_BOUNDS]}
        for name, least in names.items():
            if name not in self._bounds and len(self._bounds) < 2 * MAX_BOUNDS:
                self._bounds[name] = _BoundTracker(name, at)
            if name in self._bounds:
                self._bounds[name].least.set(at, least)
        for name, bound in self._bounds.items():
            if name not in names:
                bound.least.set(at, 0)
        self._recount(at)

    def set_revision_number(self, at: float, revision: str, number: int) -> None:
        """Set the number of a revision. The revision with the highest number is rolled out."""
        tracker = self._revision(revision, at)
        if str(number) not in tracker.numbers:
            tracker.numbers = [*tracker.numbers, str(number)][-3:]
        if self._target is not None and number <= self._target[0]:
            return
        first, self._target = self._target is None, (number, revision)
        if first and not self.created_in_run:
            return
        if len(self._rollouts) < MAX_ROLLOUTS:
            self._rollouts.append(_RolloutTracker(revision, str(number), at))
        self._recount(at)

    def delete(self, at: float) -> None:
        """The owner was removed."""
        self._deleted = at

    # Pods

    def pod_changed(self, at: float, old: PodState | None, now: PodState | None) -> None:
        """Update the counts for a changed pod."""
        if old is not None and old.active:
            self._count_active(at, old, -1)
        if now is not None and now.active:
            self._count_active(at, now, 1)
        was_terminating = old is not None and old.terminating
        is_terminating = now is not None and now.terminating
        self._terminating.add(at, is_terminating - was_terminating)
        if now is not None:
            phase = old.phase if old is not None else ""
            self._succeeded.add(at, now.phase == "Succeeded" != phase)
            # A kubelet also reports Failed for pods that were stopped on request; for a service that is not a failure.
            stopped = was_terminating and self.kind not in _JOBS
            self._failed.add(at, now.phase == "Failed" != phase and not stopped)
            self._restarts += max(0, now.restarts - (old.restarts if old is not None else 0))
        self._recount(at)

    def _count_active(self, at: float, pod: PodState, sign: int) -> None:
        self._active += sign
        revision = self._revision(pod.revision, at)
        revision.pods.add(at, sign)
        revision.image = pod.image or revision.image
        if pod.ready:
            self._ready.add(at, sign)
        if pod.pending:
            self._pending.add(at, sign)

    def _revision(self, name: str, at: float) -> _RevisionTracker:
        revision = self._revisions.get(name)
        if revision is None:
            if len(self._revisions) >= MAX_REVISIONS:
                name = OTHERS
            revision = self._revisions.setdefault(name, _RevisionTracker(name, at))
        return revision

    def pod_created(self) -> None:
        """Count a pod that was created in this run."""
        self._pods_created += 1

    def pod_waited(self, seconds: float, *, was_ready: bool) -> None:
        """Record a finished wait of a pod to be ready."""
        self._durations.add(seconds)
        self._never_ready += not was_ready

    def pod_deleted(self, client: str, *, evicted: bool) -> None:
        """Count a pod that was marked for deletion, or removed without that."""
        self._pods_deleted += 1
        self._evictions += evicted
        if client not in self._deleted_by and len(self._deleted_by) >= MAX_CLIENTS:
            client = OTHERS
        self._deleted_by[client] = self._deleted_by.get(client, 0) + 1

    # Derived

    def _recount(self, at: float) -> None:
        ready, desired = self._ready.value, self._desired.value
        if self.kind not in _JOBS:
            self._owed = min(max(self._owed, ready), desired)
            missing = max(0, self._owed - ready)
            self._unavailable.set(at, missing)
            self._most_unavailable = max(self._most_unavailable, missing)
            for bound in self._bounds.values():
                bound.recount(at, ready, self._owed)
        if self._rollouts and self._rollouts[-1].finished is None and self._target is not None:
            rollout = self._rollouts[-1]
            rollout.recount(ready, self._active + self._terminating.value)
            target = self._revisions.get(rollout.revision)
            of_target = target.pods.value if target is not None else 0
            if rollout.revision == self._target[1] and of_target == self._active and ready >= desired > 0:
                rollout.finished = at

    def workload(self, at: float) -> structs.Workload:
        """The recorded values at the end of the run."""
        for bound in self._bounds.values():
            bound.close(at)
        jobs = self.kind in _JOBS
        nothing = structs.Steps()
        return structs.Workload(
            kind=self.kind,
            namespace=self.namespace,
            name=self.name,
            created=self._created,
            deleted=self._deleted,
            revisions=[
                structs.Revision(
                    name=revision.name, number=revision.number(), image=revision.image, pods=revision.pods.steps()
                )
                for revision in self._revisions.values()
                if revision.pods.steps().most
            ],
            desired=self._desired.steps(),
            ready=self._ready.steps(),
            unavailable=nothing if jobs else self._unavailable.steps(),
            pending=self._pending.steps(),
            terminating=self._terminating.steps(),
            succeeded=self._succeeded.steps() if jobs else nothing,
            failed=self._failed.steps(),
            bounds=[
                structs.Bound(
                    name=tracker.name,
                    least=tracker.least.steps(),
                    seconds_below=round(tracker.seconds_below, 3),
                    most_below=tracker.most_below,
                )
                for tracker in self._bounds.values()
            ],
            rollouts=[
                structs.Rollout(
                    revision=rollout.revision,
                    number=rollout.number,
                    began=round(rollout.began, 3),
                    finished=None if rollout.finished is None else round(rollout.finished, 3),
                    fewest_ready=rollout.fewest_ready or 0,
                    most_pods=rollout.most_pods,
                )
                for rollout in self._rollouts
            ],
            time_to_ready=self._durations.percentiles(),
            never_ready=self._never_ready,
            most_unavailable=self._most_unavailable,
            pods_created=self._pods_created,
            pods_deleted=self._pods_deleted,
            restarts=self._restarts,
            evictions=self._evictions,
            deleted_by=dict(sorted(self._deleted_by.items(), key=lambda entry: (-entry[1], entry[0]))),
        )
