"""HorizontalPodAutoscalers: the arithmetic of the last sync, and what keeps them from scaling.

After ``pkg/controller/podautoscaler`` (v1.36): ``horizontal.go`` for the conditions, ``replica_calculator.go`` for the
ratio and its tolerance.
"""

import math
import re
from typing import Any

from pilothouse.machinery.quantities import QuantityError, parse_quantity
from pilothouse.why.evidence import Document, Reference
from pilothouse.why.states.lifetime import created, last_change
from pilothouse.why.states.mutations import added_container
from pilothouse.why.states.owners import workload_of
from pilothouse.why.steps import STATE, Step
from pilothouse.why.view import Finding, View

_NO_REQUEST = re.compile(r"missing request for \S+ in container (?P<container>\S+) of Pod (?P<pod>\S+)")
"""``replica_calculator.go``, ``calculatePodRequests``."""
_TOLERANCE = 0.1
"""``--horizontal-pod-autoscaler-tolerance``, unless ``spec.behavior`` has one."""


async def autoscaler(view: View) -> Finding | None:
    """Why it has the number of replicas that it has."""
    current, desired = view.status.get("currentReplicas", 0), view.status.get("desiredReplicas", 0)
    able, active, limited = (view.condition(each) for each in ("AbleToScale", "ScalingActive", "ScalingLimited"))
    steps: list[Step] = []
    for found in (able, active):
        if found.get("status") == "False":
            step = view.step(f"can't scale: {found.get('reason')}: {found.get('message')}", root=STATE)
            step.because = await _target(view) or await _without_request(view, str(found.get("message") or ""))
            steps.append(step)
    compared = [f"compares {line}" for line in _arithmetic(view.spec, view.status, current)]
    if not steps and compared:
        steps.append(view.step(compared.pop(0), root=STATE))
    if steps:
        steps[0].table = compared
    if limited.get("status") == "True":
        text = f"wants other than it may: {limited.get('reason')}: {limited.get('message')}"
        bounds = await _bound(view, limited)
        steps.append(view.step(text, root=STATE, because=[bounds] if bounds is not None else []))
    elif able.get("reason") in ("ScaleDownStabilized", "ScaleUpStabilized", "BackoffDownscale", "BackoffBoth"):
        steps.append(view.step(f"waits: {able.get('reason')}: {able.get('message')}", root=STATE))
    if not steps:
        return None
    broken = any(each.get("status") == "False" for each in (able, active))
    state = "not scaling" if broken or current == desired else f"scaling from {current} to {desired}"
    return Finding(state, tuple(steps))


async def _bound(view: View, limited: dict[str, Any]) -> Step | None:
    """Who set the bound that is reached: a change of the other one is no reason."""
    changed = await last_change(view)
    other = "spec.maxReplicas" if limited.get("reason") == "TooFewReplicas" else "spec.minReplicas"
    only_other = changed is not None and "; " not in changed.text and f"changed: {other}" in changed.text
    return await created(view) if only_other else changed


async def _without_request(view: View, message: str) -> list[Step]:
    """For a container without a request: where it comes from, if not from the template, or who left that out."""
    found = _NO_REQUEST.search(message)
    if found is None:
        return []
    pod = await view.read("pods", found["pod"])
    if pod.now is None:
        return []
    added = await added_container(pod, found["container"])
    if added is not None:
        return [added]
    workload = await workload_of(pod)
    changed = await last_change(workload) if workload is not None else await created(pod)
    return [changed] if changed is not None else []


async def _target(view: View) -> list[Step]:
    """That the target is not there, or has no replicas."""
    target = view.spec.get("scaleTargetRef") or {}
    resource = view.evidence.resource_of(target.get("apiVersion") or "", target.get("kind") or "")
    name = target.get("name") or ""
    if not resource:
        return []
    there = await view.evidence.get(Reference(resource, view.reference.namespace, name))
    about = view.of(resource, name, there)
    if there is not None:
        changed = await last_change(about) if about.spec.get("replicas") == 0 else None
        return [changed] if changed is not None else []
    ended = next((change for change in reversed(await about.changes()) if change.type == "DELETED"), None)
    if ended is not None:
        return [await view.chain.step(ended, text="was deleted")]
    return [about.step("is not there", root=STATE)]


def _arithmetic(spec: Document, status: Document, replicas: int) -> list[str]:
    """One line for each metric whose current value is known."""
    current = {
        _named(current_metric): current_metric
        for current_metric in status.get("currentMetrics") or ()
        if current_metric
    }
    return [
        line
        for metric in spec.get("metrics") or ()
        if (line := _line(metric, current.get(_named(metric)), replicas, _tolerances(spec)))
    ]


def _named(metric: dict[str, Any]) -> tuple[str, str]:
    type_ = metric.get("type") or ""
    source = metric.get(f"{type_[:1].lower()}{type_[1:]}") or {}
    return type_, source.get("name") or (source.get("metric") or {}).get("name") or ""


def _line(
    metric: dict[str, Any], current: dict[str, Any] | None, replicas: int, tolerances: tuple[float, float]
) -> str:
    type_, name = _named(metric)
    key = f"{type_[:1].lower()}{type_[1:]}"
    target = (metric.get(key) or {}).get("target") or {}
    value = ((current or {}).get(key) or {}).get("current") or {}
    for field, unit in (("averageUtilization", " %"), ("averageValue", ""), ("value", "")):
        wanted, has = _number(target.get(field)), _number(value.get(field))
        if wanted is None:
            continue
        if has is None:
            return f"{name or type_}: the target is {target[field]}{unit}, and there is no current value"
        ratio = has / wanted if wanted else math.inf
        down, up = tolerances
        if 1 - down <= ratio <= 1 + up:
            outcome = f"within the tolerance of {down if ratio < 1 else up:g}, so {replicas} replicas stay"
        elif math.isfinite(ratio):
            outcome = f"times {replicas} replicas makes {math.ceil(replicas * ratio - 1e-9)}"
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
    found = [_number((behavior.get(each) or {}).get("tolerance")) for each in ("scaleDown", "scaleUp")]
    down, up = (_TOLERANCE if each is None else each for each in found)
    return down, up
