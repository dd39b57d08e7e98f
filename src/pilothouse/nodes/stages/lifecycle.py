"""The next stage of an object, its delay, and its steps. Pure; random numbers are arguments.

The rules are KWOK's (``pkg/utils/lifecycle``): of all stages that match, one is drawn by weight; its delay is drawn
between ``duration`` and ``jitterDuration``, or is the latter if that is the shorter.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from random import Random  # noqa: TID251  # the type of a stream
from typing import Any

import msgspec
import yaml

from pilothouse.machinery.durations import DurationError, parse_duration
from pilothouse.machinery.times import TimeError, parse_time
from pilothouse.machinery.yaml_loader import yaml_error_text
from pilothouse.nodes.stages.stage import (
    ApplyPatch,
    ChangeFinalizers,
    Requirement,
    Stage,
    StageError,
    ValueFrom,
    parse_yaml,
)
from pilothouse.nodes.stages.template_syntax import TemplateError

Document = Mapping[str, Any]
Context = Mapping[str, Callable[..., Any]]

_MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    # Nodes and Pods have merge keys, so this is the default for them.
    "strategic": "application/strategic-merge-patch+json",
    "": "application/strategic-merge-patch+json",
}


def matches(stage: Stage, document: Document) -> bool:
    """Whether a stage is for this object as it is."""
    meta = document.get("metadata") or {}
    for selector, actual in ((stage.labels, meta.get("labels")), (stage.annotations, meta.get("annotations"))):
        if any((actual or {}).get(key) != value for key, value in selector.items()):
            return False
    return all(_holds(requirement, document) for requirement in stage.requirements)


def _holds(requirement: Requirement, document: Document) -> bool:
    results = requirement.query(document)
    match requirement.operator:
        case "In":
            return results is not None and any(_word(value) in requirement.values for value in results)
        case "NotIn":
            return results is None or not any(_word(value) in requirement.values for value in results)
        case "Exists":
            return bool(results)
        case _:
            return not results


def _word(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else None


def possible(stages: Sequence[Stage], document: Document) -> list[tuple[Stage, int]]:
    """The stages that may be next, each with its weight. If all weights are 0 they are equally likely."""
    matched = [stage for stage in stages if matches(stage, document)]
    if len(matched) < 2:
        return [(stage, 1) for stage in matched]
    weights = [weight_of(stage, document) for stage in matched]
    numeric = [weight for weight in weights if weight is not None]
    if not numeric:
        return [(stage, 1) for stage in matched]
    if not sum(numeric):
        return [(stage, 1) for stage, weight in zip(matched, weights, strict=True) if weight is not None]
    return [
        (stage, weight) for stage, weight in zip(matched, weights, strict=True) if weight is not None and weight > 0
    ]


def choose(stages: Sequence[Stage], document: Document, random: Random) -> Stage | None:
    """The next stage, or None. A random number is only drawn if there is a choice."""
    candidates = possible(stages, document)
    if len(candidates) < 2:
        return candidates[0][0] if candidates else None
    remaining = random.randrange(sum(weight for _stage, weight in candidates))
    for stage, weight in candidates:
        remaining -= weight
        if remaining < 0:
            return stage
    raise AssertionError("one of the weights is the last")


def weight_of(stage: Stage, document: Document) -> int | None:
    """A stage's weight; None if the value in the object is not a number."""
    weight = _first(stage.weight, document)
    if isinstance(weight, str):
        try:
            return int(weight, 0)
        except ValueError:
            return None
    return int(weight) if isinstance(weight, int | float) else stage.weight.value


def delay_range(stage: Stage, document: Document, now: datetime.datetime) -> tuple[float, ...]:
    """The bounds of the random delay in seconds; one value if it is fixed, none if there is no delay."""
    least = _seconds(stage.delay, document, now)
    if least is None:
        return ()
    most = _seconds(stage.jitter, document, now)
    if most is None:
        return (least,)
    return (most,) if most <= least else (least, most)


def draw_delay(stage: Stage, document: Document, now: datetime.datetime, random: Random) -> float:
    """The seconds until the stage is applied."""
    bounds = delay_range(stage, document, now)
    if len(bounds) == 2:
        return bounds[0] + random.random() * (bounds[1] - bounds[0])
    return max(0.0, bounds[0]) if bounds else 0.0


def _first(value: ValueFrom, document: Document) -> Any:
    results = value.query(document) if value.query is not None else None
    return results[0] if results else None


def _seconds(value: ValueFrom | None, document: Document, now: datetime.datetime) -> float | None:
    """A duration (``5s``), or how long it is until an instant."""
    if value is None:
        return None
    result = _first(value, document)
    if isinstance(result, str):
        if not result:
            return None
        try:
            return (parse_time(result) - now).total_seconds()
        except TimeError:
            pass  # then it is a duration, or neither
        try:
            return parse_duration(result)
        except DurationError:
            pass  # as in KWOK the stage's own number counts then
    return None if value.value is None else value.value / 1000


def finalizer_operations(step: ChangeFinalizers, present: Sequence[str]) -> list[dict[str, Any]]:
    """The JSON patch of a change of finalizers, empty if there is nothing to change."""
    operations: list[dict[str, Any]] = []
    removed_indexes = [index for index in reversed(range(len(present))) if present[index] in step.remove]
    empty = step.empty or (bool(step.remove) and len(removed_indexes) == len(present))
    remaining: Sequence[str] = () if empty else present
    if empty and present:
        operations.append({"op": "remove", "path": "/metadata/finalizers"})
    elif not empty:
        operations += [{"op": "remove", "path": f"/metadata/finalizers/{index}"} for index in removed_indexes]
    if step.add and not remaining:
        operations.append({"op": "add", "path": "/metadata/finalizers", "value": list(step.add)})
    elif step.add:
        new = [value for value in step.add if value not in remaining]
        operations += [{"op": "add", "path": "/metadata/finalizers/-", "value": value} for value in new]
    return operations


def patch_body(stage: Stage, step: ApplyPatch, document: Document, context: Context) -> tuple[str, bytes]:
    """Media type and body of a patch. Raises ``StageError`` where the template fails, or is no YAML once rendered."""
    location = f"{step.location} for {document.get('metadata', {}).get('name', '')}"
    try:
        text = step.template.render(document, context)
    except TemplateError as error:
        raise StageError(f"{location}, {error}") from error
    try:
        value = parse_yaml(text)
    except yaml.YAMLError as error:
        raise StageError(f"{location}: it renders to what is not valid YAML: {yaml_error_text(error)}") from error
    if step.type == "json":
        if not isinstance(value, list) or not all(isinstance(operation, dict) for operation in value):
            raise StageError(f"{location}: a JSON patch is a list of operations")
        if step.root:
            value = [{**operation, "path": f"/{step.root}{operation.get('path', '')}"} for operation in value]
    elif step.root:
        value = {step.root: value}
    return _MEDIA[step.type], msgspec.json.encode(value)
