"""Describes the containers of a pod by its status. Pure."""

import datetime
from typing import Any

import msgspec

from pilothouse.why.evidence import Document

_SHORT_RUN = datetime.timedelta(seconds=60)
"""A container that exits sooner probably fails because of its spec."""
_MAX_MESSAGE = 4096
"""The kubelet's limit for termination messages. The API server takes any size."""
PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"}
)
CONFIGURATION_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_NORMAL_REASONS = frozenset({"ContainerCreating", "PodInitializing", ""})


class Failure(msgspec.Struct, frozen=True):
    """Why a container does not run."""

    text: str
    in_spec: bool
    """Whether the pod's spec is the likely cause."""


def container_lines(pod: Document) -> list[str]:
    """A line about each container: ``main: waiting, CrashLoopBackOff, 3 restarts, exited with 1 (Error) after 2 s``."""
    return [_line(status) for status in _statuses(pod)]


def failures(pod: Document) -> list[Failure]:
    """Failures of the containers, init containers first."""
    images = {container.get("name"): container.get("image") for container in _specs(pod)}
    all_failures = (_failure(status, str(images.get(status.get("name")) or "")) for status in _statuses(pod))
    return [failure for failure in all_failures if failure is not None]


def _failure(status: dict[str, Any], image: str) -> Failure | None:
    name = f"container {status.get('name')}"
    state = status.get("state") or {}
    terminated = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    waiting = state.get("waiting")
    if waiting is not None:
        reason = waiting.get("reason") or ""
        if reason in PULL_REASONS:
            return Failure(f"the image {image} of {name} can't be pulled: {reason}{_message(waiting)}", True)
        if reason == "CrashLoopBackOff" and terminated is not None:
            restarts = status.get("restartCount") or 0
            return Failure(
                f"{name} {_exit_text(terminated)}, and is restarted with back-off: {restarts} restarts",
                _fails_early(terminated),
            )
        if reason not in _NORMAL_REASONS:
            return Failure(f"{name} can't be started: {reason}{_message(waiting)}", True)
        return None
    if state.get("terminated") and terminated is not None and terminated.get("exitCode"):
        return Failure(f"{name} {_exit_text(terminated)}", _fails_early(terminated))
    return None


def _specs(pod: Document) -> list[dict[str, Any]]:
    spec = pod.get("spec") or {}
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _statuses(pod: Document) -> list[dict[str, Any]]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _line(status: dict[str, Any]) -> str:
    state = status.get("state") or {}
    if running := state.get("running"):
        text = (
            f"running since {_time_of_day(running.get('startedAt'))}, {'ready' if status.get('ready') else 'not ready'}"
        )
    elif terminated := state.get("terminated"):
        text = _exit_text(terminated)
    else:
        waiting = state.get("waiting") or {}
        text = f"waiting, {waiting.get('reason') or 'no reason given'}"
    if restarts := status.get("restartCount"):
        text += f", {restarts} restarts"
    last = (status.get("lastState") or {}).get("terminated")
    if last is not None:
        text += f", {_exit_text(last)} at {_time_of_day(last.get('finishedAt'))}"
    return f"{status.get('name')}: {text}"


def _exit_text(terminated: dict[str, Any]) -> str:
    reason = f" ({terminated['reason']})" if terminated.get("reason") else ""
    signal = f" by signal {terminated['signal']}" if terminated.get("signal") else ""
    run_time = _duration(terminated)
    after = f" after {run_time.total_seconds():.0f} s" if run_time is not None else ""
    return f"exited with {terminated.get('exitCode', 0)}{reason}{signal}{after}{_message(terminated)}"


def _fails_early(terminated: dict[str, Any]) -> bool:
    run_time = _duration(terminated)
    return terminated.get("reason") != "OOMKilled" and run_time is not None and run_time < _SHORT_RUN


def _duration(terminated: dict[str, Any]) -> datetime.timedelta | None:
    try:
        started, finished = (datetime.datetime.fromisoformat(terminated[name]) for name in ("startedAt", "finishedAt"))
    except (KeyError, TypeError, ValueError):
        return None
    return finished - started


def _message(part: dict[str, Any]) -> str:
    text = " ".join(str(part.get("message") or "").split())
    return f": {text if len(text) <= _MAX_MESSAGE else text[: _MAX_MESSAGE - 1] + '…'}" if text else ""


def _time_of_day(time: Any) -> str:
    return str(time or "")[11:19] or "an unknown time"
