"""Deployments whose rollout is not complete: the bounds, the ReplicaSets, and what holds up the pods."""

from typing import Any

from pilothouse.why.states.rejections import rejection
from pilothouse.why.states.replicas import held_pods
from pilothouse.why.states.workloads import add_last_change
from pilothouse.why.steps import STATE, Step, counted
from pilothouse.why.view import Finding, View

_REVISION = "deployment.kubernetes.io/revision"
_MOST_SETS = 6


async def incomplete(view: View) -> Finding | None:
    """A rollout that goes on or has stopped."""
    spec, status = view.spec, view.status
    wanted = int(spec.get("replicas", 1))
    total, updated, available = (
        int(status.get(name) or 0) for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    if spec.get("paused") and (updated < wanted or total > updated):
        return Finding("paused", (await _paused(view),))
    if updated >= wanted and total <= updated and available >= wanted:
        return None
    sets = sorted(await view.owned("replicasets.apps"), key=_revision, reverse=True)
    step = view.step(
        f"wants {counted(wanted, 'pod')}: {updated} of {total} have the current template, {available} are available"
    )
    step.table = [bounds_line(spec, wanted), *map(_set_line, [set_ for set_ in sets if _size(set_)][:_MOST_SETS])]
    for set_ in sets[:1]:
        rejected = await rejection(set_)
        if rejected is not None:
            step.because.append(rejected)
    step.because += await held_pods([pod for set_ in sets if _size(set_) for pod in await set_.owned("pods")])
    await add_last_change(view, step, rolls=updated < wanted or total > updated)
    progress = view.condition("Progressing")
    if progress.get("reason") == "ProgressDeadlineExceeded":
        step.table.append(f"progressDeadlineSeconds {spec.get('progressDeadlineSeconds')}: {progress.get('message')}")
        return Finding("not progressing", (step,))
    return Finding("rolling out", (step,))


async def _paused(view: View) -> Step:
    for change in reversed(await view.changes()):
        before, after = await view.evidence.before(change), await view.evidence.after(change)
        if _is_paused(after) and not _is_paused(before):
            return await view.chain.step(change)
    return view.step("is paused: its rollout goes on when spec.paused is false", root=STATE)


def _is_paused(document: dict[str, Any] | None) -> bool:
    return bool(((document or {}).get("spec") or {}).get("paused"))


def bounds_line(spec: dict[str, Any], wanted: int) -> str:
    """``maxSurge 25% (0.75, rounded up to 1), maxUnavailable 25% (0.75, rounded down to 0): at most 4 pods, …``."""
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return "strategy Recreate: all pods of the old template have to be gone before new ones are created"
    rolling = strategy.get("rollingUpdate") or {}
    surge, unavailable = rolling.get("maxSurge", "25%"), rolling.get("maxUnavailable", "25%")
    more, fewer = _share(surge, wanted, up=True), _share(unavailable, wanted, up=False)
    if not more and not fewer:
        fewer = 1  # as upstream's ResolveFenceposts
    shown = (
        f"maxSurge {surge}{_worked_out(surge, wanted, more)}",
        f"maxUnavailable {unavailable}{_worked_out(unavailable, wanted, fewer)}",
    )
    return f"{', '.join(shown)}: at most {wanted + more} pods, at least {max(0, wanted - fewer)} available"


def _share(value: Any, wanted: int, *, up: bool) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    percent = int(text[:-1])
    return -(-wanted * percent // 100) if up else wanted * percent // 100


def _worked_out(value: Any, wanted: int, number: int) -> str:
    text = str(value)
    if not text.endswith("%"):
        return "" if text == str(number) else f" ({number})"
    exact = int(text[:-1]) * wanted / 100
    if exact == number:
        return f" ({number})"
    return f" ({exact:g}, rounded {'up' if exact < number else 'down'} to {number})"


def _revision(view: View) -> int:
    text = (view.metadata.get("annotations") or {}).get(_REVISION) or "0"
    return int(text) if text.isdigit() else 0


def _size(view: View) -> int:
    return int(view.spec.get("replicas") or 0) + int(view.status.get("replicas") or 0)


def _set_line(view: View) -> str:
    status = view.status
    return (
        f"{view.reference.name} (revision {_revision(view)}): wants {view.spec.get('replicas', 0)}, has "
        f"{status.get('replicas') or 0}, {status.get('readyReplicas') or 0} ready, "
        f"{status.get('availableReplicas') or 0} available"
    )
