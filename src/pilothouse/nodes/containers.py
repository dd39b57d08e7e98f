"""The simulated container runtime: the containers of one pod, their states, and the times of state changes.

``advance`` executes all changes that are due, each at its own time, so that a node that was silent for an hour reports
the right times afterwards. ``behaviour`` configures the containers, ``pod_status`` builds the status. Times are loop
times.

Rules: init containers run one by one; a sidecar (restartPolicy Always) must have started before the next one; then all
other containers start. Restarts follow the policy, the first immediately, further ones with a backoff of 10 s doubling
to 5 min, which is reset after 10 min without a restart. Sidecars end after the other containers. Ephemeral containers
start when there is a sandbox, run once, and end with the pod (kubelet v1.36 ``pkg/kubelet/kuberuntime``, client-go
``util/flowcontrol/backoff.go``). A container whose image cannot be pulled waits (``image_pulls``).
"""

import math
from collections.abc import Sequence

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.nodes.behaviour import Behaviour, Script
from pilothouse.nodes.profile import Profile
from pilothouse.nodes.views import NodePod

with lazy_imports():
    from pilothouse.nodes import image_pulls

BACKOFF_SECONDS = (10.0, 300.0)
"""Initial and maximum backoff of restarts; the first restart has none."""
BACKOFF_RESET_SECONDS = 600.0

WAITING, RUNNING, TERMINATED = "waiting", "running", "terminated"
KILLED_CODE = 137
LOST_CODE = 255
"""The exit code of containers that were terminated by a reboot of the node."""
CRASH_LOOP = "CrashLoopBackOff"
CONFIG_ERROR = "CreateContainerConfigError"


class Termination(msgspec.Struct, frozen=True):
    """How a run of a container ended."""

    code: int
    reason: str
    message: str
    started_at: float
    finished_at: float
    restart_count: int
    """How often the container had been restarted before."""


class ContainerEvent(msgspec.Struct, frozen=True):
    """An event about the container at ``index``."""

    index: int
    reason: str
    message: str
    warning: bool = False
    pull_seconds: float = 0.0
    """For ``Started``: how long the image was pulled before, 0 if it was present."""


class RuntimeContainer(msgspec.Struct, kw_only=True):
    """One container. ``since``: start of its state. ``*_at``: times of future changes."""

    name: str
    script: Script
    init: bool
    sidecar: bool
    policy: str
    """``Always``, ``OnFailure`` or ``Never``."""
    ephemeral: bool = False
    added_at: float = 0.0
    """When an ephemeral container was added."""
    state: str = WAITING
    since: float = 0.0
    reason: str = ""
    """Why it waits, if that is not ContainerCreating or PodInitializing."""
    message: str = ""
    """The message of ``reason``."""
    restarts: int = 0
    started: bool = False
    """Its startup probe has passed."""
    started_at: float = 0.0
    ready: bool = False
    end: Termination | None = None
    last: Termination | None = None
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
    pull_seconds: float = 0.0
    """How long before the pod's ``starts_at`` pulling its image starts, 0 if it is present."""
    pulling: bool = False
    environment_error: str = ""
    """Why it can't be started: something that its environment refers to is missing (``configuration``)."""

    @property
    def restartable(self) -> bool:
        """Whether it will be restarted after its last run."""
        assert self.end is not None, "the container has ended"
        return self.policy == "Always" or (self.policy == "OnFailure" and self.end.code != 0)

    @property
    def over(self) -> bool:
        """Whether it has terminated and will not be restarted."""
        return self.state == TERMINATED and not self.restartable


class RuntimePod(msgspec.Struct, kw_only=True):
    """The containers of a pod in the order init containers, containers, and settings that apply to all of them."""

    containers: tuple[RuntimeContainer, ...]
    ephemeral: Sequence[RuntimeContainer] = ()
    inits: int
    starts_at: float
    """When the first container may start: images are pulled and volumes are mounted."""
    gap: float
    """The delay from the end of a container to its restart."""
    stop_delay: float
    sandbox: bool = False
    stopping: bool = False
    """The pod is being stopped, and no container starts."""
    events: list[ContainerEvent] | None = None
    """Those that are not recorded yet; None if there are none, as in most pods."""

    def add_event(self, event: ContainerEvent) -> None:
        """Record an event with the next write."""
        if self.events is None:
            self.events = []
        self.events.append(event)

    def take_events(self) -> list[ContainerEvent]:
        """Remove and return the events."""
        events, self.events = self.events, None
        return events or []

    @property
    def all_containers(self) -> Sequence[RuntimeContainer]:
        """Ephemeral containers included. An ``index`` counts in this order."""
        return [*self.containers, *self.ephemeral] if self.ephemeral else self.containers

    @property
    def ran(self) -> bool:
        """Whether any container ever ran."""
        return any(c.state != WAITING or c.restarts for c in self.containers)

    @property
    def alive(self) -> bool:
        """Whether any container runs."""
        return any(container.state == RUNNING for container in self.all_containers)


def new_runtime_pod(pod: NodePod, behaviour: Behaviour, profile: Profile, starts_at: float) -> RuntimePod:
    """The containers of a pod before any has started."""
    inits, policy = len(pod.spec.init_containers), pod.spec.restart_policy
    containers = []
    for index, spec in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        init, sidecar = index < inits, index < inits and spec.restart_policy == "Always"
        container_policy = spec.restart_policy or policy or "Always"
        if init and not spec.restart_policy:
            # An init container only has to succeed once, also if the pod's policy is Always.
            container_policy = "Never" if policy == "Never" else "OnFailure"
        script = behaviour.scripts[index]
        pulled = behaviour.pull_seconds[index] if behaviour.pull_seconds else 0.0
        containers.append(
            RuntimeContainer(
                name=spec.name, script=script, init=init, sidecar=sidecar, policy=container_policy, pull_seconds=pulled
            )
        )
    runtime_pod = RuntimePod(
        containers=tuple(containers),
        inits=inits,
        starts_at=starts_at,
        gap=profile.restart_gap,
        stop_delay=behaviour.stop_delay,
    )
    _add_ephemeral(runtime_pod, behaviour, 0.0)
    return runtime_pod


def _add_ephemeral(pod: RuntimePod, behaviour: Behaviour, now: float) -> None:
    """Add new ephemeral containers, at any position; none is ever removed."""
    previous = {container.name: container for container in pod.ephemeral}
    pod.ephemeral = tuple(
        previous.get(name)
        or RuntimeContainer(
            name=name, script=script, init=False, sidecar=False, policy="Never", ephemeral=True, added_at=now
        )
        for name, script in behaviour.ephemeral
    )


_MAX_VISITS = 50_000
"""Limit of the containers that one ``advance`` visits: a pod of 3 MB may have 100,000 containers."""


def advance(pod: RuntimePod, now: float) -> None:
    """Execute all changes that are due by ``now``, in order. For a pod with very many containers it may return early
    (``_MAX_VISITS``); then the next change is still due."""
    visits = 0
    while True:
        index, at = _next(pod)
        if at > now or visits > _MAX_VISITS:
            return
        visits += len(pod.containers) + len(pod.ephemeral)
        if index < 0:
            stop(pod, at)  # sidecars, and ephemeral containers: all others have ended
        else:
            _change_from(pod, index, at)


def _change_from(pod: RuntimePod, first: int, at: float) -> None:
    """Execute the changes that are due at ``at``, beginning with the container at ``first``. A change does not affect
    earlier containers, so the order is the same as if the next change were searched after each one."""
    may_start_at = pod.starts_at
    for index, container in enumerate(pod.all_containers):
        if index >= first:
            earliest = max(pod.starts_at, container.added_at) if container.ephemeral else may_start_at
            while _due_at(pod, container, earliest) <= at:
                _change(pod, index, at)
        if index < pod.inits:
            may_start_at = max(may_start_at, _passed_at(container))


def next_change(pod: RuntimePod) -> float:
    """When the next change is due, infinite if none is."""
    return _next(pod)[1]


def stop(pod: RuntimePod, at: float, code: int | None = None, reason: str = "") -> None:
    """Terminate all running containers, with ``code`` or their own ``stop_exit_code``."""
    pod.stopping = True
    for container in pod.all_containers:
        if container.state == RUNNING:
            _terminate(container, at, container.script.stop_exit_code if code is None else code, reason)


def reboot(pod: RuntimePod, at: float) -> None:
    """The node has rebooted: running containers are terminated, and init containers run again."""
    if pod.stopping:
        stop(pod, at, LOST_CODE, "Unknown")
        return
    for container in pod.all_containers:
        if container.state == RUNNING:
            _terminate(container, at, LOST_CODE, "Unknown")
    # The API server does not allow init containers of other pods to leave the state terminated
    # (``ValidateContainerStateTransition``).
    if all(container.policy == "Always" for container in pod.containers[pod.inits :]):
        for container in pod.containers[: pod.inits]:
            if container.state == TERMINATED and not container.sidecar and not container.restartable:
                container.last, container.end = container.end, None
                container.state, container.restarts = WAITING, container.restarts + 1
        pod.starts_at = max(pod.starts_at, at)
    pod.sandbox = False


def crash(pod: RuntimePod, at: float, name: str, code: int) -> bool:
    """End a running container, or all of them if no name is given. Returns whether there was any."""
    matching = [
        container for container in pod.all_containers if container.state == RUNNING and name in ("", container.name)
    ]
    for container in matching:
        _terminate(container, at, code)
    return bool(matching)


def update_behaviour(pod: RuntimePod, behaviour: Behaviour, now: float) -> None:
    """Apply a changed behaviour; the probes of running containers start over."""
    pod.stop_delay = behaviour.stop_delay
    _add_ephemeral(pod, behaviour, now)
    scripts = (*behaviour.scripts, *(script for _name, script in behaviour.ephemeral))
    for container, script in zip(pod.all_containers, scripts, strict=True):
        if container.script == script:
            continue
        if container.state == WAITING and container.script.pull != script.pull:
            container.reason = container.message = ""
            container.pull_at, container.pull_backoff = math.inf, 0.0
            pod.starts_at = max(pod.starts_at, now)
        if container.state == WAITING and container.reason == container.script.waiting != script.waiting:
            container.reason = ""
            pod.starts_at = max(pod.starts_at, now)
        container.script = script
        if container.state == RUNNING:
            seconds, _code = script.run(container.restarts)
            container.ends_at = max(now, container.since + seconds)
            if container.started:
                _begin_probes(container, now)
            else:
                container.startup_at = max(now, container.since + script.startup.first(True))


def retry_start(pod: RuntimePod, container: RuntimeContainer, now: float) -> None:
    """Start a container that could not be started, no sooner than now."""
    container.reason = container.message = ""
    pod.starts_at = max(pod.starts_at, now)


# When


def _next(pod: RuntimePod) -> tuple[int, float]:
    """The next change: the index of a container, or -1 for the end of the sidecars; and when it is due."""
    next_index, soonest = 0, math.inf
    may_start_at = pod.starts_at
    for index, container in enumerate(pod.containers):
        at = _due_at(pod, container, may_start_at)
        if at < soonest:
            next_index, soonest = index, at
        if index < pod.inits:
            may_start_at = max(may_start_at, _passed_at(container))
    for index, container in enumerate(pod.ephemeral, len(pod.containers)):
        at = _due_at(pod, container, max(pod.starts_at, container.added_at))
        if at < soonest:
            next_index, soonest = index, at
    if (pod.inits or pod.ephemeral) and not pod.stopping:
        at = _sidecars_end_at(pod)
        if at < soonest:
            return -1, at
    return next_index, soonest


def _due_at(pod: RuntimePod, container: RuntimeContainer, may_start_at: float) -> float:
    if container.state == RUNNING:
        return min(container.ends_at, container.startup_at, container.probe_at, container.unhealthy_at)
    if pod.stopping:
        return math.inf
    if container.state == TERMINATED:
        assert container.end is not None, "it has ended"
        return container.end.finished_at + pod.gap if container.restartable else math.inf
    if container.reason == CRASH_LOOP:
        return container.restart_at
    if container.script.pull is not None and container.reason:
        return container.pull_at
    if container.environment_error and container.reason == CONFIG_ERROR:
        return math.inf
    if container.pull_seconds and not container.pulling:
        return pod.starts_at - container.pull_seconds
    return math.inf if container.script.waiting and container.reason == container.script.waiting else may_start_at


def _passed_at(container: RuntimeContainer) -> float:
    """When the next container may start after this init container."""
    if container.sidecar:
        return container.started_at if container.started else math.inf
    return (
        container.end.finished_at
        if container.state == TERMINATED and container.end is not None and container.end.code == 0
        else math.inf
    )


def _sidecars_end_at(pod: RuntimePod) -> float:
    """When sidecars and ephemeral containers end, after all others."""
    if not any((c.sidecar or c.ephemeral) and c.state == RUNNING for c in pod.all_containers):
        return math.inf
    failed = [c for c in pod.containers[: pod.inits] if not c.sidecar and c.over and c.end and c.end.code]
    others = failed or pod.containers[pod.inits :]
    if not all(container.over for container in others):
        return math.inf
    return max(c.end.finished_at for c in others if c.end is not None) + pod.stop_delay


# Changes


def _change(pod: RuntimePod, index: int, at: float) -> None:
    container = pod.containers[index] if index < len(pod.containers) else pod.ephemeral[index - len(pod.containers)]
    if container.state == RUNNING:
        _change_running(pod, container, index, at)
    elif container.state == TERMINATED:
        _restart_or_wait(pod, container, index, at)
    elif container.reason == CRASH_LOOP:
        container.backoff = min(2 * container.backoff, BACKOFF_SECONDS[1])
        _restart(pod, container, index, at)
    elif container.script.pull is not None and not container.script.waiting:
        _pull(pod, container, index, at)
    elif container.pull_seconds and not container.pulling:
        container.pulling = True
        pod.add_event(ContainerEvent(index, "Pulling", ""))
    elif container.script.waiting:
        container.reason = container.script.waiting
        pod.add_event(ContainerEvent(index, "Failed", f"Error: {container.reason}", warning=True))
    elif container.environment_error:
        pod.sandbox = True
        container.reason, container.message = CONFIG_ERROR, container.environment_error
        pod.add_event(ContainerEvent(index, "Failed", f"Error: {container.message}", warning=True))
    else:
        _start(pod, container, index, at)


def _pull(pod: RuntimePod, container: RuntimeContainer, index: int, at: float) -> None:
    """A failing image pull, or the backoff before the next one, as in ``pkg/kubelet/images/image_manager.go``."""
    failure = container.script.pull
    assert failure is not None, "its image cannot be pulled"
    pod.sandbox = True  # created before images are pulled; it has the pod's address
    failed, back_off = image_pulls.ERR_IMAGE_PULL, image_pulls.IMAGE_PULL_BACK_OFF

    def record(reason: str, message: str, warning: bool = True) -> None:
        pod.add_event(ContainerEvent(index, reason, message, warning))

    if container.reason == failed:
        container.reason, container.pull_at = back_off, container.next_pull_at
        message = f'Back-off pulling image "{failure.image}"'
        container.message = f"{message}: {failed}: {failure.message}"
        record("BackOff", message, warning=False)
        record("Failed", f"Error: {back_off}")
        return
    container.reason, container.message, container.since = failure.reason, failure.message, at
    if failure.reason == failed:
        first, longest = BACKOFF_SECONDS  # the same as for pulls: ``imageBackOffPeriod``, ``MaxImageBackOff``
        container.pull_backoff = min(2 * container.pull_backoff, longest) if container.pull_backoff else first
        container.pull_at, container.next_pull_at = at + pod.gap, at + container.pull_backoff
        record("Pulling", f'Pulling image "{failure.image}"', warning=False)
        record("Failed", f'Failed to pull image "{failure.image}": {failure.message}')
    else:
        container.pull_at = math.inf
        record("InspectFailed" if failure.reason == image_pulls.INVALID_NAME else failure.reason, failure.message)
    record("Failed", f"Error: {failure.reason}")


def _start(pod: RuntimePod, container: RuntimeContainer, index: int, at: float) -> None:
    pod.sandbox = True
    seconds, _code = container.script.run(container.restarts)
    container.state, container.since, container.reason, container.message, container.end = RUNNING, at, "", "", None
    container.started = container.ready = False
    container.ends_at = at + seconds
    container.startup_at = at + container.script.startup.first(True)
    container.probe_at = container.unhealthy_at = container.restart_at = math.inf
    pod.add_event(ContainerEvent(index, "Started", "Container started", pull_seconds=container.pull_seconds))
    container.pull_seconds = 0.0
    if container.script.startup_error:
        pod.add_event(ContainerEvent(index, "Unhealthy", container.script.startup_error, warning=True))
    if container.startup_at <= at:
        _pass_startup(pod, container, index, at)


def _pass_startup(pod: RuntimePod, container: RuntimeContainer, index: int, at: float) -> None:
    container.started, container.started_at, container.startup_at = True, at, math.inf
    if not container.ephemeral and (not container.init or container.sidecar):
        for error in container.script.probe_errors:
            pod.add_event(ContainerEvent(index, "Unhealthy", error, warning=True))
        _begin_probes(container, at)


def _begin_probes(container: RuntimeContainer, at: float) -> None:
    container.probe = 0
    container.ready, seconds = container.script.readiness.steps[0]
    container.probe_at = at + seconds
    container.unhealthy_at = at + container.script.liveness.first(False)


def _change_running(pod: RuntimePod, container: RuntimeContainer, index: int, at: float) -> None:
    if container.ends_at <= at:
        _seconds, code = container.script.run(container.restarts)
        _terminate(container, at, code, container.script.exit_reason, container.script.exit_message)
    elif container.startup_at <= at:
        _pass_startup(pod, container, index, at)
    elif container.unhealthy_at <= at:
        pod.add_event(ContainerEvent(index, "Unhealthy", "Liveness probe failed: scripted", warning=True))
        message = f"Container {container.name} failed liveness probe, will be restarted"
        pod.add_event(ContainerEvent(index, "Killing", message))
        _terminate(container, at, KILLED_CODE, "")
    else:
        steps = container.script.readiness.steps
        container.probe = (container.probe + 1) % len(steps)
        container.ready, seconds = steps[container.probe]
        container.probe_at = at + seconds
        if not container.ready:
            pod.add_event(ContainerEvent(index, "Unhealthy", "Readiness probe failed: scripted", warning=True))


def _terminate(container: RuntimeContainer, at: float, code: int, reason: str = "", message: str = "") -> None:
    reason = reason or ("Completed" if code == 0 else "Error")
    container.end = Termination(code, reason, message, container.since, at, container.restarts)
    container.state, container.since, container.started, container.ready = TERMINATED, at, False, False
    if container.init and not container.sidecar and code == 0:
        container.ready = True  # an init container that has succeeded counts as ready
    container.ends_at = container.startup_at = container.probe_at = container.unhealthy_at = math.inf


def _restart_or_wait(pod: RuntimePod, container: RuntimeContainer, index: int, at: float) -> None:
    assert container.end is not None, "it has ended"
    finished = container.end.finished_at
    if container.backoff == 0.0 or finished - container.backed_off_at > BACKOFF_RESET_SECONDS:
        container.backoff = BACKOFF_SECONDS[0]
        _restart(pod, container, index, at)
        return
    container.state, container.since, container.reason = WAITING, at, CRASH_LOOP
    container.restart_at = max(at, finished + container.backoff)
    pod.add_event(ContainerEvent(index, "BackOff", "", warning=True))


def _restart(pod: RuntimePod, container: RuntimeContainer, index: int, at: float) -> None:
    container.last, container.backed_off_at = container.end, at
    container.restarts += 1
    _start(pod, container, index, at)
