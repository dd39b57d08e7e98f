"""The logs of simulated containers, for ``kubectl logs``. Pure.

A log is computed from the stored pod and the time; nothing is stored. The lines come from annotations
(``docs/nodes.md``), else from the output of the command, else one line at the start and one at the exit. Errors are a
kubelet's (``validateContainerLogStatus``, ``pkg/kubelet/kubelet_pods.go``, v1.36).
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.api.logs import ContainerLog, LogLine
from pilothouse.api.meta import ObjectMeta
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.durations import DurationError, parse_duration
from pilothouse.machinery.times import add_seconds
from pilothouse.nodes.behaviour import PREFIX
from pilothouse.nodes.views import Variable

with lazy_imports():
    from pilothouse.nodes import container_commands, container_environment

_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")
_SCRIPTED = ("log", "run-time", "exit-code")
_WHOLE_SECOND = datetime.timedelta(seconds=1)
"""Times in a status have whole seconds: lines within this time after the end were written before it."""
_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def container_log(
    pod: Mapping[str, Any], container: str, previous: bool, now: datetime.datetime, *, commands: bool = True
) -> ContainerLog:
    """The log of one container: of the current or last run, or with ``previous`` of the one before. ``commands``: as in
    the profile of the nodes."""
    location = f'container "{container}" in pod "{pod["metadata"]["name"]}"'
    status = _status_of(pod, container)
    if status is None:
        return ContainerLog(error=f"{location} is not available")
    state, last = status.get("state") or {}, (status.get("lastState") or {}).get("terminated")
    if previous:
        if last is None:
            return ContainerLog(error=f"previous terminated {location} not found")
        return _written(pod, container, last, now, commands=commands)
    run = state.get("running") or state.get("terminated") or last
    if run is not None:
        return _written(pod, container, run, now, commands=commands)
    reason = (state.get("waiting") or {}).get("reason") or ""
    if not reason:
        return ContainerLog(error=f"{location} is waiting to start - no logs yet")
    why = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }.get(reason, reason)
    return ContainerLog(error=f"{location} is waiting to start: {why}")


def _status_of(pod: Mapping[str, Any], container: str) -> Mapping[str, Any] | None:
    for field in _STATUSES:
        for status in (pod.get("status") or {}).get(field) or ():
            if status.get("name") == container:
                container_status: Mapping[str, Any] = status
                return container_status
    return None


def _written(
    pod: Mapping[str, Any], container: str, run: Mapping[str, Any], now: datetime.datetime, *, commands: bool
) -> ContainerLog:
    """The lines of one run so far."""
    started = _parse_time(run.get("startedAt")) or now
    finished = _parse_time(run.get("finishedAt"))
    end = finished or now
    output = _output(pod, container) if commands else ()
    planned = output or _planned(pod, container)
    if finished is not None and output:
        end = finished + _WHOLE_SECOND
    lines: list[LogLine] = []
    next_at: datetime.datetime | None = None
    for seconds, text in planned:
        at = add_seconds(started, seconds)
        if at > end:
            next_at = at
            break
        lines.append(LogLine(at, text))
    if finished is not None:
        if output:
            return ContainerLog(lines=lines, ended=True)
        lines.append(LogLine(finished, f"{container} exited with code {run.get('exitCode') or 0}"))
        return ContainerLog(lines=lines, ended=True)
    return ContainerLog(lines=lines, next_at=next_at)


def _output(pod: Mapping[str, Any], container: str) -> Sequence[tuple[float, str]]:
    """The output of the container's command, unless annotations replace it."""
    own = pod["metadata"].get("annotations") or {}
    if any(f"{PREFIX}{key}{name}" in own for key in _SCRIPTED for name in ("", f".{container}")):
        return ()
    for field in _CONTAINERS:
        for spec in ((pod.get("spec") or {}).get(field) or ())[: container_commands.MAX_CONTAINERS]:
            words = (*(spec.get("command") or ()), *(spec.get("args") or ()))
            if spec.get("name") == container and words:
                outcome = container_commands.outcome_of(words, _environment(pod, spec))
                return outcome.output if outcome is not None else ()
    return ()


def _environment(pod: Mapping[str, Any], container: Mapping[str, Any]) -> "container_environment.Environment":
    metadata = msgspec.convert(pod["metadata"], ObjectMeta)
    return container_environment.environment_of(
        metadata, msgspec.convert(container.get("env") or (), tuple[Variable, ...])
    )


def _planned(pod: Mapping[str, Any], container: str) -> list[tuple[float, str]]:
    """(seconds after the start, line), in order of time."""
    annotations = pod["metadata"].get("annotations") or {}
    script = annotations.get(f"{PREFIX}log.{container}", annotations.get(f"{PREFIX}log"))
    if script is None:
        return [(0.0, f"{container} started")]
    planned = [_timed(line) for line in script.splitlines()]
    return sorted(planned, key=lambda entry: entry[0])


def _timed(line: str) -> tuple[float, str]:
    """``@5s text``: the text, five seconds after the start. Without a valid duration everything is text."""
    if line.startswith("@"):
        after, _space, text = line[1:].partition(" ")
        try:
            return parse_duration(after), text
        except DurationError:
            pass
    return 0.0, line


def _parse_time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None
