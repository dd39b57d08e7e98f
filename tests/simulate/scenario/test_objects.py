"""Objects of a scenario, inline and from files: invalid ones are named with their file and line."""

import re
from pathlib import Path

import pytest

from pilothouse.simulate.scenario import ScenarioError, load

HEAD = "apiVersion: simulate.pilothouse.io/v1alpha1\nkind: Scenario\nmetadata: {name: test}\nspec:\n"


def test_all_invalid_objects_are_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.yaml").write_text("kind: ConfigMap\n---\n- x\n", encoding="utf-8")
    (tmp_path / "folder" / "b.yaml").write_text("apiVersion: v1\nkind: ConfigMap\n", encoding="utf-8")
    path = tmp_path / "s.yaml"
    path.write_text(f"{HEAD}  objects:\n  - folder\n  - none.yaml\n  - {{apiVersion: v1, kind: Pod}}\n")
    with pytest.raises(ScenarioError) as raised:
        load(str(path))
    assert [re.sub(r"^.*?: (spec\S+): (\S*/)?", r"\1 ", line) for line in str(raised.value).splitlines()] == [
        "spec.objects[0] a.yaml:1 (document 1): an object has no apiVersion",
        "spec.objects[0] a.yaml:2 (document 2): expected an object, got list",
        "spec.objects[0] b.yaml:1: a ConfigMap has no metadata.name",
        "spec.objects[1] none.yaml: no such file or folder",
        "spec.objects[2] inline: a Pod has no metadata.name",
    ]
