"""Names of Go types, for messages that contain them.

The schema lacks Go's string types and embedded structs: these are in a table generated from the sources
(``scripts/generate_go_facts.py``).
"""

from functools import cache

import msgspec

from pilothouse.api.packaged import packaged
from pilothouse.api.schema import Definition, Field, Type

_SCALARS = {
    "string": "string",
    "bool": "bool",
    "int32": "int32",
    "int64": "int64",
    "number": "float64",
    "bytes": "[]uint8",
    "quantity": "resource.Quantity",
    "int-or-string": "intstr.IntOrString",
    "time": "v1.Time",
    "micro-time": "v1.MicroTime",
    "any": "interface {}",
}


@cache
def _names() -> dict[str, dict[str, tuple[str, str]]]:
    """By definition and field: the name of its string type, and the embedded structs that it is in."""
    return msgspec.json.decode(packaged("machinery/data/go_names.json"), type=dict[str, dict[str, tuple[str, str]]])


def string_type(definition: Definition, field: Field) -> str:
    """The Go type of a string in this field, or in its list: ``v1.DNSPolicy``, mostly ``string``."""
    return _names().get(definition.name, {}).get(field.name, ("", ""))[0] or "string"


def embedded_path(definition: Definition, field: Field) -> str:
    """The embedded structs of the definition that contain the field: "", ``VolumeSource``, ``A.B``."""
    return _names().get(definition.name, {}).get(field.name, ("", ""))[1]


def name_of(type_: Type, string: str = "string") -> str:
    """The name of a type whose strings are of the type ``string``: ``int32``, ``[]v1.Container``,
    ``map[string]string``."""
    match type_.name:
        case "list":
            assert type_.element is not None, "a list has elements"
            return "[]" + name_of(type_.element, string)
        case "map":
            assert type_.element is not None, "a map has values"
            # Maps of quantities are the only map type with a name.
            if type_.element.name == "quantity":
                return "v1.ResourceList"
            return "map[string]" + name_of(type_.element, string)
        case "object":
            return type_.definition.go_type
        case "string":
            return string
        case scalar:
            return _SCALARS[scalar]
