"""Objects of operators written with kopf, which stores the progress of each handler in an annotation until all have
succeeded (kopf 1.45 ``_cogs/configs/progress.py``)."""

import json
from collections.abc import Iterator
from typing import Any

from pilothouse.why.states.lifetime import last_change
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_PREFIX = "kopf.zalando.org/"
_LAST_HANDLED = f"{_PREFIX}last-handled-configuration"
_MAX_HANDLERS = 5
_MAX_MESSAGE = 500
_HTTP_HEADERS, _HTTP_BODY = "HTTP response headers:", "HTTP response body:"


async def failed_handler(view: View) -> Finding | None:
    """An object of which a handler has failed, and perhaps is called again."""
    steps = [_step(view, name, progress) for name, progress in _failed(view)]
    if not steps:
        return None
    change = await last_change(view)
    steps[0].because = [change] if change is not None else []
    return Finding("handler failed", tuple(steps[:_MAX_HANDLERS]))


def handled_lines(view: View) -> list[str]:
    """A line if no handler is called any more for the spec as it is. kopf does not keep whether they have succeeded."""
    text = _annotations(view).get(_LAST_HANDLED)
    handled = None if text is None else _decoded(text)
    if not isinstance(handled, dict) or (handled.get("spec") or {}) != view.spec:
        return []
    return ["kopf's handlers of this spec have ended"]


def _failed(view: View) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, text in sorted(_annotations(view).items()):
        if not key.startswith(_PREFIX) or '"retries"' not in text:
            continue
        progress = _decoded(text)
        if isinstance(progress, dict) and progress.get("retries") and not _succeeds(progress):
            yield key.removeprefix(_PREFIX), progress


def _annotations(view: View) -> dict[str, str]:
    return ((view.now or {}).get("metadata") or {}).get("annotations") or {}


def _decoded(text: str) -> Any:
    """None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _succeeds(progress: dict[str, Any]) -> bool:
    """Whether a handler has succeeded, or waits for its sub-handlers. That counts as an attempt, whose message is that
    of an exception without one (``_core/reactor/subhandling.py``, ``HandlerChildrenRetry``)."""
    waits = progress.get("subrefs") and progress.get("message") == "None" and not progress.get("failure")
    return bool(progress.get("success") or waits)


def _step(view: View, name: str, progress: dict[str, Any]) -> Step:
    attempts, message = progress["retries"], _shortened(str(progress.get("message") or ""))
    times = "once" if attempts == 1 else f"{attempts} times"
    step = view.step(f"is not handled: kopf's handler {name} has failed {times}: {message or 'no message'}", root=STATE)
    if progress.get("failure"):
        step.table.append("it is not called again")
    elif progress.get("delayed"):
        step.table.append(f"it is called again at {progress['delayed']}")
    return step


def _shortened(message: str) -> str:
    """Without the headers that the official client's ApiException has before the body, of a Status only its message."""
    reason, found, body = message.partition(_HTTP_BODY)
    if found:
        status = _decoded(body)
        said = status.get("message") if isinstance(status, dict) else None
        message = f"{reason.partition(_HTTP_HEADERS)[0]} {said or body}"
    text = " ".join(message.split())
    return text if len(text) <= _MAX_MESSAGE else f"{text[:_MAX_MESSAGE]}…"
