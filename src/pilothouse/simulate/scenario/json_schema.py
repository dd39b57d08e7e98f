"""The JSON Schema of scenarios, for editors and for ``pilothouse simulate --schema``."""

from typing import Any

import msgspec

from pilothouse.simulate.scenario import scalars
from pilothouse.simulate.scenario.schema import ScenarioFile

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema, with the docstrings of types as descriptions."""
    schema = msgspec.json.schema(ScenarioFile, schema_hook=scalars.schema_of)
    return {"$schema": SCHEMA_ID, "title": "pilothouse scenario", **schema}


def schema_text() -> str:
    """As it is published."""
    return msgspec.json.format(msgspec.json.encode(json_schema(), order="deterministic"), indent=2).decode() + "\n"
