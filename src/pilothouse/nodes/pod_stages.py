"""What comes next for a pod on a simulated node. Pure: the pod, what is remembered of it and the time in, a step out.

A pod moves ``BOUND`` → ``ACCEPTED`` → ``RUNNING`` → ``READY``, and after a deletion to ``STOPPED`` from wherever it is;
``pod_lives`` carries the steps out and writes once per stage.
"""

from enum import IntEnum

import msgspec

from pilothouse.api.core import Pod
from pilothouse.nodes import pod_status
from pilothouse.nodes.profile import Profile
from pilothouse.semantics.pods import is_terminal


class Stage(IntEnum):
    """How far a pod has come, by what has been written for it."""

    BOUND = 0
    ACCEPTED = 1
    RUNNING = 2
    """Containers run and are not ready yet."""
    READY = 3
    """Containers are ready; the pod may still wait for its readiness gates."""
    STOPPED = 4


class Memory(msgspec.Struct, kw_only=True):
    """What is remembered of one pod on top of the cache. Times are loop times."""

    uid: str
    stage: Stage
    since: float
    version: str = ""
    """The resourceVersion that the last write gave the pod. An older one in the cache says nothing."""
    address: str = ""
    stopping_since: float | None = None
    kill_at: float = float("inf")
    """When the grace period is over, by the shortest one seen."""
    differs_since: float | None = None
    """Since when the status is not what this node last wrote."""
    finished: bool = False
    """The final delete was sent: whatever keeps the object now is not the node's business."""


class Wait(msgspec.Struct, frozen=True):
    """Nothing to do for so long."""

    seconds: float


class Write(msgspec.Struct, frozen=True):
    """Write the status of ``stage``. ``killed``: the containers did not stop by themselves within the grace period."""

    stage: Stage
    killed: bool = False


class Remove(msgspec.Struct, frozen=True):
    """Send the final delete."""


class Rest(msgspec.Struct, frozen=True):
    """Nothing to do until the pod changes."""


Step = Wait | Write | Remove | Rest
REST = Rest()


def stage_of(pod: Pod) -> Stage:
    """Where a pod stands that nothing is remembered of: it was there before this process was."""
    if is_terminal(pod):
        return Stage.STOPPED
    if pod.status.phase == "Running":
        ready = any(c.type == "ContainersReady" and c.status == "True" for c in pod.status.conditions)
        return Stage.READY if ready else Stage.RUNNING
    return Stage.ACCEPTED if pod.status.start_time is not None else Stage.BOUND


def note(pod: Pod, memory: Memory, now: float) -> None:
    """Remember what has to be known later: since when the pod is stopping, how long it may, since when it differs."""
    if pod.metadata.deletion_timestamp is not None:
        if memory.stopping_since is None:
            memory.stopping_since = now
        # A second, shorter grace period counts from when it was given; a longer one is not accepted by the API server.
        memory.kill_at = min(memory.kill_at, now + (pod.metadata.deletion_grace_period_seconds or 0))
    if memory.stage in (Stage.BOUND, Stage.STOPPED) or _is_as_written(pod, memory.stage):
        memory.differs_since = None
    elif memory.differs_since is None:
        memory.differs_since = now


def decide(pod: Pod, memory: Memory, now: float, profile: Profile) -> Step:
    """The next step of a pod that ``note`` has seen."""
    if pod.metadata.deletion_timestamp is not None:
        return _decide_end(pod, memory, now, profile)
    if is_terminal(pod):
        return REST  # a phase that is over never changes again
    match memory.stage:
        case Stage.BOUND:
            return _after(profile.accept_delay, memory, now, Write(Stage.ACCEPTED))
        case Stage.ACCEPTED:
            running = Stage.RUNNING if profile.ready_delay > 0 else Stage.READY
            return _after(profile.start_delay, memory, now, Write(running))
        case Stage.RUNNING:
            return _after(profile.ready_delay, memory, now, Write(Stage.READY))
        case _:
            return _reassert(pod, memory, now, profile)


def _after(delay: float, memory: Memory, now: float, step: Step) -> Step:
    # The instant, not the rest of the delay: that may be too small to move a clock (47.1 + 7e-15 is 47.1), and a
    # virtual one would then stand still.
    due = memory.since + delay
    return step if now >= due else Wait(due - now)


def _reassert(pod: Pod, memory: Memory, now: float, profile: Profile) -> Step:
    """A kubelet compares its status with the API server's every ten seconds; readiness gates it looks at at once."""
    if memory.differs_since is None:
        return REST
    due = memory.differs_since + (0.0 if pod.spec.readiness_gates else profile.sync_period)
    return Write(memory.stage) if now >= due else Wait(due - now)


def _decide_end(pod: Pod, memory: Memory, now: float, profile: Profile) -> Step:
    if memory.finished or (is_terminal(pod) and pod.metadata.deletion_grace_period_seconds == 0):
        return REST  # only finalizers keep it
    if not is_terminal(pod):
        assert memory.stopping_since is not None, "note() comes before decide()"
        # Containers that never ran need no time to stop.
        ran = memory.stage >= Stage.RUNNING
        stops_at = memory.stopping_since + (profile.stop_delay if ran else 0.0)
        due = min(stops_at, memory.kill_at)
        return Write(Stage.STOPPED, killed=memory.kill_at < stops_at) if now >= due else Wait(due - now)
    return _after(profile.remove_delay, memory, now, Remove())


def _is_as_written(pod: Pod, stage: Stage) -> bool:
    generation = pod.metadata.generation
    expected = pod_status.expected(pod, initialized=stage > Stage.ACCEPTED, ready=stage is Stage.READY)
    found = 0
    for condition in pod.status.conditions:
        wanted = expected.get(condition.type)
        if wanted is None:
            continue
        found += 1
        if condition.status != wanted or condition.observed_generation not in (generation, 0):
            return False
    return found == len(expected)
