"""Parsing and validation of stage files."""

from pathlib import Path
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.nodes.stages import StageError, load_stages
from pilothouse.nodes.stages.stage import ApplyPatch, ChangeFinalizers, Delete, SendEvent, parse_yaml, stage_from

EXAMPLES = Path(__file__).parents[3] / "examples" / "stages"
HEAD = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\nspec:\n  resourceRef: {kind: Pod}\n"


def read(spec: str) -> Any:
    return stage_from(parse_yaml(HEAD + "".join(f"  {line}\n" for line in spec.splitlines())), "f.yaml")


@cases(
    "spec, kinds",
    {
        "delete": ("selector: {}\nnext: {delete: true}", [Delete]),
        "event": ("selector: {}\nnext: {event: {reason: R}}", [SendEvent]),
        "next: event, finalizers, patch, delete": (
            "selector: {}\nnext:\n  delete: true\n  statusTemplate: 'a: 1'\n  finalizers: {empty: true}\n  event: {}",
            [SendEvent, ChangeFinalizers, ApplyPatch, Delete],
        ),
        "steps in order": (
            "selector: {}\nsteps: [{delete: true}, {event: {}}, {patch: {template: 'a: 1'}}]",
            [Delete, SendEvent, ApplyPatch],
        ),
        "no next": ("selector: {}", []),
    },
)
def test_steps(spec: str, kinds: list[type]) -> None:
    assert [type(step) for step in read(spec).steps] == kinds


def test_a_stage_without_selector_is_ignored() -> None:
    assert read("next: {delete: true}") is None


@cases(
    "spec, complaint",
    {
        "unknown field": ("colour: red", "spec.colour: no such field"),
        "unknown selector": ("selector: {matchWords: {}}", "spec.selector.matchWords: no such field"),
        "selector of the wrong type": ("selector: []", "spec.selector: expected an object, got list"),
        "negative": ("selector: {}\nweight: -1", "spec.weight: must not be negative, got -1"),
        "weight of the wrong type": ("selector: {}\nweight: x", "spec.weight: expected int, got str"),
        "unknown operator": (
            "selector: {matchExpressions: [{key: .a, operator: Near}]}",
            "spec.selector.matchExpressions[0].operator: 'Near' is none of In, NotIn, Exists, DoesNotExist"),
        "In without values": (
            "selector: {matchExpressions: [{key: .a, operator: In}]}",
            "spec.selector.matchExpressions[0].values: In needs values"),
        "a broken expression": (
            "selector: {matchExpressions: [{key: '.a |', operator: Exists}]}",
            "spec.selector.matchExpressions[0].key: '.a |', character 5: the expression ends too early"),
        "CEL": (
            "selector: {matchExpressions: [{cel: {expression: 'self.a'}}]}",
            "spec.selector.matchExpressions[0].cel: CEL is not supported"),
        "a broken template": (
            "selector: {}\nnext: {statusTemplate: \"a:\\n  {{ nope }}\"}",
            "spec.next.statusTemplate, line 2, column 6: function 'nope' is not supported"),
        "unknown patch type": (
            "selector: {}\nsteps: [{patch: {type: magic}}]",
            "spec.steps[0].patch.type: 'magic' is none of json, merge, strategic"),
        "apply": (
            "selector: {}\nsteps: [{apply: {template: a}}]", "spec.steps[0].apply: is not supported"),
        "impersonation": (
            "selector: {}\nnext: {statusPatchAs: {username: u}}", "spec.next.statusPatchAs: impersonation"),
    },
)  # fmt: skip
def test_invalid_stages_are_rejected_with_their_position(spec: str, complaint: str) -> None:
    with pytest.raises(StageError) as caught:
        read(spec)
    assert str(caught.value).startswith(f"f.yaml: stage 's': {complaint}")


@cases(
    "text, complaint",
    {
        "kind": ("kind: Pod\napiVersion: v1", "expected a Stage of kwok.x-k8s.io/v1alpha1, got Pod of v1"),
        "invalid YAML": ("a: [", "not valid YAML: line "),
        "empty file": ("", "there are no stages in it"),
        "missing name": (HEAD.replace("name: s", "x: 1"), "a stage has no metadata.name"),
        "unsupported kind": (
            HEAD.replace("kind: Pod", "kind: Job, apiGroup: batch/v1"),
            "stage 's': spec.resourceRef: Job of batch/v1 is not supported, only Node and Pod of v1",
        ),
        "duplicate name": (
            f"{HEAD}  selector: {{}}\n---\n{HEAD}  selector: {{}}\n",
            "has a stage of this name for Pods too",
        ),
    },
)
def test_files_that_cannot_be_used(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(StageError) as caught:
        load_stages([str(file)])
    assert str(file) in str(caught.value)
    assert complaint in str(caught.value)


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="No such file"):
        load_stages([str(tmp_path / "none.yaml")])
    with pytest.raises(StageError, match="no YAML files in this folder"):
        load_stages([str(tmp_path)])


def test_directory_is_read_in_order_without_kustomization(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").write_text(HEAD.replace("name: s", f"name: {name}") + "  selector: {}\n")
    (tmp_path / "kustomization.yaml").write_text("kind: Kustomization\n")
    assert [stage.name for stage in load_stages([str(tmp_path)])] == ["a", "b"]


def test_the_examples_can_be_read() -> None:
    stages = load_stages([str(file) for file in sorted(EXAMPLES.iterdir())])
    assert [(stage.kind, stage.name) for stage in stages] == [
        ("Node", "get-up"),
        ("Node", "fall-over"),
        ("Pod", "create"),
        ("Pod", "ready"),
        ("Pod", "delete"),
    ]
