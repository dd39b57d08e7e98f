"""The containers of one pod as a runtime would have them: who runs, who waits, who has ended, and when that changes.

Pure but for the values it changes: ``advance`` lets everything happen that is due, each thing at its own instant, so
that a node that was silent for an hour tells afterwards what happened meanwhile. ``behaviour`` says what containers do,
``pod_status`` what is written about them, ``pod_workers`` carries it. Times are loop times.

Rules: init containers one by one, sidecars (restartPolicy Always) started before the next, then all others; restarts by
policy, the first at once, then after 10 s doubling to 5 min, from the start again after 10 min without a restart;
sidecars end after the others; ephemeral containers start as soon as there is a sandbox, run once, and end with the
rest (kubelet v1.36 ``pkg/kubelet/kuberuntime``, client-go ``util/flowcontrol/backoff.go``). A container whose image
cannot be had waits, as ``image_pulls`` says.
"""

import math
from collections.abc import Sequence

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.nodes.behaviour import Behaviour, Script
from pilothouse.nodes.views import NodeContainer

with lazy_imports():
    from pilothouse.nodes import image_pulls

BACKOFF_SECONDS = (10.0, 300.0)
"""First and longest wait before a restart that is not the first."""
BACKOFF_RESET_SECONDS = 600.0

WAITING, RUNNING, ENDED = "waiting", "running", "ended"
KILLED_CODE = 137
LOST_CODE = 255
"""What a runtime says of containers that it finds ended after a boot."""
CRASH_LOOP = "CrashLoopBackOff"


class Ended(msgspec.Struct, frozen=True):
    """How a run of a container ended."""

    code: int
    reason: str
    message: str
    started_at: float
    finished_at: float
    run: int
    """Which of its runs it was, counted from 0."""


class ContainerEvent(msgspec.Struct, frozen=True):
    """Something that a kubelet tells in an event: about which container (by its place), reason, message."""

    place: int
    reason: str
    message: str
    warning: bool = False


class Run(msgspec.Struct, kw_only=True):
    """One container. ``since`` is when its state began; ``*_at`` are the instants at which something will happen."""

    name: str
    script: Script
    init: bool
    sidecar: bool
    policy: str
    """``Always``, ``OnFailure`` or ``Never``."""
    ephemeral: bool = False
    added_at: float = 0.0
    """When it came, for ephemeral ones."""
    state: str = WAITING
    since: float = 0.0
    reason: str = ""
    """Why it waits, where that is neither creation nor initialization."""
    message: str = ""
    """What is said about that."""
    restarts: int = 0
    started: bool = False
    """Its startup probe has passed."""
    started_at: float = 0.0
    ready: bool = False
    end: Ended | None = None
    last: Ended | None = None
    ends_at: float = math.inf
    startup_at: float = math.inf
    probe: int = 0
    probe_at: float = math.inf
    unhealthy_at: float = math.inf
    restart_at: float = math.inf
    backoff: float = 0.0
    backed_off_at: float = 0.0
    pull_at: float = math.inf
    next_pull_at: float = math.inf
    pull_backoff: float = 0.0

    @property
    def restartable(self) -> bool:
        """Whether its last end leads to a restart."""
        assert self.end is not None, "asked of a container that has ended"
        return self.policy == "Always" or (self.policy == "OnFailure" and self.end.code != 0)

    @property
    def over(self) -> bool:
        """It has ended and is not started again."""
        return self.state == ENDED and not self.restartable


class Course(msgspec.Struct, kw_only=True):
    """The containers of a pod, in the order init containers, containers, and what applies to all of them."""

    runs: list[Run]
    ephemeral: list[Run] = msgspec.field(default_factory=list)
    inits: int
    begins_at: float
    """When the first container may start: images are there, volumes mounted."""
    gap: float
    """From an end to what follows."""
    stop_delay: float
    sandbox: bool = False
    stopping: bool = False
    """Nothing starts any more."""
    happened: list[ContainerEvent] = msgspec.field(default_factory=list)

    @property
    def all_runs(self) -> list[Run]:
        """Ephemeral containers included. Places count in this order."""
        return [*self.runs, *self.ephemeral] if self.ephemeral else self.runs

    @property
    def ran(self) -> bool:
        """Whether any container ever ran."""
        return any(run.state != WAITING or run.restarts for run in self.runs)

    @property
    def alive(self) -> bool:
        """Whether any container runs."""
        return any(run.state == RUNNING for run in self.all_runs)


def new_course(
    init_containers: Sequence[NodeContainer],
    containers: Sequence[NodeContainer],
    policy: str,
    behaviour: Behaviour,
    begins_at: float,
    gap: float,
) -> Course:
    """The containers of a pod before any has started."""
    inits = len(init_containers)
    runs = []
    for place, container in enumerate((*init_containers, *containers)):
        sidecar = place < inits and container.restart_policy == "Always"
        own = container.restart_policy or policy or "Always"
        if place < inits and not container.restart_policy:
            # The pod's Always is for what is to run; what prepares has to succeed once.
            own = "Never" if policy == "Never" else "OnFailure"
        runs.append(
            Run(name=container.name, script=behaviour.scripts[place], init=place < inits, sidecar=sidecar, policy=own)
        )
    course = Course(runs=runs, inits=inits, begins_at=begins_at, gap=gap, stop_delay=behaviour.stop_delay)
    _add_ephemeral(course, behaviour, 0.0)
    return course


def _add_ephemeral(course: Course, behaviour: Behaviour, now: float) -> None:
    """Those that have come, wherever in the list; none is ever taken away."""
    known = {run.name: run for run in course.ephemeral}
    course.ephemeral = [
        known.get(name)
        or Run(name=name, script=script, init=False, sidecar=False, policy="Never", ephemeral=True, added_at=now)
        for name, script in behaviour.ephemeral
    ]


def advance(course: Course, now: float) -> None:
    """Everything happens that is due by ``now``, in order."""
    while True:
        place, at = _next(course)
        if at > now:
            return
        if place < 0:
            end_sidecars(course, at)
        else:
            _change(course, place, at)


def next_change(course: Course) -> float:
    """When something happens next, infinite if nothing does by itself."""
    return _next(course)[1]


def stop(course: Course, at: float, code: int | None = None, reason: str = "") -> None:
    """Every container that runs ends now: with its own exit code for that, or with ``code``."""
    course.stopping = True
    for run in course.all_runs:
        if run.state == RUNNING:
            _end(run, at, run.script.stop_exit_code if code is None else code, reason)


def end_sidecars(course: Course, at: float) -> None:
    """The others are over, so the sidecars end too."""
    stop(course, at)


def lose(course: Course, at: float) -> None:
    """The machine has booted anew: what ran has ended without anybody's doing, and has to be prepared again."""
    if course.stopping:
        stop(course, at, LOST_CODE, "Unknown")
        return
    for run in course.all_runs:
        if run.state == RUNNING:
            _end(run, at, LOST_CODE, "Unknown")
    # An API server lets no init container of any other pod leave its end (``ValidateContainerStateTransition``).
    if all(run.policy == "Always" for run in course.runs[course.inits :]):
        for run in course.runs[: course.inits]:
            if run.state == ENDED and not run.sidecar and not run.restartable:
                run.last, run.end = run.end, None
                run.state, run.restarts = WAITING, run.restarts + 1
        course.begins_at = max(course.begins_at, at)
    course.sandbox = False


def rescript(course: Course, behaviour: Behaviour, now: float) -> None:
    """From now on the containers behave otherwise: what was scripted for a run that is on counts anew from here."""
    course.stop_delay = behaviour.stop_delay
    _add_ephemeral(course, behaviour, now)
    scripts = (*behaviour.scripts, *(script for _name, script in behaviour.ephemeral))
    for run, script in zip(course.all_runs, scripts, strict=True):
        if run.script == script:
            continue
        if run.state == WAITING and run.script.pull != script.pull:
            run.reason = run.message = ""
            run.pull_at, run.pull_backoff = math.inf, 0.0
            course.begins_at = max(course.begins_at, now)
        if run.state == WAITING and run.reason == run.script.waiting != script.waiting:
            run.reason = ""
            course.begins_at = max(course.begins_at, now)
        run.script = script
        if run.state == RUNNING:
            seconds, _code = script.run(run.restarts)
            run.ends_at = max(now, run.since + seconds)
            if run.started:
                _begin_probes(run, now)
            else:
                run.startup_at = max(now, run.since + script.startup.first(True))


# What is due


def _next(course: Course) -> tuple[int, float]:
    """What is due first: the place of a container, or -1 for the end of the sidecars."""
    found, soonest = 0, math.inf
    may_start_at = course.begins_at
    for place, run in enumerate(course.runs):
        at = _due(course, run, may_start_at)
        if at < soonest:
            found, soonest = place, at
        if place < course.inits:
            may_start_at = max(may_start_at, _passed_at(run))
    for place, run in enumerate(course.ephemeral, len(course.runs)):
        at = _due(course, run, max(course.begins_at, run.added_at))
        if at < soonest:
            found, soonest = place, at
    if (course.inits or course.ephemeral) and not course.stopping:
        at = _sidecars_end_at(course)
        if at < soonest:
            return -1, at
    return found, soonest


def _due(course: Course, run: Run, may_start_at: float) -> float:
    if run.state == RUNNING:
        return min(run.ends_at, run.startup_at, run.probe_at, run.unhealthy_at)
    if course.stopping:
        return math.inf
    if run.state == ENDED:
        assert run.end is not None, "it has ended"
        return run.end.finished_at + course.gap if run.restartable else math.inf
    if run.reason == CRASH_LOOP:
        return run.restart_at
    if run.script.pull is not None and run.reason:
        return run.pull_at
    return math.inf if run.script.waiting and run.reason == run.script.waiting else may_start_at


def _passed_at(run: Run) -> float:
    """Since when an init container lets the next one start."""
    if run.sidecar:
        return run.started_at if run.started else math.inf
    return run.end.finished_at if run.state == ENDED and run.end is not None and run.end.code == 0 else math.inf


def _sidecars_end_at(course: Course) -> float:
    """When those sidecars, and ephemeral containers, end that run on although nobody needs them any more."""
    if not any((run.sidecar or run.ephemeral) and run.state == RUNNING for run in course.all_runs):
        return math.inf
    failed = [run for run in course.runs[: course.inits] if not run.sidecar and run.over and run.end and run.end.code]
    others = failed or course.runs[course.inits :]
    if not all(run.over for run in others):
        return math.inf
    return max(run.end.finished_at for run in others if run.end is not None) + course.stop_delay


# What happens


def _change(course: Course, place: int, at: float) -> None:
    run = course.all_runs[place]
    if run.state == RUNNING:
        _change_running(course, run, place, at)
    elif run.state == ENDED:
        _restart_or_wait(course, run, place, at)
    elif run.reason == CRASH_LOOP:
        run.backoff = min(2 * run.backoff, BACKOFF_SECONDS[1])
        _restart(course, run, place, at)
    elif run.script.pull is not None and not run.script.waiting:
        _pull(course, run, place, at)
    elif run.script.waiting:
        run.reason = run.script.waiting
        course.happened.append(ContainerEvent(place, "Failed", f"Error: {run.reason}", warning=True))
    else:
        _start(course, run, place, at)


def _pull(course: Course, run: Run, place: int, at: float) -> None:
    assert run.script.pull is not None, "its image cannot be had"
    course.sandbox = True  # comes before the images, and with it the pod's address
    for reason, message, warning in image_pulls.advance_pull(run, run.script.pull, at, course.gap):
        course.happened.append(ContainerEvent(place, reason, message, warning))


def _start(course: Course, run: Run, place: int, at: float) -> None:
    course.sandbox = True
    seconds, _code = run.script.run(run.restarts)
    run.state, run.since, run.reason, run.message, run.end = RUNNING, at, "", "", None
    run.started = run.ready = False
    run.ends_at = at + seconds
    run.startup_at = at + run.script.startup.first(True)
    run.probe_at = run.unhealthy_at = run.restart_at = math.inf
    course.happened.append(ContainerEvent(place, "Started", "Container started"))
    if run.startup_at <= at:
        _pass_startup(run, at)


def _pass_startup(run: Run, at: float) -> None:
    run.started, run.started_at, run.startup_at = True, at, math.inf
    if not run.ephemeral and (not run.init or run.sidecar):
        _begin_probes(run, at)


def _begin_probes(run: Run, at: float) -> None:
    run.probe = 0
    run.ready, seconds = run.script.readiness.steps[0]
    run.probe_at = at + seconds
    run.unhealthy_at = at + run.script.liveness.first(False)


def _change_running(course: Course, run: Run, place: int, at: float) -> None:
    if run.ends_at <= at:
        _seconds, code = run.script.run(run.restarts)
        _end(run, at, code, run.script.exit_reason, run.script.exit_message)
    elif run.startup_at <= at:
        _pass_startup(run, at)
    elif run.unhealthy_at <= at:
        course.happened.append(ContainerEvent(place, "Unhealthy", "Liveness probe failed: scripted", warning=True))
        told = f"Container {run.name} failed liveness probe, will be restarted"
        course.happened.append(ContainerEvent(place, "Killing", told))
        _end(run, at, KILLED_CODE, "")
    else:
        steps = run.script.readiness.steps
        run.probe = (run.probe + 1) % len(steps)
        run.ready, seconds = steps[run.probe]
        run.probe_at = at + seconds
        if not run.ready:
            course.happened.append(ContainerEvent(place, "Unhealthy", "Readiness probe failed: scripted", warning=True))


def _end(run: Run, at: float, code: int, reason: str = "", message: str = "") -> None:
    reason = reason or ("Completed" if code == 0 else "Error")
    run.end = Ended(code, reason, message, run.since, at, run.restarts)
    run.state, run.since, run.started, run.ready = ENDED, at, False, False
    if run.init and not run.sidecar and code == 0:
        run.ready = True  # it has done what it was for
    run.ends_at = run.startup_at = run.probe_at = run.unhealthy_at = math.inf


def _restart_or_wait(course: Course, run: Run, place: int, at: float) -> None:
    assert run.end is not None, "it has ended"
    finished = run.end.finished_at
    if run.backoff == 0.0 or finished - run.backed_off_at > BACKOFF_RESET_SECONDS:
        run.backoff = BACKOFF_SECONDS[0]
        _restart(course, run, place, at)
        return
    run.state, run.since, run.reason = WAITING, at, CRASH_LOOP
    run.restart_at = max(at, finished + run.backoff)
    course.happened.append(ContainerEvent(place, "BackOff", "", warning=True))


def _restart(course: Course, run: Run, place: int, at: float) -> None:
    run.last, run.backed_off_at = run.end, at
    run.restarts += 1
    _start(course, run, place, at)
