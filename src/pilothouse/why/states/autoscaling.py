"""HorizontalPodAutoscalers: the computation of the last sync, and what prevents scaling.

After ``pkg/controller/podautoscaler`` (v1.36): ``horizontal.go`` for the conditions, ``replica_calculator.go`` for the
ratio and its tolerance.
"""

import math
import re
from typing import Any

from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.why.evidence import Document
from pilothouse.why.injected import has_load, load_change
from pilothouse.why.states.lifetime import created, last_change
from pilothouse.why.states.mutations import injected_container
from pilothouse.why.states.owners import workload_of
from pilothouse.why.steps import STATE, UNREMARKABLE, Step
from pilothouse.why.view import Finding, View

_NO_REQUEST = re.compile(r"missing request for \S+ in container (?P<container>\S+) of Pod (?P<pod>\S+)")
"""``replica_calculator.go``, ``calculatePodRequests``."""
_TOLERANCE = 0.1
"""``--horizontal-pod-autoscaler-tolerance``, unless ``spec.behavior`` has one."""

_FIRST_SYNC = (
    "waits for its first sync: horizontal-pod-autoscaler-controller syncs all of them every 15 s, or "
    "--horizontal-pod-autoscaler-sync-period"
)


async def autoscaler(view: View) -> Finding | None:
    """Explain the number of replicas: conditions with status False, the metrics, and the limits."""
    if not view.status.get("conditions"):  # every sync writes some
        return Finding("not synced yet", (view.step(_FIRST_SYNC, root=STATE),))
    current, desired = view.status.get("currentReplicas", 0), view.status.get("desiredReplicas", 0)
    able, active, limited = (view.condition(type_) for type_ in ("AbleToScale", "ScalingActive", "ScalingLimited"))
    steps: list[Step] = []
    for failing in (able, active):
        if failing.get("status") == "False":
            step = view.step(f"can't scale: {failing.get('reason')}: {failing.get('message')}", root=STATE)
            step.because = (
                await _missing_target(view)
                or await _without_request(view, str(failing.get("message") or ""))
                or await _unready_target(view, str(failing.get("reason")))
            )
            steps.append(step)
    compared = [f"compares {line}" for line in _metric_lines(view.spec, view.status, current)]
    if not steps and compared:
        steps.append(view.step(compared.pop(0), root=STATE, because=await _load(view)))
    if steps:
        steps[0].table = compared
    if limited.get("status") == "True":
        text = f"is limited: {limited.get('reason')}: {limited.get('message')}"
        bounds = await _limit_change(view, limited)
        steps.append(view.step(text, root=STATE, because=[bounds] if bounds is not None else []))
    elif able.get("reason") in ("ScaleDownStabilized", "ScaleUpStabilized", "BackoffDownscale", "BackoffBoth"):
        steps.append(view.step(f"waits: {able.get('reason')}: {able.get('message')}", root=STATE))
    if not steps:
        return None
    failed = any(condition.get("status") == "False" for condition in (able, active))
    state = "not scaling" if failed or current == desired else f"scaling from {current} to {desired}"
    return Finding(state, tuple(steps))


async def _limit_change(view: View, limited: dict[str, Any]) -> Step | None:
    """The change that set the limit that was reached; a change of only the other limit is skipped."""
    changed = await last_change(view)
    other = "spec.maxReplicas" if limited.get("reason") == "TooFewReplicas" else "spec.minReplicas"
    only_other = changed is not None and "; " not in changed.text and f"changed: {other}" in changed.text
    return await created(view) if only_other else changed


async def _without_request(view: View, message: str) -> list[Step]:
    """For a container without a request: who injected the container, or the last change of the workload."""
    match = _NO_REQUEST.search(message)
    if match is None:
        return []
    pod = await view.read("pods", match["pod"])
    if pod.now is None:
        return []
    injection = await injected_container(pod, match["container"])
    if injection is not None:
        return [injection]
    workload = await workload_of(pod)
    change = await last_change(workload) if workload is not None else await created(pod)
    return [change] if change is not None else []


async def _target(view: View) -> View | None:
    """The scale target, which may not exist; None if its kind is not served."""
    target = view.spec.get("scaleTargetRef") or {}
    resource = view.evidence.resource_of(target.get("apiVersion") or "", target.get("kind") or "")
    return await view.read(resource, target.get("name") or "") if resource else None


async def _load(view: View) -> list[Step]:
    """The last change of the load that is requested by annotation of the scale target."""
    target_view = await _target(view)
    if target_view is None or not has_load(target_view.now):
        return []
    change = await load_change(view.evidence, target_view.reference)
    return [] if change is None else [await view.chain.step(change)]


async def _unready_target(view: View, reason: str) -> list[Step]:
    """For missing metrics: why the pods of the scale target, which have none before they run, are not ready."""
    target_view = await _target(view) if reason == "FailedGetResourceMetric" else None
    if target_view is None or target_view.now is None:
        return []
    finding = await target_view.finding()
    return [] if finding.state in UNREMARKABLE else list(finding.steps)


async def _missing_target(view: View) -> list[Step]:
    """A scale target that does not exist or has no replicas."""
    target_view = await _target(view)
    if target_view is None or target_view.is_unreadable:
        return []
    if target_view.now is not None:
        change = await last_change(target_view) if target_view.spec.get("replicas") == 0 else None
        return [change] if change is not None else []
    deletion = next((change for change in reversed(await target_view.changes()) if change.type == "DELETED"), None)
    if deletion is not None:
        return [await view.chain.step(deletion, text="was deleted")]
    return [target_view.step("is not there", root=STATE)]


def _metric_lines(spec: Document, status: Document, replicas: int) -> list[str]:
    """One line for each metric with a current value."""
    current = {
        _metric_name(current_metric): current_metric
        for current_metric in status.get("currentMetrics") or ()
        if current_metric
    }
    return [
        line
        for metric in spec.get("metrics") or ()
        if (line := _line(metric, current.get(_metric_name(metric)), replicas, _tolerances(spec)))
    ]


def _metric_name(metric: dict[str, Any]) -> tuple[str, str]:
    type_ = metric.get("type") or ""
    source = metric.get(f"{type_[:1].lower()}{type_[1:]}") or {}
    return type_, source.get("name") or (source.get("metric") or {}).get("name") or ""


def _line(
    metric: dict[str, Any], current: dict[str, Any] | None, replicas: int, tolerances: tuple[float, float]
) -> str:
    type_, name = _metric_name(metric)
    key = f"{type_[:1].lower()}{type_[1:]}"
    target = (metric.get(key) or {}).get("target") or {}
    value = ((current or {}).get(key) or {}).get("current") or {}
    for field, unit in (("averageUtilization", " %"), ("averageValue", ""), ("value", "")):
        desired, actual = _number(target.get(field)), _number(value.get(field))
        if desired is None:
            continue
        if actual is None:
            return f"{name or type_}: the target is {target[field]}{unit}, and there is no current value"
        ratio = actual / desired if desired else math.inf
        down, up = tolerances
        if 1 - down <= ratio <= 1 + up:
            outcome = f"within the tolerance of {down if ratio < 1 else up:g}, so {replicas} replicas stay"
        elif math.isfinite(ratio):
            # Pods that are not ready or have no metrics count less when scaling up, and when scaling down the former
            # not at all, the latter as if they were at the target (replica_calculator.go, calcPlainMetricReplicas).
            bound = "at most" if ratio > 1 else "about"
            outcome = f"times {replicas} replicas makes {bound} {math.ceil(replicas * ratio - 1e-9)}"
        else:
            outcome = "a target of 0"
        return f"{name or type_}: {value[field]}{unit} with the target {target[field]}{unit}: {ratio:.2f}, {outcome}"
    return ""


def _number(value: object) -> float | None:
    if value is None:
        return None
    try:
        return parse_quantity(str(value)).milli_value / 1000
    except QuantityError:
        return None


def _tolerances(spec: Document) -> tuple[float, float]:
    """For scaling down and up."""
    behavior = spec.get("behavior") or {}
    set_tolerances = [
        _number((behavior.get(direction) or {}).get("tolerance")) for direction in ("scaleDown", "scaleUp")
    ]
    down, up = (_TOLERANCE if tolerance is None else tolerance for tolerance in set_tolerances)
    return down, up
