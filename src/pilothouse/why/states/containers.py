"""What the containers of a pod do, from its status. Pure."""

import datetime
from typing import Any

import msgspec

from pilothouse.why.evidence import Document

_SHORT_RUN = datetime.timedelta(seconds=60)
"""A container that ended sooner probably fails for what its spec says."""
_MOST_MESSAGE = 160
PULLS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable"})
CONFIGURATION = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_USUAL = frozenset({"ContainerCreating", "PodInitializing", ""})


class Failure(msgspec.Struct, frozen=True):
    """What keeps a container from running or from being ready."""

    text: str
    in_spec: bool
    """Whether what the pod's spec asks for is at fault, as far as one can tell."""


def container_lines(pod: Document) -> list[str]:
    """A line about each container: ``main: waiting, CrashLoopBackOff, 3 restarts, exited with 1 (Error) after 2 s``."""
    return [_line(status) for status in _statuses(pod)]


def failures(pod: Document) -> list[Failure]:
    """What keeps the containers from being ready, by container."""
    images = {spec.get("name"): spec.get("image") for spec in _specs(pod)}
    found = (_failure(status, str(images.get(status.get("name")) or "")) for status in _statuses(pod))
    return [each for each in found if each is not None]


def _failure(status: dict[str, Any], image: str) -> Failure | None:
    name = f"container {status.get('name')}"
    state = status.get("state") or {}
    ended = state.get("terminated") or (status.get("lastState") or {}).get("terminated")
    waiting = state.get("waiting")
    if waiting is not None:
        reason = waiting.get("reason") or ""
        if reason in PULLS:
            return Failure(f"the image {image} of {name} can't be pulled: {reason}{_message(waiting)}", True)
        if reason == "CrashLoopBackOff" and ended is not None:
            restarts = status.get("restartCount") or 0
            return Failure(
                f"{name} {_ended(ended)}, and is restarted with back-off: {restarts} restarts", _fails(ended)
            )
        if reason not in _USUAL:
            return Failure(f"{name} can't be started: {reason}{_message(waiting)}", True)
        return None
    if state.get("terminated") and ended is not None and ended.get("exitCode"):
        return Failure(f"{name} {_ended(ended)}", _fails(ended))
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
        text = f"running since {_clock(running.get('startedAt'))}, {'ready' if status.get('ready') else 'not ready'}"
    elif ended := state.get("terminated"):
        text = _ended(ended)
    else:
        waiting = state.get("waiting") or {}
        text = f"waiting, {waiting.get('reason') or 'no reason given'}"
    if restarts := status.get("restartCount"):
        text += f", {restarts} restarts"
    last = (status.get("lastState") or {}).get("terminated")
    if last is not None:
        text += f", {_ended(last)} at {_clock(last.get('finishedAt'))}"
    return f"{status.get('name')}: {text}"


def _ended(ended: dict[str, Any]) -> str:
    reason = f" ({ended['reason']})" if ended.get("reason") else ""
    signal = f" by signal {ended['signal']}" if ended.get("signal") else ""
    ran = _duration(ended)
    after = f" after {ran.total_seconds():.0f} s" if ran is not None else ""
    return f"exited with {ended.get('exitCode', 0)}{reason}{signal}{after}{_message(ended)}"


def _fails(ended: dict[str, Any]) -> bool:
    ran = _duration(ended)
    return ended.get("reason") != "OOMKilled" and ran is not None and ran < _SHORT_RUN


def _duration(ended: dict[str, Any]) -> datetime.timedelta | None:
    try:
        began, over = (datetime.datetime.fromisoformat(ended[name]) for name in ("startedAt", "finishedAt"))
    except (KeyError, TypeError, ValueError):
        return None
    return over - began


def _message(part: dict[str, Any]) -> str:
    text = " ".join(str(part.get("message") or "").split())
    return f": {text if len(text) <= _MOST_MESSAGE else text[: _MOST_MESSAGE - 1] + '…'}" if text else ""


def _clock(time: Any) -> str:
    return str(time or "")[11:19] or "an unknown time"
