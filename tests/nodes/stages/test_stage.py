"""What is read from stage files, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from pilothouse.nodes.stages import StageError, load_stages
from pilothouse.nodes.stages.stage import ApplyPatch, ChangeFinalizers, Delete, SendEvent, parse_yaml, stage_from

EXAMPLES = Path(__file__).parents[3] / "examples" / "stages"
HEAD = "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: s}\nspec:\n  resourceRef: {kind: Pod}\n"


def read(spec: str) -> Any:
    return stage_from(parse_yaml(HEAD + "".join(f"  {line}\n" for line in spec.splitlines())), "f.yaml")


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        pytest.param("selector: {}\nnext: {delete: true}", [Delete], id="delete"),
        pytest.param("selector: {}\nnext: {event: {reason: R}}", [SendEvent], id="event"),
        pytest.param(
            "selector: {}\nnext:\n  delete: true\n  statusTemplate: 'a: 1'\n  finalizers: {empty: true}\n  event: {}",
            [SendEvent, ChangeFinalizers, ApplyPatch, Delete],
            id="next: event, finalizers, patch, delete",
        ),
        pytest.param(
            "selector: {}\nsteps: [{delete: true}, {event: {}}, {patch: {template: 'a: 1'}}]",
            [Delete, SendEvent, ApplyPatch],
            id="steps: as they stand",
        ),
        pytest.param("selector: {}", [], id="nothing"),
    ],
)
def test_steps(spec: str, kinds: list[type]) -> None:
    assert [type(step) for step in read(spec).steps] == kinds


def test_a_stage_without_selector_matches_nothing_and_is_left_out() -> None:
    assert read("next: {delete: true}") is None


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        pytest.param("colour: red", "spec.colour: no such field", id="unknown field"),
        pytest.param("selector: {matchWords: {}}", "spec.selector.matchWords: no such field", id="unknown selector"),
        pytest.param("selector: []", "spec.selector: expected an object, got list", id="wrong type"),
        pytest.param("selector: {}\nweight: -1", "spec.weight: must not be negative, got -1", id="negative"),
        pytest.param("selector: {}\nweight: x", "spec.weight: expected int, got str", id="no number"),
        pytest.param(
            "selector: {matchExpressions: [{key: .a, operator: Near}]}",
            "spec.selector.matchExpressions[0].operator: 'Near' is none of In, NotIn, Exists, DoesNotExist",
            id="unknown operator",
        ),
        pytest.param(
            "selector: {matchExpressions: [{key: .a, operator: In}]}",
            "spec.selector.matchExpressions[0].values: In needs values",
            id="In without values",
        ),
        pytest.param(
            "selector: {matchExpressions: [{key: '.a |', operator: Exists}]}",
            "spec.selector.matchExpressions[0].key: '.a |', character 5: the expression ends too early",
            id="a broken expression",
        ),
        pytest.param(
            "selector: {matchExpressions: [{cel: {expression: 'self.a'}}]}",
            "spec.selector.matchExpressions[0].cel: CEL is not supported",
            id="CEL",
        ),
        pytest.param(
            "selector: {}\nnext: {statusTemplate: \"a:\\n  {{ nope }}\"}",
            "spec.next.statusTemplate, line 2, column 6: function 'nope' is not supported",
            id="a broken template",
        ),
        pytest.param(
            "selector: {}\nsteps: [{patch: {type: magic}}]",
            "spec.steps[0].patch.type: 'magic' is none of json, merge, strategic",
            id="unknown patch type",
        ),
        pytest.param(
            "selector: {}\nsteps: [{apply: {template: a}}]", "spec.steps[0].apply: is not supported", id="apply"
        ),
        pytest.param(
            "selector: {}\nnext: {statusPatchAs: {username: u}}", "spec.next.statusPatchAs: impersonation", id="as"
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_its_place(spec: str, complaint: str) -> None:
    with pytest.raises(StageError) as caught:
        read(spec)
    assert str(caught.value).startswith(f"f.yaml: stage 's': {complaint}")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            "kind: Pod\napiVersion: v1", "expected a Stage of kwok.x-k8s.io/v1alpha1, got Pod of v1", id="kind"
        ),
        pytest.param("a: [", "not valid YAML: line ", id="no YAML"),
        pytest.param("", "there are no stages in it", id="nothing"),
        pytest.param(HEAD.replace("name: s", "x: 1"), "a stage has no metadata.name", id="no name"),
        pytest.param(
            HEAD.replace("kind: Pod", "kind: Job, apiGroup: batch/v1"),
            "stage 's': spec.resourceRef: Job of batch/v1 is not supported, only Node and Pod of v1",
            id="another kind",
        ),
        pytest.param(
            f"{HEAD}  selector: {{}}\n---\n{HEAD}  selector: {{}}\n",
            "has a stage of this name for Pods too",
            id="twice",
        ),
    ],
)
def test_files_that_cannot_be_used(text: str, complaint: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(StageError) as caught:
        load_stages([str(file)])
    assert str(file) in str(caught.value)
    assert complaint in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="No such file"):
        load_stages([str(tmp_path / "none.yaml")])
    with pytest.raises(StageError, match="no YAML files in this folder"):
        load_stages([str(tmp_path)])


def test_a_folder_is_read_in_order_and_without_its_kustomization(tmp_path: Path) -> None:
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
