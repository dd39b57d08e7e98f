"""Strategies for custom resources: the API server accepts the generated objects."""

import copy
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st
from tests.operator.test_conversion import PAGES
from tests.operator.test_models import definition, version

from pilothouse.machinery.string_formats import FORMATS
from pilothouse.testing import Cluster, plane, strategies
from pilothouse.testing.strategies import _FORMATTED, _SAMPLES, _Accepted

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
HARD = {
    "type": "object",
    "required": ["low", "high", "source"],
    "x-kubernetes-validations": [{"rule": "self.low <= self.high"}],
    "properties": {
        "low": {"type": "integer", "minimum": 0, "maximum": 20},
        "high": {"type": "integer", "minimum": 0, "maximum": 20},
        "source": {
            "type": "object",
            "properties": {"git": TEXT, "image": TEXT},
            "oneOf": [{"required": ["git"]}, {"required": ["image"]}],
        },
        "times": {"type": "array", "items": NUMBER, "x-kubernetes-list-type": "set", "minItems": 2},
        "even": {"type": "integer", "multipleOf": 2, "minimum": -9, "exclusiveMinimum": True, "maximum": 9},
        "half": {"type": "number", "multipleOf": 0.5, "minimum": 0.2, "maximum": 3},
        "ratio": {"type": "number", "format": "float", "minimum": 0, "maximum": 1, "exclusiveMaximum": True},
        "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$", "maxLength": 8},
        "not": {"type": "string", "maxLength": 2, "not": {"enum": ["", "a"]}},
        "counted": {"type": "object", "additionalProperties": NUMBER, "minProperties": 2, "maxProperties": 3},
        "all": {"type": "integer", "allOf": [{"minimum": 3}, {"maximum": 5}]},
        "nothing": {"type": "string", "nullable": True},
        **{f"as-{form}": {"type": "string", "format": form} for form in FORMATS},
    },
}


def _definitions() -> list[dict[str, Any]]:
    hard = copy.deepcopy(definition(version("v1", storage=True, spec=HARD)))
    hard["metadata"]["name"] = "hards.example.com"
    hard["spec"]["versions"][0].pop("selectableFields", None)  # of fields that it has not
    hard["spec"]["names"] = {"kind": "Hard", "plural": "hards", "singular": "hard", "listKind": "HardList"}
    return [definition(version("v1", storage=True)), hard]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with plane(nodes=0, controllers=(), serve=False, crds=_definitions()) as cluster:
        yield cluster


@pytest.mark.parametrize("number", [0, 1], ids=["types", "validation rules"])
def test_the_api_server_accepts_hundreds_of_objects(cluster: Cluster, number: int) -> None:
    observed: list[dict[str, Any]] = []

    @settings(max_examples=200, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(strategies.objects(_definitions()[number]))
    def create(obj: dict[str, Any]) -> None:
        created = cluster.create(obj | {"metadata": {"generateName": "example-"}})
        cluster.delete(created["apiVersion"], created["kind"], created["metadata"]["name"])
        observed.append(obj["spec"])

    create()
    assert len(observed) >= 200
    fields = _definitions()[number]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"][
        "properties"
    ]
    assert {name for spec in observed for name in spec} == set(fields), "every field occurs"


def test_every_format_has_values() -> None:
    assert FORMATS.keys() <= _SAMPLES.keys() | _FORMATTED.keys()
    for form, samples in _SAMPLES.items():
        assert all(FORMATS[form](sample) for sample in samples if form in FORMATS), form


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 4),
        ({"type": "integer", "maximum": -7.5}, -8),
        ({"type": "string", "pattern": "b+$", "minLength": 3}, "bbb"),
        ({"type": "array", "items": NUMBER, "minItems": 1}, [0]),
        ({"type": "object", "additionalProperties": NUMBER, "minProperties": 1}, {"a": 0}),
        ({"x-kubernetes-int-or-string": True}, 0),
        ({"enum": ["b", "a"], "type": "string"}, "b"),
        ({"type": "string", "nullable": True}, None),
    ],
)
def test_the_smallest_value_is(schema: dict[str, Any], wanted: Any) -> None:
    result = find(
        strategies.from_schema(schema), lambda _value: True, settings=settings(derandomize=True, database=None)
    )
    if wanted == "bbb":
        assert len(result) == 3
    elif isinstance(wanted, int) and wanted < 0:
        assert result <= wanted
    else:
        assert result == wanted


def test_the_filter_is_the_servers() -> None:
    accepts = _Accepted(HARD)
    good = {"low": 1, "high": 2, "source": {"git": "x"}}
    assert accepts(good)
    assert not accepts(good | {"high": 0}), "a rule"
    assert not accepts(good | {"source": {"git": "x", "image": "y"}}), "oneOf"
    assert not accepts(good | {"times": [1, 1]}), "a set"
    assert not accepts(good | {"as-ipv4": "::1"}), "a format"
    assert accepts({"class": "a", "ports": []}) is False, "of another schema"


def test_defaults_count_when_rules_are_checked() -> None:
    schema = {
        "type": "object",
        "properties": {"on": {"type": "boolean", "default": True}},
        "x-kubernetes-validations": [{"rule": "self.on"}],
    }
    values = []

    @settings(max_examples=20, derandomize=True, database=None)
    @given(strategies.from_schema(schema))
    def collect(value: dict[str, Any]) -> None:
        values.append(value)

    collect()
    assert {} in values
    assert {"on": False} not in values


def test_conversions_are_of_no_importance() -> None:
    """Of PAGES, v1 is stored."""
    assert find(strategies.specs(PAGES), bool, settings=settings(database=None)) == {"host": ""}
    assert find(strategies.specs(PAGES, "v2"), lambda _spec: True, settings=settings(database=None)) == {"hosts": []}


def test_specs_and_versions() -> None:
    two = definition(version("v1", storage=True), version("v2", spec={"type": "object", "properties": {"a": TEXT}}))
    only = st.just(None).flatmap(lambda _none: strategies.specs(two, "v2"))

    @settings(max_examples=20, derandomize=True, database=None)
    @given(only, strategies.objects(two, name="mine"))
    def check(spec: dict[str, Any], obj: dict[str, Any]) -> None:
        assert set(spec) <= {"a"}
        assert (obj["apiVersion"], obj["kind"], obj["metadata"]) == ("example.com/v1", "HTTPGate", {"name": "mine"})
        assert "status" not in obj

    check()
    with pytest.raises(ValueError, match=r"httpgates.example.com has no version 'v3'; it has v1, v2"):
        strategies.objects(two, "v3")
    with pytest.raises(FileNotFoundError, match=r"resource: there is no file or folder 'nope\.yaml'"):
        strategies.objects("nope.yaml")
    with pytest.raises(ValueError, match="expected one CustomResourceDefinition, got 2"):
        strategies.objects([two, two])  # type: ignore[arg-type]  # that is the point


def test_hypothesis_is_loaded_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "import sys, pilothouse.testing.strategies; print('hypothesis' in sys.modules)"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(root / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'pilothouse\[hypothesis\]'"):
        strategies.from_schema({"type": "string"})
