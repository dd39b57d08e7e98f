"""Defaults of a schema, for objects that conversions return."""

import copy
from typing import Any

from tests.tables import cases

from pilothouse.operator.schema_defaults import add_defaults, defaults_of, has_defaults

_SIZE = {"type": "object", "properties": {"size": {"type": "integer", "default": 1}, "name": {"type": "string"}}}


@cases(
    "schema, value, complete",
    {
        "of a field": (_SIZE, {}, {"size": 1}),
        "none for a field that is there": (_SIZE, {"size": 2, "name": "a"}, {"size": 2, "name": "a"}),
        "of an object that is a default itself": (
            {"properties": {"disk": {**_SIZE, "default": {}}}},
            {},
            {"disk": {"size": 1}},
        ),
        "none within an object that is left out": ({"properties": {"disk": _SIZE}}, {}, {}),
        "of items": ({"properties": {"disks": {"items": _SIZE}}}, {"disks": [{}]}, {"disks": [{"size": 1}]}),
        "of the values of a mapping": ({"additionalProperties": _SIZE}, {"a": {}}, {"a": {"size": 1}}),
    },
)
def test_missing_defaults_are_added(schema: dict[str, Any], value: Any, complete: Any) -> None:
    defaults, result = defaults_of(schema), copy.deepcopy(value)
    assert has_defaults(value, defaults) == (value == complete)
    add_defaults(result, defaults)
    assert result == complete
    assert has_defaults(result, defaults)
