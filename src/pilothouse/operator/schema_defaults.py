"""The defaults of a schema, for objects that conversions return.

The API server applies the defaults of the version in which a client sends an object, and of the version in which an
object is stored. It applies none to what a conversion returns for a read (apiextensions-apiserver
``pkg/apiserver/customresource_handler.go``, v0.36), and a view is encoded without the fields that have their default.
So conversions add them: an object has the same fields in a version, whether it is stored in it or converted to it.
"""

import copy
from typing import Any

Defaults = dict[str, Any]
"""The parts of a structural schema that have defaults, or of which a part has some. ``properties`` and
``additionalProperties`` exclude each other."""

_DEFAULT = "default"


def defaults_of(schema: dict[str, Any]) -> Defaults:
    """Empty if there are none."""
    found: Defaults = {_DEFAULT: schema[_DEFAULT]} if _DEFAULT in schema else {}
    properties = {name: defaults_of(below) for name, below in schema.get("properties", {}).items()}
    if properties := {name: below for name, below in properties.items() if below}:
        found["properties"] = properties
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict) and (below := defaults_of(schema[name])):
            found[name] = below
    return found


def has_defaults(value: Any, defaults: Defaults) -> bool:
    """Whether a value has all fields to which the API server would give a default."""
    if isinstance(value, dict):
        for name, below in defaults.get("properties", {}).items():
            if (_DEFAULT in below) if name not in value else not has_defaults(value[name], below):
                return False
        below = defaults.get("additionalProperties")
        return not below or all(has_defaults(item, below) for item in value.values())
    if isinstance(value, list) and "items" in defaults:
        return all(has_defaults(item, defaults["items"]) for item in value)
    return True


def add_defaults(value: Any, defaults: Defaults) -> None:
    """Add the missing ones, top down, in place, as the API server does."""
    if isinstance(value, dict):
        for name, below in defaults.get("properties", {}).items():
            if name not in value and _DEFAULT in below:
                value[name] = copy.deepcopy(below[_DEFAULT])
            add_defaults(value.get(name), below)
        if below := defaults.get("additionalProperties"):
            for item in value.values():
                add_defaults(item, below)
    elif isinstance(value, list) and "items" in defaults:
        for item in value:
            add_defaults(item, defaults["items"])
