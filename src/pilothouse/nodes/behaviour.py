"""The behaviour of a pod on a simulated node: the profile, overridden by the pod's annotations. Pure.

Keys are ``simulated.pilothouse.dev/KEY``, for one container ``KEY.CONTAINER``; ``docs/nodes.md`` lists them. An invalid
annotation is reported as an event and ignored.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.durations import DurationError, parse_duration
from pilothouse.machinery.go_text import quote
from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.nodes.profile import Profile
from pilothouse.nodes.views import NodeContainer, NodePod, Probe

if TYPE_CHECKING:
    from pilothouse.nodes.container_commands import Outcome
    from pilothouse.nodes.image_pulls import PullFailure

with lazy_imports():
    from pilothouse.nodes import container_commands, container_environment, image_pulls

PREFIX = "simulated.pilothouse.dev/"
_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch


class Timeline(msgspec.Struct, frozen=True):
    """A scripted sequence of a probe's results with their durations. After the last one it starts over."""

    steps: tuple[tuple[bool, float], ...]

    def first(self, outcome: bool) -> float:
        """How long it takes until there is this outcome for the first time, infinite if there never is."""
        elapsed = 0.0
        for result, seconds in self.steps:
            if result is outcome:
                return elapsed
            elapsed += seconds
        return math.inf


MIN_OUTCOME_SECONDS = 1.0
"""The minimum ``periodSeconds`` of a probe: every change is a write."""
PASSES = Timeline(((True, math.inf),))
_NEVER_PASSES = Timeline(((False, math.inf),))


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """The behavior of one container. The n-th of ``run_seconds`` and ``exit_codes`` is for the n-th run, the last one
    for all later runs."""

    run_seconds: tuple[float, ...] = (math.inf,)
    exit_codes: tuple[int, ...] = (0,)
    exit_reason: str = ""
    exit_message: str = ""
    stop_exit_code: int = 0
    pull: "PullFailure | None" = None
    """Its image cannot be pulled."""
    waiting: str = ""
    """A reason for which the container can't start: ``ImagePullBackOff``, ``CreateContainerConfigError``, …"""
    startup: Timeline = PASSES
    readiness: Timeline = PASSES
    liveness: Timeline = PASSES
    startup_error: str = ""
    """The event of a startup probe that can't be made."""
    probe_errors: tuple[str, ...] = ()
    """Those of the other probes, when the container has started."""

    def run(self, number: int) -> tuple[float, int]:
        """The duration of the n-th run (from 0) and its exit code."""
        seconds = self.run_seconds[min(number, len(self.run_seconds) - 1)]
        return seconds, self.exit_codes[min(number, len(self.exit_codes) - 1)]


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The behavior of a pod. ``scripts`` in the order of its init containers and containers, ``ephemeral`` by name."""

    accept_delay: float
    start_delay: float
    stop_delay: float
    remove_delay: float
    scripts: tuple[Script, ...]
    ephemeral: tuple[tuple[str, Script], ...] = ()
    pull_seconds: tuple[float, ...] = ()
    """How long the image of each of ``scripts`` is pulled, 0 if the node has it; empty if it has all. ``start_delay``
    includes it."""
    usage: Mapping[str, int] = {}
    """Annotated usage of memory, disk and pids."""
    invalid_annotations: tuple[str, ...] = ()
    """Error messages about its annotations."""

    @property
    def waits_for_images(self) -> bool:
        """Whether some image cannot be pulled."""
        return any(script.pull is not None for script in self.scripts)


DeriveBehaviour = Callable[["NodePod", "Profile"], Behaviour]
"""``behaviour_of``, or a function that modifies its result. Called again when the pod's annotations change."""


def behaviour_of(pod: NodePod, profile: Profile) -> Behaviour:
    """The behaviour of a pod."""
    own = {key[len(PREFIX) :]: text for key, text in pod.metadata.annotations.items() if key.startswith(PREFIX)}
    reader = _Reader(own)
    spec = pod.spec
    owned = any(owner.controller and owner.kind == "Job" for owner in pod.metadata.owner_references)
    ends = spec.restart_policy in ("Never", "OnFailure")
    inherited = reader if own else None
    scripts = (
        *(_script(pod, container, profile, inherited, _INIT, at) for at, container in enumerate(spec.init_containers)),
        *(
            _script(pod, container, profile, inherited, _JOB if owned else _ENDS if ends else _STAYS, at)
            for at, container in enumerate(spec.containers)
        ),
    )
    ephemeral = tuple(
        (container.name, _script(pod, container, profile, inherited, _EPHEMERAL, at))
        for at, container in enumerate(spec.ephemeral_containers)
    )
    stop_delay = profile.stop_delay + (_pre_stop_seconds(pod) if profile.commands else 0.0)
    if not own:
        return Behaviour(
            accept_delay=profile.accept_delay,
            start_delay=profile.start_delay,
            stop_delay=stop_delay,
            remove_delay=profile.remove_delay,
            scripts=scripts,
            ephemeral=ephemeral,
        )
    behaviour = Behaviour(
        accept_delay=reader.read("accept-delay", parse_duration, profile.accept_delay),
        start_delay=reader.read("start-delay", parse_duration, profile.start_delay),
        stop_delay=reader.read("stop-delay", parse_duration, stop_delay),
        remove_delay=reader.read("remove-delay", parse_duration, profile.remove_delay),
        scripts=scripts,
        ephemeral=ephemeral,
        usage={
            resource: amount
            for resource, key in (("memory", "memory-usage"), ("disk", "disk-usage"), ("pids", "pids"))
            if (amount := reader.read(key, _amount, -1)) >= 0
        },
    )
    return msgspec.structs.replace(behaviour, invalid_annotations=reader.invalid_annotations())


_PLAIN = Script()
_ENDS_SECONDS = 1.0


_INIT, _JOB, _ENDS, _STAYS, _EPHEMERAL = "init", "job", "ends", "stays", "ephemeral"
"""The role of a container, which determines how it ends by default."""


def _script(
    pod: NodePod, container: NodeContainer, profile: Profile, own: "_Reader | None", role: str, position: int
) -> Script:
    sidecar = role == _INIT and container.restart_policy == "Always"
    prepares = role == _INIT and not sidecar
    pull = _pull_failure(container) if profile.commands else None
    words = (*container.command, *container.args)
    interpreted = (
        words
        and profile.commands
        and not _is_scripted(container, own, role)
        and not (container.stdin and container_commands.reads_input(words))
    )
    plain = (
        _plain_outcome(pod, container, words) if interpreted and position < container_commands.MAX_CONTAINERS else None
    )
    seconds = math.inf if plain is not None else _usual_seconds(container, profile, words, _STAYS if sidecar else role)
    probe, startup = container.readiness_probe, container.startup_probe
    unready = max(profile.ready_delay, float(probe.initial_delay_seconds) if probe is not None else 0.0)
    startup_error, readiness_error, liveness_error = (
        "" if prepares else _probe_error(kind, each, container)
        for kind, each in (("Startup", startup), ("Readiness", probe), ("Liveness", container.liveness_probe))
    )
    probe_errors = tuple(error for error in (readiness_error, liveness_error) if error)
    plain_probes = not unready and startup is None and not probe_errors
    if own is None and plain is None and pull is None and math.isinf(seconds) and plain_probes:
        return _PLAIN
    script = Script(
        run_seconds=(seconds if plain is None else plain.seconds,),
        exit_codes=(0 if plain is None else plain.code,),
        exit_message="" if plain is None else plain.message,
        startup=_passes_after(float(startup.initial_delay_seconds) if startup is not None else 0.0, startup_error),
        readiness=_passes_after(0.0 if prepares else unready, readiness_error),
        startup_error=startup_error,
        probe_errors=probe_errors,
        pull=pull,
    )
    if own is None:
        return script
    alone = role in (_INIT, _EPHEMERAL)

    def read(key: str, parse: Callable[[str], Any], default: Any) -> Any:
        return own.read(f"{key}.{container.name}", parse, default if alone else own.read(key, parse, default))

    read("log", str, "")  # a known key; ``logs`` reads it on request
    for key in ("cpu-usage", "memory-usage"):
        read(key, parse_quantity, None)  # the same; read by ``usage``
    codes = read("exit-code", _codes, None)
    # An exit code without a duration means that the container exits.
    stays = sidecar or role in (_ENDS, _STAYS)
    lasts = script.run_seconds if codes is None or not stays else (_ENDS_SECONDS,)
    return Script(
        run_seconds=read("run-time", _durations, lasts),
        exit_codes=codes or script.exit_codes,
        exit_reason=read("exit-reason", str, ""),
        exit_message=read("exit-message", str, script.exit_message),
        stop_exit_code=read("stop-exit-code", _code, 0),
        startup_error=script.startup_error,
        probe_errors=script.probe_errors,
        pull=script.pull,
        waiting=read("waiting", str, ""),
        startup=read("startup-probe", parse_timeline, script.startup),
        readiness=read("readiness-probe", parse_timeline, script.readiness),
        liveness=read("liveness-probe", parse_timeline, script.liveness),
    )


def _is_scripted(container: NodeContainer, own: "_Reader | None", role: str) -> bool:
    """Whether annotations set the run time or the exit code."""
    if own is None:
        return False
    keys = ("run-time", "exit-code")
    named = [f"{key}.{container.name}" for key in keys]
    return own.has(*named) if role in (_INIT, _EPHEMERAL) else own.has(*named, *keys)


def _pull_failure(container: NodeContainer) -> "PullFailure | None":
    return image_pulls.pull_failure(container.image, container.image_pull_policy)


def _plain_outcome(pod: NodePod, container: NodeContainer, words: tuple[str, ...]) -> "Outcome | None":
    if not container_commands.refers_to_variables(words):
        return container_commands.outcome_of(words)
    environment = container_environment.environment_of(pod.metadata, container.env)
    return container_commands.outcome_of(words, environment)


def _pre_stop_seconds(pod: NodePod) -> float:
    """How long the longest preStop hook takes, if that is known: the containers get SIGTERM after their hooks."""
    seconds = 0.0
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        if hook is not None and hook.sleep is not None:
            seconds = max(seconds, float(hook.sleep.seconds))
        elif hook is not None and hook.exec is not None:
            outcome = _plain_outcome(pod, container, hook.exec.command)
            seconds = max(seconds, 0.0 if outcome is None else outcome.seconds)
    return seconds


def _usual_seconds(container: NodeContainer, profile: Profile, words: tuple[str, ...], role: str) -> float:
    """How long a container runs whose command is not understood."""
    if role == _INIT:
        return profile.init_run_time
    if role == _JOB:
        return profile.job_run_time
    if role == _EPHEMERAL:
        # Nobody can attach to it, so a shell reads the end of its input.
        return profile.job_run_time
    if role == _ENDS and profile.commands and not _is_server(container, words):
        return profile.job_run_time
    return math.inf


def _is_server(container: NodeContainer, words: tuple[str, ...]) -> bool:
    probes = (container.readiness_probe, container.liveness_probe, container.startup_probe)
    return (
        bool(container.ports)
        or any(probe is not None for probe in probes)
        or container_commands.runs_on(words, container.image)
    )


def _probe_error(kind: str, probe: Probe | None, container: NodeContainer) -> str:
    """The kubelet's message for a probe of a port that the container does not have, empty for others (``probe`` in
    ``pkg/kubelet/prober/prober.go``, ``ResolveContainerPort`` in ``pkg/probe/util.go``, v1.36). Its result is thrown
    away: the container is never ready, or never started; a liveness probe has no effect."""
    action = None if probe is None else probe.http_get or probe.tcp_socket
    if action is None or not isinstance(action.port, str):
        return ""
    if any(port.name == action.port for port in container.ports) or _INTEGER(action.port):
        return ""
    error = f"strconv.Atoi: parsing {quote(action.port)}: invalid syntax"
    return f"{kind} probe errored and resulted in unknown state: {error}"


def _passes_after(seconds: float, error: str) -> Timeline:
    if error:
        return _NEVER_PASSES
    return Timeline(((False, seconds), (True, math.inf))) if seconds > 0 else PASSES


class _Reader:
    """Reads annotations, and collects unknown keys and errors."""

    def __init__(self, own: Mapping[str, str]) -> None:
        self._own = own
        self._asked: set[str] = set()
        self._wrong: dict[str, str] = {}

    def has(self, *keys: str) -> bool:
        """Whether there is any of these."""
        return any(key in self._own for key in keys)

    def read(self, key: str, parse: Callable[[str], Any], default: Any) -> Any:
        self._asked.add(key)
        text = self._own.get(key)
        if text is None:
            return default
        try:
            return parse(text)
        except (DurationError, QuantityError, ValueError) as error:
            self._wrong[key] = f"annotation {PREFIX}{key}: {error}"
            return default

    def invalid_annotations(self) -> tuple[str, ...]:
        unknown = {key: f"annotation {PREFIX}{key}: no such key" for key in self._own if key not in self._asked}
        return tuple(text for _key, text in sorted({**unknown, **self._wrong}.items()))


def parse_timeline(text: str) -> Timeline:
    """``fail 5s, pass 30s, fail``: the last one is permanent unless it has a duration; then the sequence starts
    over."""
    steps: list[tuple[bool, float]] = []
    words = [part.split() for part in text.split(",")]
    for number, part in enumerate(words):
        if not part or part[0] not in ("pass", "fail") or len(part) > 2:
            raise ValueError(f'expected "pass" or "fail" and a duration, got "{" ".join(part)}"')
        if len(part) == 1 and number < len(words) - 1:
            raise ValueError(f'only the last outcome may last forever, "{part[0]}" needs a duration')
        seconds = parse_duration(part[1]) if len(part) == 2 else math.inf
        if seconds < MIN_OUTCOME_SECONDS:
            raise ValueError(f"an outcome lasts longer than {part[1]}, a kubelet probes once a second at most")
        steps.append((part[0] == "pass", seconds))
    return Timeline(tuple(steps))


def _durations(text: str) -> tuple[float, ...]:
    durations = tuple(
        math.inf if part.strip() == "forever" else parse_duration(part.strip()) for part in text.split(",")
    )
    if any(seconds < 0 for seconds in durations):
        raise ValueError(f'"{text}" goes backwards')
    return durations


def _codes(text: str) -> tuple[int, ...]:
    return tuple(_code(part) for part in text.split(","))


def _code(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f'an exit code is a number, got "{text}"') from None


def _amount(text: str) -> int:
    return parse_quantity(text).value
