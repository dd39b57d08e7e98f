"""Deployments with an incomplete rollout: the bounds, the ReplicaSets, and the pods that are not ready."""

from collections.abc import Sequence
from typing import Any

from pilothouse.why.states.containers import failures
from pilothouse.why.states.pods import was_ready
from pilothouse.why.states.rejections import rejection
from pilothouse.why.states.replicas import (
    deletion_rejections,
    is_unready,
    remaining_pod_steps,
    remaining_pods,
    too_many_pods,
    unready_pod_steps,
)
from pilothouse.why.states.workloads import add_last_change
from pilothouse.why.steps import STATE, Step, pluralize
from pilothouse.why.view import Finding, View

_REVISION = "deployment.kubernetes.io/revision"
_MAX_SETS = 6


async def incomplete(view: View) -> Finding | None:
    """A rollout in progress, paused or past its deadline, or more pods than desired."""
    spec, status = view.spec, view.status
    desired = int(spec.get("replicas", 1))
    total, updated, available = (
        int(status.get(name) or 0) for name in ("replicas", "updatedReplicas", "availableReplicas")
    )
    if spec.get("paused") and (updated < desired or total > updated):
        return Finding("paused", (await _paused(view),))
    replica_sets = sorted(await view.owned("replicasets.apps"), key=_revision, reverse=True)
    if updated >= desired and total <= updated and available >= desired:
        pods = await _pods_of(replica_sets)
        excess = await too_many_pods(view, desired, total, pods, deleted_by=filter(_has_too_many, replica_sets))
        if excess is not None:
            excess.steps[0].table = _replica_set_lines(replica_sets)
        return excess or await remaining_pods(pods)
    step = view.step(
        f"should have {pluralize(desired, 'pod')}: {updated} of {total} have the current template, "
        f"{available} are available"
    )
    step.table = [
        bounds_line(spec, desired),
        *_replica_set_lines(replica_sets),
        *_kept_lines(spec, desired, replica_sets),
    ]
    step.because = await _reasons(view, replica_sets)
    await add_last_change(view, step, rolls=updated < desired or total > updated)
    progress = view.condition("Progressing")
    if progress.get("reason") == "ProgressDeadlineExceeded":
        step.table.append(f"progressDeadlineSeconds {spec.get('progressDeadlineSeconds')}: {progress.get('message')}")
        return Finding("not progressing", (step,))
    return Finding("rolling out", (step,))


async def _pods_of(replica_sets: Sequence[View]) -> list[View]:
    return [pod for replica_set in replica_sets for pod in await replica_set.owned("pods")]


async def _reasons(view: View, replica_sets: Sequence[View]) -> list[Step]:
    """Why pods are rejected, not ready, or not deleted or removed. That pods of an earlier template fail because of it
    does not matter while those of the current one are not ready."""
    rejected = await rejection(replica_sets[0] if replica_sets else view)
    steps = [rejected] if rejected is not None else []
    current = await _pods_of(replica_sets[:1])
    earlier = await _pods_of([replica_set for replica_set in replica_sets[1:] if _size(replica_set)])
    if steps or any(map(is_unready, current)):
        earlier = [pod for pod in earlier if not await _fails_by_template(pod)]
    steps += await deletion_rejections(filter(_has_too_many, replica_sets))
    steps += await unready_pod_steps([*current, *earlier])
    if (view.spec.get("strategy") or {}).get("type") == "Recreate":
        # The ReplicaSet of the new template is created after the end of these pods.
        steps += await remaining_pod_steps(await _pods_of(replica_sets))
    return steps


async def _fails_by_template(pod: View) -> bool:
    return any(failure.in_spec for failure in failures(pod.now or {})) and not await was_ready(pod)


async def _paused(view: View) -> Step:
    for change in reversed(await view.changes()):
        old, new = await view.evidence.before(change), await view.evidence.after(change)
        if _is_paused(new) and not _is_paused(old):
            return await view.chain.step(change)
    return view.step("is paused: its rollout goes on when spec.paused is false", root=STATE)


def _is_paused(document: dict[str, Any] | None) -> bool:
    return bool(((document or {}).get("spec") or {}).get("paused"))


def bounds_line(spec: dict[str, Any], desired: int) -> str:
    """``maxSurge 25% (0.75, rounded up to 1), maxUnavailable 25% (0.75, rounded down to 0): at most 4 pods, …``."""
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return "strategy Recreate: all pods of the old template have to be gone before new ones are created"
    rolling = strategy.get("rollingUpdate") or {}
    surge, unavailable = rolling.get("maxSurge", "25%"), rolling.get("maxUnavailable", "25%")
    max_surge, max_unavailable = _bounds(spec, desired)
    bounds = (
        f"maxSurge {surge}{_computed(surge, desired, max_surge)}",
        f"maxUnavailable {unavailable}{_computed(unavailable, desired, max_unavailable)}",
    )
    at_least = max(0, desired - max_unavailable)
    return f"{', '.join(bounds)}: at most {desired + max_surge} pods, at least {at_least} available"


def _kept_lines(spec: dict[str, Any], desired: int, replica_sets: Sequence[View]) -> list[str]:
    """Why pods of earlier templates are not removed although they are not available: as many others have to be (v1.36
    ``pkg/controller/deployment/rolling.go``, ``reconcileOldReplicaSets``)."""
    if (spec.get("strategy") or {}).get("type") == "Recreate" or not replica_sets:
        return []
    current, *earlier = replica_sets
    kept = sum(int(replica_set.spec.get("replicas") or 0) for replica_set in earlier)
    kept_available = sum(int(replica_set.status.get("availableReplicas") or 0) for replica_set in earlier)
    size = int(current.spec.get("replicas") or 0)
    unavailable = size - min(size, int(current.status.get("availableReplicas") or 0))
    _surge, max_unavailable = _bounds(spec, desired)
    at_least = max(0, desired - max_unavailable)
    if kept <= kept_available or size + kept - unavailable - at_least > 0:
        return []
    stay = f"{pluralize(kept, 'pod')} of earlier templates {'stays' if kept == 1 else 'stay'}"
    are = "is" if unavailable == 1 else "are"
    return [
        f"{stay}: of {size + kept} pods, {unavailable} of the current template {are} not available, and at least "
        f"{at_least} have to be"
    ]


def _bounds(spec: dict[str, Any], desired: int) -> tuple[int, int]:
    """maxSurge and maxUnavailable as numbers of pods."""
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    surge = _scaled_value(rolling.get("maxSurge", "25%"), desired, up=True)
    unavailable = _scaled_value(rolling.get("maxUnavailable", "25%"), desired, up=False)
    return surge, unavailable if surge or unavailable else 1  # as upstream's ResolveFenceposts


def _scaled_value(value: Any, desired: int, *, up: bool) -> int:
    text = str(value)
    if not text.endswith("%"):
        return int(text)
    percent = int(text[:-1])
    return -(-desired * percent // 100) if up else desired * percent // 100


def _computed(value: Any, desired: int, number: int) -> str:
    text = str(value)
    if not text.endswith("%"):
        return "" if text == str(number) else f" ({number})"
    exact = int(text[:-1]) * desired / 100
    if exact == number:
        return f" ({number})"
    return f" ({exact:g}, rounded {'up' if exact < number else 'down'} to {number})"


def _revision(view: View) -> int:
    text = (view.metadata.get("annotations") or {}).get(_REVISION) or "0"
    return int(text) if text.isdigit() else 0


def _size(view: View) -> int:
    return int(view.spec.get("replicas") or 0) + int(view.status.get("replicas") or 0)


def _has_too_many(view: View) -> bool:
    return int(view.status.get("replicas") or 0) > int(view.spec.get("replicas") or 0)


def _replica_set_lines(replica_sets: Sequence[View]) -> list[str]:
    return [_replica_set_line(replica_set) for replica_set in replica_sets if _size(replica_set)][:_MAX_SETS]


def _replica_set_line(view: View) -> str:
    status = view.status
    return (
        f"{view.reference.name} (revision {_revision(view)}): {view.spec.get('replicas', 0)} desired, "
        f"{status.get('replicas') or 0} exist, {status.get('readyReplicas') or 0} ready, "
        f"{status.get('availableReplicas') or 0} available"
    )
