"""Which stage comes next, when, and what it sends.

Mirrors KWOK ``pkg/utils/lifecycle`` (``value_duration_from_test.go``, ``value_int_from_test.go``,
``finalizers_test.go``) and ``kustomize/stage/stage_test.go``.
"""

import datetime
import json
from random import Random
from typing import Any

import pytest

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
    found = stage_from(document, "f")
    assert found is not None
    return found


def where(key: str, operator: str, *values: str) -> dict[str, Any]:
    row = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"selector": {"matchExpressions": [row]}}


READY = '.status.conditions.[] | select(.type == "Ready") | .status'


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, True, id="an empty selector matches everything"),
        pytest.param({"selector": {"matchLabels": {"app": "web"}}}, True, id="label"),
        pytest.param({"selector": {"matchLabels": {"app": "db"}}}, False, id="another label"),
        pytest.param({"selector": {"matchAnnotations": {"w": "7"}}}, True, id="annotation"),
        pytest.param({"selector": {"matchAnnotations": {"w": "7", "x": "1"}}}, False, id="all of them"),
        pytest.param(where(".status.phase", "In", "Pending", "Running"), True, id="In"),
        pytest.param(where(".status.phase", "In", "Pending"), False, id="not In"),
        pytest.param(where(".status.phase", "NotIn", "Pending"), True, id="NotIn"),
        pytest.param(where(".status.none", "NotIn", "Pending"), True, id="NotIn: nothing there"),
        pytest.param(where(".status.none[]", "NotIn", "Pending"), True, id="NotIn: can't be looked at"),
        pytest.param(where(READY, "In", "True"), True, id="a condition"),
        pytest.param(where(".spec.hostNetwork", "In", "false"), True, id="booleans as words"),
        pytest.param(where(".spec.priority", "In", "5"), True, id="numbers as words"),
        pytest.param(where(".metadata.deletionTimestamp", "DoesNotExist"), True, id="DoesNotExist"),
        pytest.param(where(".metadata.deletionTimestamp", "Exists"), False, id="Exists"),
        pytest.param(where(".status.none[]", "DoesNotExist"), True, id="DoesNotExist: can't be looked at"),
        pytest.param(where(".spec.hostNetwork", "Exists"), True, id="false exists"),
    ],
)
def test_selectors(spec: dict[str, Any], expected: bool) -> None:
    assert matches(stage(**spec), POD) is expected


FROM_W = {"weightFrom": {"expressionFrom": '.metadata.annotations["w"]'}}
FROM_NONE = {"weightFrom": {"expressionFrom": ".metadata.none"}}
FROM_TEXT = {"weightFrom": {"expressionFrom": ".status.phase"}}


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        pytest.param([{}, {}], [("0", 1), ("1", 1)], id="no weights: all alike"),
        pytest.param([{"weight": 3}, {"weight": 1}], [("0", 3), ("1", 1)], id="weights"),
        pytest.param([{"weight": 3}, {}], [("0", 3)], id="nothing beside a weight is never drawn"),
        pytest.param([{"weight": 1, **FROM_W}, {"weight": 2}], [("0", 7), ("1", 2)], id="a weight of the object"),
        pytest.param([{"weight": 1, **FROM_NONE}, {"weight": 2}], [("0", 1), ("1", 2)], id="or else its own"),
        pytest.param([FROM_TEXT, {}], [("1", 1)], id="no number: not drawn"),
        pytest.param([FROM_TEXT, FROM_TEXT], [("0", 1), ("1", 1)], id="no numbers at all: all alike"),
        pytest.param([where(".a", "Exists"), {"weight": 0}], [("1", 1)], id="only one matches"),
    ],
)
def test_which_stages_are_possible(specs: list[dict[str, Any]], expected: list[tuple[str, int]]) -> None:
    stages = [stage(str(number), **spec) for number, spec in enumerate(specs)]
    assert [(s.name, weight) for s, weight in possible(stages, POD)] == expected


def test_stages_are_drawn_by_weight_and_the_same_from_the_same_seed() -> None:
    stages = [stage("often", weight=9), stage("seldom", weight=1)]

    def draw() -> list[str]:
        random = Random(1)
        return [found.name for found in (choose(stages, POD, random) for _ in range(1000)) if found is not None]

    assert draw() == draw()
    assert 50 < draw().count("seldom") < 150


def delay(**parts: Any) -> dict[str, Any]:
    return {"delay": parts}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, (), id="none"),
        pytest.param(delay(durationMilliseconds=1500), (1.5,), id="fixed"),
        pytest.param(delay(durationMilliseconds=1000, jitterDurationMilliseconds=5000), (1.0, 5.0), id="a range"),
        pytest.param(
            delay(durationMilliseconds=5000, jitterDurationMilliseconds=1000), (1.0,), id="a jitter below: itself"
        ),
        pytest.param(
            delay(durationMilliseconds=1000, durationFrom={"expressionFrom": '.metadata.annotations["d"]'}), (3.0,),
            id="a duration of the object",
        ),
        pytest.param(
            delay(durationMilliseconds=1000, durationFrom={"expressionFrom": ".metadata.none"}), (1.0,),
            id="or else its own",
        ),
        pytest.param(
            delay(durationMilliseconds=1000, jitterDurationFrom={"expressionFrom": '.metadata.annotations["at"]'}),
            (1.0, 9.0), id="until an instant",
        ),
        pytest.param(
            delay(durationMilliseconds=1000, jitterDurationFrom={"expressionFrom": ".metadata.none"}), (1.0,),
            id="a jitter that is not there",
        ),
        pytest.param(
            delay(durationFrom={"jq": {"expression": '.metadata.annotations["d"]'}}), (3.0,), id="the newer spelling"
        ),
        pytest.param(
            delay(durationMilliseconds=1000, durationFrom={"expressionFrom": ".status.phase"}), (1.0,), id="no duration"
        ),
    ],
)  # fmt: skip
def test_delays(spec: dict[str, Any], expected: tuple[float, ...]) -> None:
    found = stage(**spec)
    assert delay_range(found, POD, NOW) == expected
    drawn = draw_delay(found, POD, NOW, Random(1))
    assert min(expected, default=0.0) <= drawn <= max(expected, default=0.0)


ROOT = "/metadata/finalizers"


@pytest.mark.parametrize(
    ("step", "present", "expected"),
    [
        pytest.param(ChangeFinalizers(add=("a",)), [], [{"op": "add", "path": ROOT, "value": ["a"]}], id="the first"),
        pytest.param(
            ChangeFinalizers(add=("a", "b")), ["b"], [{"op": "add", "path": f"{ROOT}/-", "value": "a"}], id="one more"
        ),
        pytest.param(
            ChangeFinalizers(remove=("a",)), ["a", "b"], [{"op": "remove", "path": f"{ROOT}/0"}], id="one less"
        ),
        pytest.param(ChangeFinalizers(remove=("a",)), ["a"], [{"op": "remove", "path": ROOT}], id="the last"),
        pytest.param(ChangeFinalizers(remove=("x",)), ["a"], [], id="not there"),
        pytest.param(ChangeFinalizers(empty=True), ["a", "b"], [{"op": "remove", "path": ROOT}], id="all"),
        pytest.param(ChangeFinalizers(empty=True), [], [], id="none there"),
        pytest.param(
            ChangeFinalizers(add=("c",), empty=True), ["a"],
            [{"op": "remove", "path": ROOT}, {"op": "add", "path": ROOT, "value": ["c"]}], id="all, and another",
        ),
    ],
)  # fmt: skip
def test_changes_of_finalizers(step: ChangeFinalizers, present: list[str], expected: list[Any]) -> None:
    assert finalizer_operations(step, present) == expected


@pytest.mark.parametrize(
    ("patch", "media", "expected"),
    [
        pytest.param({"template": "a: {{ .metadata.name }}"}, "strategic-merge-patch", {"a": "p"}, id="strategic"),
        pytest.param({"template": "a: 1", "root": "status"}, "strategic-merge-patch", {"status": {"a": 1}}, id="root"),
        pytest.param({"template": "a: 1", "type": "merge"}, "merge-patch", {"a": 1}, id="merge"),
        pytest.param(
            {"template": "- {op: add, path: /a, value: 1}", "root": "status", "type": "json"}, "json-patch",
            [{"op": "add", "path": "/status/a", "value": 1}], id="json",
        ),
        pytest.param(
            {"template": "at: 2026-01-01T12:00:00Z"}, "strategic-merge-patch", {"at": "2026-01-01T12:00:00Z"},
            id="times stay text",
        ),
    ],
)  # fmt: skip
def test_what_is_sent(patch: dict[str, Any], media: str, expected: Any) -> None:
    made = stage(steps=[{"patch": patch}])
    (step,) = made.steps
    assert isinstance(step, ApplyPatch)
    found, body = patch_body(made, step, POD, {})
    assert (found, json.loads(body)) == (f"application/{media}+json", expected)


@pytest.mark.parametrize(
    ("patch", "complaint"),
    [
        pytest.param({"template": "a: [{{ .metadata.name }}"}, "renders to what is not valid YAML: line ", id="YAML"),
        pytest.param(
            {"template": "{{ index .metadata.none 0 }}"}, "template for p, line 1, column 4: index of", id="run"
        ),
        pytest.param({"template": "a: 1", "type": "json"}, "a JSON patch is a list of operations", id="json"),
    ],
)
def test_what_cannot_be_sent_is_said_with_its_place(patch: dict[str, Any], complaint: str) -> None:
    made = stage(steps=[{"patch": patch}])
    (step,) = made.steps
    assert isinstance(step, ApplyPatch)
    with pytest.raises(StageError, match=r"f: stage 's': spec\.steps\[0\]\.patch\.template for p") as caught:
        patch_body(made, step, POD, {})
    assert complaint in str(caught.value)
