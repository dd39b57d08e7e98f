"""Which stage is next, when, and its writes.

Mirrors KWOK ``pkg/utils/lifecycle`` (``value_duration_from_test.go``, ``value_int_from_test.go``,
``finalizers_test.go``) and ``kustomize/stage/stage_test.go``.
"""

import datetime
import json
from random import Random
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.nodes.stages import StageError
from pilothouse.nodes.stages.lifecycle import (
    choose,
    delay_range,
    draw_delay,
    finalizer_operations,
    matches,
    patch_body,
    possible,
)
from pilothouse.nodes.stages.stage import ApplyPatch, ChangeFinalizers, Stage, stage_from

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
POD: dict[str, Any] = {
    "metadata": {
        "name": "p",
        "labels": {"app": "web"},
        "annotations": {"d": "3s", "w": "7", "at": "2026-01-01T12:00:09Z"},
    },
    "spec": {"hostNetwork": False, "priority": 5},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}  # fmt: skip


def stage(name: str = "s", **spec: Any) -> Stage:
    document = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {"resourceRef": {"kind": "Pod"}, "selector": {}, **spec},
    }
    result = stage_from(document, "f")
    assert result is not None
    return result


def selector(key: str, operator: str, *values: str) -> dict[str, Any]:
    row = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"selector": {"matchExpressions": [row]}}


READY = '.status.conditions.[] | select(.type == "Ready") | .status'


@cases(
    "spec, expected",
    {
        "an empty selector matches everything": ({}, True),
        "label": ({"selector": {"matchLabels": {"app": "web"}}}, True),
        "different label": ({"selector": {"matchLabels": {"app": "db"}}}, False),
        "annotation": ({"selector": {"matchAnnotations": {"w": "7"}}}, True),
        "several annotations": ({"selector": {"matchAnnotations": {"w": "7", "x": "1"}}}, False),
        "In": (selector(".status.phase", "In", "Pending", "Running"), True),
        "In: value not listed": (selector(".status.phase", "In", "Pending"), False),
        "NotIn": (selector(".status.phase", "NotIn", "Pending"), True),
        "NotIn: missing field": (selector(".status.none", "NotIn", "Pending"), True),
        "NotIn: expression fails": (selector(".status.none[]", "NotIn", "Pending"), True),
        "a condition": (selector(READY, "In", "True"), True),
        "boolean as string": (selector(".spec.hostNetwork", "In", "false"), True),
        "number as string": (selector(".spec.priority", "In", "5"), True),
        "DoesNotExist": (selector(".metadata.deletionTimestamp", "DoesNotExist"), True),
        "Exists": (selector(".metadata.deletionTimestamp", "Exists"), False),
        "DoesNotExist: expression fails": (selector(".status.none[]", "DoesNotExist"), True),
        "false exists": (selector(".spec.hostNetwork", "Exists"), True),
    },
)
def test_selectors(spec: dict[str, Any], expected: bool) -> None:
    assert matches(stage(**spec), POD) is expected


FROM_W = {"weightFrom": {"expressionFrom": '.metadata.annotations["w"]'}}
FROM_NONE = {"weightFrom": {"expressionFrom": ".metadata.none"}}
FROM_TEXT = {"weightFrom": {"expressionFrom": ".status.phase"}}


@cases(
    "specs, expected",
    {
        "no weights: equal probability": ([{}, {}], [("0", 1), ("1", 1)]),
        "weights": ([{"weight": 3}, {"weight": 1}], [("0", 3), ("1", 1)]),
        "weight 0 beside a weight": ([{"weight": 3}, {}], [("0", 3)]),
        "a weight of the object": ([{"weight": 1, **FROM_W}, {"weight": 2}], [("0", 7), ("1", 2)]),
        "weightFrom without result: own weight": ([{"weight": 1, **FROM_NONE}, {"weight": 2}], [("0", 1), ("1", 2)]),
        "weightFrom without number": ([FROM_TEXT, {}], [("1", 1)]),
        "all without number: equal probability": ([FROM_TEXT, FROM_TEXT], [("0", 1), ("1", 1)]),
        "only one matches": ([selector(".a", "Exists"), {"weight": 0}], [("1", 1)]),
    },
)
def test_which_stages_are_possible(specs: list[dict[str, Any]], expected: list[tuple[str, int]]) -> None:
    stages = [stage(str(number), **spec) for number, spec in enumerate(specs)]
    assert [(s.name, weight) for s, weight in possible(stages, POD)] == expected


def test_stages_are_drawn_by_weight_and_the_same_from_the_same_seed() -> None:
    stages = [stage("often", weight=9), stage("seldom", weight=1)]

    def draw() -> list[str]:
        random = Random(1)
        return [number.name for number in (choose(stages, POD, random) for _ in range(1000)) if number is not None]

    assert draw() == draw()
    assert 50 < draw().count("seldom") < 150


def delay(**parts: Any) -> dict[str, Any]:
    return {"delay": parts}


@cases(
    "spec, expected",
    {
        "no match": ({}, ()),
        "fixed": (delay(durationMilliseconds=1500), (1.5,)),
        "a range": (delay(durationMilliseconds=1000, jitterDurationMilliseconds=5000), (1.0, 5.0)),
        "jitter below the duration": (
            delay(durationMilliseconds=5000, jitterDurationMilliseconds=1000), (1.0,)),
        "a duration of the object": (
            delay(durationMilliseconds=1000, durationFrom={"expressionFrom": '.metadata.annotations["d"]'}), (3.0,)),
        "durationFrom without result: own duration": (
            delay(durationMilliseconds=1000, durationFrom={"expressionFrom": ".metadata.none"}), (1.0,)),
        "until an instant": (
            delay(durationMilliseconds=1000, jitterDurationFrom={"expressionFrom": '.metadata.annotations["at"]'}),
            (1.0, 9.0)),
        "jitterDurationFrom without result": (
            delay(durationMilliseconds=1000, jitterDurationFrom={"expressionFrom": ".metadata.none"}), (1.0,)),
        "the newer spelling": (
            delay(durationFrom={"jq": {"expression": '.metadata.annotations["d"]'}}), (3.0,)),
        "durationFrom without duration": (
            delay(durationMilliseconds=1000, durationFrom={"expressionFrom": ".status.phase"}), (1.0,)),
    },
)  # fmt: skip
def test_delays(spec: dict[str, Any], expected: tuple[float, ...]) -> None:
    stage_object = stage(**spec)
    assert delay_range(stage_object, POD, NOW) == expected
    drawn = draw_delay(stage_object, POD, NOW, Random(1))
    assert min(expected, default=0.0) <= drawn <= max(expected, default=0.0)


ROOT = "/metadata/finalizers"


@cases(
    "step, present, expected",
    {
        "the first": (ChangeFinalizers(add=("a",)), [], [{"op": "add", "path": ROOT, "value": ["a"]}]),
        "one added": (ChangeFinalizers(add=("a", "b")), ["b"], [{"op": "add", "path": f"{ROOT}/-", "value": "a"}]),
        "one removed": (ChangeFinalizers(remove=("a",)), ["a", "b"], [{"op": "remove", "path": f"{ROOT}/0"}]),
        "the last": (ChangeFinalizers(remove=("a",)), ["a"], [{"op": "remove", "path": ROOT}]),
        "removed, absent": (ChangeFinalizers(remove=("x",)), ["a"], []),
        "all removed": (ChangeFinalizers(empty=True), ["a", "b"], [{"op": "remove", "path": ROOT}]),
        "all removed, none present": (ChangeFinalizers(empty=True), [], []),
        "all removed, one added": (
            ChangeFinalizers(add=("c",), empty=True),
            ["a"],
            [{"op": "remove", "path": ROOT}, {"op": "add", "path": ROOT, "value": ["c"]}],
        ),
    },
)
def test_changes_of_finalizers(step: ChangeFinalizers, present: list[str], expected: list[Any]) -> None:
    assert finalizer_operations(step, present) == expected


@cases(
    "patch, media, expected",
    {
        "strategic": ({"template": "a: {{ .metadata.name }}"}, "strategic-merge-patch", {"a": "p"}),
        "root": ({"template": "a: 1", "root": "status"}, "strategic-merge-patch", {"status": {"a": 1}}),
        "merge": ({"template": "a: 1", "type": "merge"}, "merge-patch", {"a": 1}),
        "json": (
            {"template": "- {op: add, path: /a, value: 1}", "root": "status", "type": "json"}, "json-patch",
            [{"op": "add", "path": "/status/a", "value": 1}]),
        "timestamps remain strings": (
            {"template": "at: 2026-01-01T12:00:00Z"}, "strategic-merge-patch", {"at": "2026-01-01T12:00:00Z"}),
    },
)  # fmt: skip
def test_patch_content(patch: dict[str, Any], media: str, expected: Any) -> None:
    stage_object = stage(steps=[{"patch": patch}])
    (step,) = stage_object.steps
    assert isinstance(step, ApplyPatch)
    patch_object, body = patch_body(stage_object, step, POD, {})
    assert (patch_object, json.loads(body)) == (f"application/{media}+json", expected)


@cases(
    "patch, complaint",
    {
        "YAML": ({"template": "a: [{{ .metadata.name }}"}, "renders to what is not valid YAML: line "),
        "run": ({"template": "{{ index .metadata.none 0 }}"}, "template for p, line 1, column 4: index of"),
        "json": ({"template": "a: 1", "type": "json"}, "a JSON patch is a list of operations"),
    },
)
def test_invalid_patches_are_reported_with_their_position(patch: dict[str, Any], complaint: str) -> None:
    stage_object = stage(steps=[{"patch": patch}])
    (step,) = stage_object.steps
    assert isinstance(step, ApplyPatch)
    with pytest.raises(StageError, match=r"f: stage 's': spec\.steps\[0\]\.patch\.template for p") as caught:
        patch_body(stage_object, step, POD, {})
    assert complaint in str(caught.value)
