"""HorizontalPodAutoscalers: the computation of the last sync, and what prevents scaling.

After ``pkg/controller/podautoscaler`` (v1.36): ``horizontal.go`` for the conditions, ``replica_calculator.go`` for the
ratio and its tolerance.
"""

import math
import re
from typing import Any, NamedTuple

from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.why.evidence import Document
from pilothouse.why.injected import has_load, load_change
from pilothouse.why.states.lifetime import created, last_change, last_deletion
from pilothouse.why.states.mutations import injected_container
from pilothouse.why.states.owners import workload_of
from pilothouse.why.steps import STATE, UNREMARKABLE, Step
from pilothouse.why.view import Finding, View, condition

_NO_REQUEST = re.compile(r"missing request for \S+ in container (?P<container>\S+) of Pod (?P<pod>\S+)")
"""``replica_calculator.go``, ``calculatePodRequests``."""
_METRICS_OF_PODS = ("Resource", "ContainerResource", "Pods")
_DECISION = re.compile(
    r"; (?P<metric>[^;]*?): (?P<value>[^;,]*), target (?P<target>[^;,]*)(?:, ratio [\d.]+)?"
    r"(?:; (?P<computation>metrics of \d+ of \d+ pods? count.*?))?, tolerance [^:]*"
    r"(?:: \d+ replicas become (?P<replicas>\d+)(?=;|$))?"
)
"""In a decision of the controller (``describe.py``), of the metric that makes the most replicas."""
_NODES_WITHOUT_METRICS = re.compile(r" ha(?:ve|s) none \(on (?P<nodes>[^)]*)\)")
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
    decision = await _recorded_decision(view)
    compared = [f"compares {line}" for line in metric_lines(view.spec, view.status, current, decision)]
    if not steps and compared:
        because = [*await _load(view), *await _nodes_without_metrics(view, decision)]
        steps.append(view.step(compared.pop(0), root=STATE, because=because))
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


async def _recorded_decision(view: View) -> str:
    """The arithmetic of the status, which is in the decision of its last update: it names the pods that have no metrics
    or are not ready, which the status does not. Empty if no decision is recorded."""
    for change in reversed(await view.own_changes()):
        if change.cause is not None and change.cause.component == "horizontal-pod-autoscaler-controller":
            return change.cause.decision if change.cause.decision.startswith("status: ") else ""
    return ""


async def _nodes_without_metrics(view: View, decision: str) -> list[Step]:
    """Why the nodes are not ready on which pods had no metrics, so that they counted as idle or at the target."""
    match = _NODES_WITHOUT_METRICS.search(decision)
    steps: list[Step] = []
    for name in match["nodes"].partition(" and ")[0].split(", ") if match is not None else ():
        node = await view.read("nodes", name, namespace="")
        if condition(node.now, "Ready").get("status", "True") != "True":
            steps += (await node.finding()).steps
    return steps


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
    return [await last_deletion(target_view) or target_view.step("is not there", root=STATE)]


def metric_lines(spec: Document, status: Document, replicas: int, decision: str) -> list[str]:
    """One line for each metric with a current value. ``decision`` has how the pods counted for one of them."""
    current = {
        _metric_name(current_metric): current_metric
        for current_metric in status.get("currentMetrics") or ()
        if current_metric
    }
    return [
        line
        for metric in spec.get("metrics") or ()
        if (line := _line(metric, current.get(_metric_name(metric)), replicas, _tolerances(spec), decision))
    ]


def _metric_name(metric: dict[str, Any]) -> tuple[str, str]:
    type_ = metric.get("type") or ""
    source = metric.get(f"{type_[:1].lower()}{type_[1:]}") or {}
    return type_, source.get("name") or (source.get("metric") or {}).get("name") or ""


class _Decided(NamedTuple):
    """The computation of one metric, as its controller recorded it."""

    computation: str
    """How the pods counted; empty if they all counted alike."""
    replicas: str
    """What the replicas became; empty if that is cut off."""


def _decided(name: str, value: str, target: str, decision: str) -> _Decided | None:
    """What was recorded of a metric; None if the decision is due to another metric."""
    match = _DECISION.search(decision)
    if match is None or (match["value"], match["target"]) != (value, target):
        return None
    is_named = re.search(rf"(?:^| ){re.escape(name)}(?:[ (]|$)", match["metric"]) is not None
    return _Decided(match["computation"] or "", match["replicas"] or "") if is_named else None


def _line(
    metric: dict[str, Any],
    current: dict[str, Any] | None,
    replicas: int,
    tolerances: tuple[float, float],
    decision: str,
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
        compared = f"{name or type_}: {value[field]}{unit} with the target {target[field]}{unit}: {ratio:.2f}"
        recorded_unit = {"averageUtilization": "%", "averageValue": " per pod"}.get(field, "")
        recorded_target = f"{target[field]}{'%' if field == 'averageUtilization' else ''}"
        decided = _decided(name, f"{value[field]}{recorded_unit}", recorded_target, decision)
        if decided is not None and decided.computation:
            return f"{compared}; {decided.computation}"
        down, up = tolerances
        if 1 - down <= ratio <= 1 + up:
            outcome = f"within the tolerance of {down if ratio < 1 else up:g}, so {replicas} replicas stay"
        elif math.isfinite(ratio):
            outcome = f"times {replicas} replicas makes "
            if decided is not None and decided.replicas:
                outcome += decided.replicas
            else:
                # Pods that are not ready or have no metrics count less when scaling up, and when scaling down the
                # former not at all, the latter as if they were at the target (replica_calculator.go,
                # calcPlainMetricReplicas).
                outcome += f"{'at most' if ratio > 1 else 'about'} {math.ceil(replicas * ratio - 1e-9)}"
                if ratio > 1 and type_ in _METRICS_OF_PODS:
                    outcome += ": pods without metrics or not ready count as 0"
        else:
            outcome = "a target of 0"
        return f"{compared}, {outcome}"
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
