"""Decides the next step of a pod worker from the pod, its sync status and the time. Pure.

A node admits or rejects a bound pod; then its containers (``containers``) determine the steps, until the pod is
deleted, evicted, or finished. ``pod_workers`` executes the steps: one write per change of the status.
"""

import datetime
import math
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.nodes import pod_status
from pilothouse.nodes.behaviour import Behaviour
from pilothouse.nodes.containers import (
    KILLED_CODE,
    RUNNING,
    TERMINATED,
    RuntimeContainer,
    RuntimePod,
    Termination,
    advance,
    new_runtime_pod,
    next_change,
    stop,
)
from pilothouse.nodes.pod_status import PodFailure
from pilothouse.nodes.profile import Profile
from pilothouse.nodes.views import NodeContainerStatus, NodePod, Terminated
from pilothouse.semantics.pods import is_terminal

if TYPE_CHECKING:
    from pilothouse.nodes.references import Configuration

DEADLINE = PodFailure("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class PodSyncStatus(msgspec.Struct, kw_only=True):
    """The state of one pod worker in addition to the cache, as the kubelet's ``podSyncStatus``. Times are loop
    times."""

    uid: str
    behaviour: Behaviour
    annotations: dict[str, str]
    seen_at: float
    runtime_pod: RuntimePod | None = None
    """None before the node has admitted the pod."""
    configuration: "Configuration | None" = None
    """None for pods that need no ConfigMap or Secret."""
    written: tuple[Any, ...] | None = None
    """The fingerprint of the last write."""
    version: str = ""
    """The resourceVersion of the last write. An older one in the cache is ignored."""
    address: str = ""
    failure: PodFailure | None = None
    active_deadline_seconds: int | None = None
    """Those that ``deadline_at`` was computed from."""
    deadline_at: float = math.inf
    stopping_since: float | None = None
    kill_at: float = math.inf
    """When the shortest grace period so far is over."""
    ended_at: float = 0.0
    """When the terminal phase was written or first observed."""
    differs_since: float | None = None
    """Since when the status has differed from this node's last write."""
    finished: bool = False
    """The final delete was sent: if finalizers keep the object, the node does nothing more."""


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do for this long."""

    seconds: float


class Admit(msgspec.Struct, frozen=True):
    """Admit or reject the pod."""


class WriteStatus(msgspec.Struct, frozen=True):
    """Write the status."""


class DeletePod(msgspec.Struct, frozen=True):
    """Send the final delete."""


class Idle(msgspec.Struct, frozen=True):
    """Nothing to do until the pod changes."""


Step = Wait | Admit | WriteStatus | DeletePod | Idle
IDLE, ADMIT, WRITE_STATUS, DELETE_POD = Idle(), Admit(), WriteStatus(), DeletePod()


def update_deadline(pod: NodePod, sync_status: PodSyncStatus, now: pod_status.Instant) -> None:
    """Set when ``activeDeadlineSeconds`` are over. Like a kubelet, which reads them in each sync, a node obeys those
    that are set or shortened while the pod runs."""
    seconds = pod.spec.active_deadline_seconds
    sync_status.active_deadline_seconds = seconds
    sync_status.deadline_at = math.inf if seconds is None else _loop_time(pod.status.start_time, now) + seconds


def observe(pod: NodePod, sync_status: PodSyncStatus, now: float) -> None:
    """Update the deletion, the grace period and the difference from the last write in the sync status."""
    if pod.metadata.deletion_timestamp is not None:
        if sync_status.stopping_since is None:
            sync_status.stopping_since = now
            if sync_status.runtime_pod is not None:
                advance(sync_status.runtime_pod, now)
                sync_status.runtime_pod.stopping = True
                for container in sync_status.runtime_pod.containers:
                    # While a pod terminates readiness is still probed, liveness is not.
                    container.unhealthy_at = math.inf
        # A second, shorter grace period starts when it is set; the API server does not accept a longer one.
        sync_status.kill_at = min(sync_status.kill_at, now + (pod.metadata.deletion_grace_period_seconds or 0))
    if is_terminal(pod):
        sync_status.ended_at = sync_status.ended_at or now
    runtime_pod = sync_status.runtime_pod
    is_own_write = sync_status.version != "" and pod.metadata.resource_version == sync_status.version
    if (
        runtime_pod is None
        or sync_status.written is None
        or is_terminal(pod)
        or is_own_write
        or _is_as_written(pod, runtime_pod)
    ):
        sync_status.differs_since = None
    elif sync_status.differs_since is None:
        sync_status.differs_since = now


def decide(pod: NodePod, sync_status: PodSyncStatus, now: float, profile: Profile) -> Step:
    """The next step after ``observe``. Advances the containers to ``now``."""
    if sync_status.finished:
        return IDLE
    deleted = pod.metadata.deletion_timestamp is not None
    if is_terminal(pod):
        if not deleted:
            return IDLE  # a terminal phase never changes
        # kube-apiserver writes the grace period of 0 before it deletes: if it crashes in between, the pod looks as if
        # finalizers kept it.
        if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
            return IDLE
        return _after(sync_status.ended_at + sync_status.behaviour.remove_delay, now, DELETE_POD)
    runtime_pod = sync_status.runtime_pod
    if runtime_pod is None:
        if deleted:
            return ADMIT  # its containers have to be reported as lost
        return _after(sync_status.seen_at + sync_status.behaviour.accept_delay, now, ADMIT)
    advance(runtime_pod, now)
    if now >= sync_status.deadline_at and sync_status.failure is None:
        sync_status.failure = DEADLINE
    due = math.inf
    if deleted:
        due = _decide_end(sync_status, runtime_pod, now)
    elif sync_status.failure is not None:
        stop(runtime_pod, now, KILLED_CODE)
    if pod_status.fingerprint(runtime_pod, sync_status.failure) != sync_status.written:
        return WRITE_STATUS
    if sync_status.differs_since is not None:
        # A kubelet compares its status with the API server's every ten seconds. It follows changes of readiness gates,
        # and of the spec and the deletion, which have a new generation, immediately.
        immediately = pod.spec.readiness_gates or _has_new_generation(pod)
        at = sync_status.differs_since + (0.0 if immediately else profile.sync_period)
        if now >= at:
            return WRITE_STATUS
        due = min(due, at)
    if sync_status.configuration is not None and not deleted and sync_status.failure is None:
        due = min(due, max(now, sync_status.configuration.retry_at))
    due = min(due, next_change(runtime_pod), sync_status.deadline_at if sync_status.failure is None else math.inf)
    return IDLE if math.isinf(due) else Wait(due - now)


def _decide_end(sync_status: PodSyncStatus, runtime_pod: RuntimePod, now: float) -> float:
    """Stop the containers of a deleted pod, or return when they stop."""
    assert sync_status.stopping_since is not None, "note() comes before decide()"
    # Containers that never ran need no time to stop.
    stops_at = sync_status.stopping_since + (sync_status.behaviour.stop_delay if runtime_pod.alive else 0.0)
    due = min(stops_at, sync_status.kill_at)
    if now < due:
        return due
    stop(runtime_pod, due, KILLED_CODE if sync_status.kill_at < stops_at else None)
    return math.inf


def _after(due: float, now: float, step: Step) -> Step:
    # Use the time itself, not the remaining delay: that may be too small to advance a clock (47.1 + 7e-15 is 47.1), and
    # a virtual clock would then stop.
    return step if now >= due else Wait(due - now)


def _has_new_generation(pod: NodePod) -> bool:
    """Whether a condition is of an older generation; ``kubectl wait`` ignores such a condition."""
    # 0: written by a client that reports no generation, or a server older than 1.33.
    return any(
        condition.type in pod_status.OWNED and condition.observed_generation not in (pod.metadata.generation, 0)
        for condition in pod.status.conditions
    )


def _is_as_written(pod: NodePod, runtime_pod: RuntimePod) -> bool:
    generation = pod.metadata.generation
    wanted = pod_status.expected(pod, runtime_pod)
    matching = 0
    for condition in pod.status.conditions:
        status = wanted.get(condition.type)
        if status is None:
            continue
        matching += 1
        if condition.status != status or condition.observed_generation not in (generation, 0):
            return False
    return matching == len(wanted)


# After a restart of the simulator


def recover(pod: NodePod, behaviour: Behaviour, profile: Profile, now: pod_status.Instant) -> RuntimePod | None:
    """The containers according to the pod's status, None if the node has not admitted the pod yet."""
    if pod.status.start_time is None or is_terminal(pod):
        return None
    runtime_pod = new_runtime_pod(pod, behaviour, profile, now.loop + behaviour.start_delay)
    reported = pod.status
    statuses = {
        status.name: status
        for status in (
            *reported.init_container_statuses, *reported.container_statuses, *reported.ephemeral_container_statuses
        )
    }  # fmt: skip
    for container in runtime_pod.all_containers:
        status = statuses.get(container.name)
        if status is not None:
            _recover(container, status, now)
    runtime_pod.sandbox = any(
        c.type == "PodReadyToStartContainers" and c.status == "True" for c in pod.status.conditions
    )
    if runtime_pod.sandbox or runtime_pod.ran:
        runtime_pod.starts_at = now.loop
        for container in runtime_pod.containers:
            container.pull_seconds = 0.0
    return runtime_pod


def _recover(container: RuntimeContainer, status: NodeContainerStatus, now: pod_status.Instant) -> None:
    container.restarts = status.restart_count
    if status.last_state.terminated is not None:
        container.last = _termination(status.last_state.terminated, status.restart_count - 1, now)
    if status.state.running is not None:
        container.state, container.since = RUNNING, _loop_time(status.state.running.started_at, now)
        container.started, container.ready, container.started_at = status.started, status.ready, container.since
        container.ends_at = max(now.loop, container.since + container.script.run(container.restarts)[0])
        if not container.started:
            container.startup_at = max(now.loop, container.since + container.script.startup.first(True))
        elif not container.init or container.sidecar:
            if not container.ready:
                container.probe_at = max(now.loop, container.since + container.script.readiness.first(True))
            container.unhealthy_at = max(now.loop, container.since + container.script.liveness.first(False))
    elif status.state.terminated is not None:
        container.state, container.ready = TERMINATED, status.ready
        container.end = _termination(status.state.terminated, status.restart_count, now)
    elif container.last is not None:
        # It waited for its restart; the back-off is lost with the old process.
        container.end, container.last, container.state = container.last, None, TERMINATED


def _termination(state: Terminated, restart_count: int, now: pod_status.Instant) -> Termination:
    started, finished = _loop_time(state.started_at, now), _loop_time(state.finished_at, now)
    return Termination(state.exit_code, state.reason, state.message, started, finished, max(0, restart_count))


def _loop_time(at: datetime.datetime | None, now: pod_status.Instant) -> float:
    return now.loop if at is None else now.loop - (now.wall - at).total_seconds()
