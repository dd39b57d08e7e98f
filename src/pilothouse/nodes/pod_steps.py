"""Decides the next step for a pod on a simulated node, from the pod, its state in memory and the time. Pure.

A bound pod is admitted or rejected by its node; after that its containers (``containers``) decide, until it is deleted
or evicted, or ends by itself. ``pod_workers`` carries the steps out: one write per change of the status.
"""

import datetime
import math
from typing import Any

import msgspec

from pilothouse.nodes import pod_status
from pilothouse.nodes.behaviour import Behaviour
from pilothouse.nodes.containers import (
    ENDED,
    KILLED_CODE,
    RUNNING,
    Course,
    Ended,
    Run,
    advance,
    new_course,
    next_change,
    stop,
)
from pilothouse.nodes.pod_status import Verdict
from pilothouse.nodes.profile import Profile
from pilothouse.nodes.views import NodeContainerStatus, NodePod, Terminated
from pilothouse.semantics.pods import is_terminal

DEADLINE = Verdict("DeadlineExceeded", "Pod was active on the node longer than the specified deadline")


class Memory(msgspec.Struct, kw_only=True):
    """What is remembered of one pod on top of the cache. Times are loop times."""

    uid: str
    behaviour: Behaviour
    annotations: dict[str, str]
    seen_at: float
    course: Course | None = None
    """None until the node has taken the pod."""
    written: tuple[Any, ...] | None = None
    """The fingerprint of the last write."""
    version: str = ""
    """The resourceVersion that the last write gave the pod. An older one in the cache says nothing."""
    address: str = ""
    verdict: Verdict | None = None
    deadline_at: float = math.inf
    stopping_since: float | None = None
    kill_at: float = math.inf
    """When the grace period is over, by the shortest one seen."""
    ended_at: float = 0.0
    """When the terminal phase was written or first seen."""
    differs_since: float | None = None
    """Since when the status is not what this node last wrote."""
    finished: bool = False
    """The final delete was sent: whatever keeps the object now is not the node's business."""


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do for so long."""

    seconds: float


class Take(msgspec.Struct, frozen=True):
    """Look whether the node can take the pod."""


class Write(msgspec.Struct, frozen=True):
    """Write the status."""


class Remove(msgspec.Struct, frozen=True):
    """Send the final delete."""


class Rest(msgspec.Struct, frozen=True):
    """Nothing to do until the pod changes."""


Step = Wait | Take | Write | Remove | Rest
REST, TAKE, WRITE, REMOVE = Rest(), Take(), Write(), Remove()


def begin(pod: NodePod, behaviour: Behaviour, profile: Profile, begins_at: float) -> Course:
    """The containers of a pod that starts from nothing."""
    spec = pod.spec
    return new_course(
        spec.init_containers, spec.containers, spec.restart_policy, behaviour, begins_at, profile.restart_gap
    )


def deadline_of(pod: NodePod, now: pod_status.Moment) -> float:
    """When ``activeDeadlineSeconds`` are over, infinite without."""
    seconds = pod.spec.active_deadline_seconds
    if seconds is None:
        return math.inf
    return _loop_time(pod.status.start_time, now) + seconds


def note(pod: NodePod, memory: Memory, now: float) -> None:
    """Remember what has to be known later: since when the pod is stopping, how long it may, since when it differs."""
    if pod.metadata.deletion_timestamp is not None:
        if memory.stopping_since is None:
            memory.stopping_since = now
            if memory.course is not None:
                advance(memory.course, now)
                memory.course.stopping = True
                for run in memory.course.runs:
                    # What was scripted does not hold for the end; readiness is probed on, liveness is not.
                    run.unhealthy_at = math.inf
        # A second, shorter grace period counts from when it was given; a longer one is not accepted by the API server.
        memory.kill_at = min(memory.kill_at, now + (pod.metadata.deletion_grace_period_seconds or 0))
    if is_terminal(pod):
        memory.ended_at = memory.ended_at or now
    course = memory.course
    ours = memory.version != "" and pod.metadata.resource_version == memory.version
    if course is None or memory.written is None or is_terminal(pod) or ours or _is_as_written(pod, course):
        memory.differs_since = None
    elif memory.differs_since is None:
        memory.differs_since = now


def decide(pod: NodePod, memory: Memory, now: float, profile: Profile) -> Step:
    """The next step of a pod that ``note`` has seen. Lets everything happen to its containers that is due."""
    if memory.finished:
        return REST
    deleted = pod.metadata.deletion_timestamp is not None
    if is_terminal(pod):
        if not deleted:
            return REST  # a phase that is over never changes again
        # kube-apiserver writes the grace period of 0 first and deletes then: one that dies in between leaves a pod that
        # looks as if finalizers kept it.
        if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
            return REST
        return _after(memory.ended_at + memory.behaviour.remove_delay, now, REMOVE)
    course = memory.course
    if course is None:
        if deleted:
            return TAKE  # a pod that nothing ran of has to be written as lost
        return _after(memory.seen_at + memory.behaviour.accept_delay, now, TAKE)
    advance(course, now)
    if now >= memory.deadline_at and memory.verdict is None:
        memory.verdict = DEADLINE
    due = math.inf
    if deleted:
        due = _decide_end(memory, course, now)
    elif memory.verdict is not None:
        stop(course, now, KILLED_CODE)
    if pod_status.fingerprint(course, memory.verdict) != memory.written:
        return WRITE
    if memory.differs_since is not None:
        # A kubelet compares its status with the API server's every ten seconds; readiness gates it looks at at once.
        at = memory.differs_since + (0.0 if pod.spec.readiness_gates else profile.sync_period)
        if now >= at:
            return WRITE
        due = min(due, at)
    due = min(due, next_change(course), memory.deadline_at if memory.verdict is None else math.inf)
    return REST if math.isinf(due) else Wait(due - now)


def _decide_end(memory: Memory, course: Course, now: float) -> float:
    """Let the containers of a deleted pod end; return when, if that is still to come."""
    assert memory.stopping_since is not None, "note() comes before decide()"
    # Containers that never ran need no time to stop.
    stops_at = memory.stopping_since + (memory.behaviour.stop_delay if course.alive else 0.0)
    due = min(stops_at, memory.kill_at)
    if now < due:
        return due
    stop(course, due, KILLED_CODE if memory.kill_at < stops_at else None)
    return math.inf


def _after(due: float, now: float, step: Step) -> Step:
    # The instant, not the rest of the delay: that may be too small to move a clock (47.1 + 7e-15 is 47.1), and a
    # virtual one would then stand still.
    return step if now >= due else Wait(due - now)


def _is_as_written(pod: NodePod, course: Course) -> bool:
    generation = pod.metadata.generation
    wanted = pod_status.expected(pod, course)
    found = 0
    for condition in pod.status.conditions:
        status = wanted.get(condition.type)
        if status is None:
            continue
        found += 1
        if condition.status != status or condition.observed_generation not in (generation, 0):
            return False
    return found == len(wanted)


# After a restart of the simulator


def recover(pod: NodePod, behaviour: Behaviour, profile: Profile, now: pod_status.Moment) -> Course | None:
    """The containers as the pod's status tells of them, None if no node has taken the pod yet."""
    if pod.status.start_time is None or is_terminal(pod):
        return None
    course = begin(pod, behaviour, profile, now.loop + behaviour.start_delay)
    shown = pod.status
    known = {
        status.name: status
        for status in (
            *shown.init_container_statuses, *shown.container_statuses, *shown.ephemeral_container_statuses
        )
    }  # fmt: skip
    for run in course.all_runs:
        status = known.get(run.name)
        if status is not None:
            _recover(run, status, now)
    course.sandbox = any(c.type == "PodReadyToStartContainers" and c.status == "True" for c in pod.status.conditions)
    if course.sandbox or course.ran:
        course.begins_at = now.loop
    return course


def _recover(run: Run, status: NodeContainerStatus, now: pod_status.Moment) -> None:
    run.restarts = status.restart_count
    if status.last_state.terminated is not None:
        run.last = _ended(status.last_state.terminated, status.restart_count - 1, now)
    if status.state.running is not None:
        run.state, run.since = RUNNING, _loop_time(status.state.running.started_at, now)
        run.started, run.ready, run.started_at = status.started, status.ready, run.since
        run.ends_at = max(now.loop, run.since + run.script.run(run.restarts)[0])
        if not run.started:
            run.startup_at = max(now.loop, run.since + run.script.startup.first(True))
        elif not run.init or run.sidecar:
            if not run.ready:
                run.probe_at = max(now.loop, run.since + run.script.readiness.first(True))
            run.unhealthy_at = max(now.loop, run.since + run.script.liveness.first(False))
    elif status.state.terminated is not None:
        run.state, run.ready = ENDED, status.ready
        run.end = _ended(status.state.terminated, status.restart_count, now)
    elif run.last is not None:
        # It waited for its restart. The kubelet that did is gone, and its patience with it.
        run.end, run.last, run.state = run.last, None, ENDED


def _ended(state: Terminated, run: int, now: pod_status.Moment) -> Ended:
    started, finished = _loop_time(state.started_at, now), _loop_time(state.finished_at, now)
    return Ended(state.exit_code, state.reason, state.message, started, finished, max(0, run))


def _loop_time(at: datetime.datetime | None, now: pod_status.Moment) -> float:
    return now.loop if at is None else now.loop - (now.wall - at).total_seconds()
