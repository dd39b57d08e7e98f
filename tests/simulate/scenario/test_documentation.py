"""Published documents about scenarios are up to date."""

from pathlib import Path

import msgspec
import pytest
import yaml

from pilothouse.simulate.run import validate
from pilothouse.simulate.scenario import documentation, json_schema, load

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_is_up_to_date() -> None:
    """``python -m pilothouse.simulate.scenario.documentation > docs/scenario-reference.md`` writes it."""
    assert (ROOT / "docs/scenario-reference.md").read_text(encoding="utf-8") == documentation.page()


def test_the_published_schema_is_up_to_date() -> None:
    """``python -m pilothouse.simulate.scenario.json_schema > docs/simulate.schema.json`` writes it."""
    assert (ROOT / "docs/simulate.schema.json").read_text(encoding="utf-8") == json_schema.schema_text()


def test_every_field_is_explained() -> None:
    rows = [line for line in documentation.page().splitlines() if line.startswith("| `")]
    assert [row for row in rows if row.endswith("|  |") and "`apiVersion`" not in row and "`kind`" not in row] == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples/scenarios").rglob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_can_be_used_and_fit_the_schema(path: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    if document["kind"] != "Scenario":
        pytest.skip("objects of a scenario")
    validate(load(str(path)))
    schema = msgspec.json.decode(json_schema.schema_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema, jsonschema.Draft202012Validator)
