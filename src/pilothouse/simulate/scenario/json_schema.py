"""The JSON Schema of scenarios, for editors and for ``pilothouse simulate --schema``.

``python -m pilothouse.simulate.scenario.json_schema > docs/simulate.schema.json`` writes the published schema.
"""

import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.simulate.scenario import actions, scalars, schema
from pilothouse.simulate.scenario.descriptions import class_description, field_descriptions
from pilothouse.simulate.scenario.schema import ScenarioFile

SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"
_ONE_OF: dict[type[msgspec.Struct], tuple[str, ...]] = {
    actions.Entry: actions.ACTIONS,
    actions.Patch: ("merge", "strategic", "json"),
    schema.Budget: ("max_unavailable", "time_to_ready", "writes", "restarts"),
}
"""Groups of fields of which exactly one must be set."""


def json_schema() -> dict[str, Any]:
    """The schema, with the docstrings of types and fields as descriptions."""
    document: dict[str, Any] = msgspec.json.schema(ScenarioFile, schema_hook=scalars.schema_of)
    for kind in kinds():
        definition = document["$defs"].get(kind.__name__)
        if definition is None:
            continue
        definition["description"] = class_description(kind)
        texts = field_descriptions(kind)
        for name, value in definition["properties"].items():
            definition["properties"][name] = _property(value, texts.get(name, ""))
        if not definition["required"]:
            del definition["required"]
        if kind in _ONE_OF:
            names = {field.name: field.encode_name for field in msgspec.structs.fields(kind)}
            definition["oneOf"] = [{"required": [names[name]]} for name in _ONE_OF[kind]]
    return {"$schema": SCHEMA_ID, "title": "pilothouse scenario", **document}


def _property(value: dict[str, Any], text: str) -> dict[str, Any]:
    """The schema of a property without null, which equals omitting the field; its description is the first line."""
    branches = value.get("anyOf", [])
    if {"type": "null"} in branches:
        rest = [branch for branch in branches if branch != {"type": "null"}]
        others = {key: item for key, item in value.items() if key != "anyOf" and not (key == "default" and not item)}
        value = {**(rest[0] if len(rest) == 1 else {"anyOf": rest}), **others}
    return {**value, "description": text or value["description"]} if text or "description" in value else value


def kinds() -> Iterator[type[msgspec.Struct]]:
    """The types of a scenario, in the order of their definition."""
    for module in (schema, actions):
        for member in vars(module).values():
            own = (
                isinstance(member, type) and issubclass(member, msgspec.Struct) and member.__module__ == module.__name__
            )
            if own and not member.__name__.startswith("_"):
                yield member


def schema_text() -> str:
    """The published text."""
    return msgspec.json.format(msgspec.json.encode(json_schema(), order="deterministic"), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
