"""Lists and maps that are empty: upstream does not print them, so they are not stored.

Go leaves out a list or map that is empty and marked ``omitempty``, which nearly all are; an object (a struct) that is
empty stays, since its presence may say something (``emptyDir: {}``).
"""

from typing import Any

from pilothouse.api.schema import Definition, Type

_PRINTED = {
    # Fields without omitempty (k8s.io/api v0.36).
    "PodSpec": ("containers",),
    "Role": ("rules",),
    "ClusterRole": ("rules",),
    "NodeSelector": ("nodeSelectorTerms",),
    "EndpointSlice": ("endpoints", "ports"),
    "CSINodeSpec": ("drivers",),
}


def drop_empties(obj: dict[str, Any], definition: Definition) -> None:
    """Remove empty lists and maps from an object of that type, in place, all the way down."""
    fields = definition.fields
    printed = _PRINTED.get(definition.go_name, ())
    empty = []
    for name, value in obj.items():
        field = fields.get(name)
        if field is None:
            continue
        type_ = field.type
        if not value:
            if type_.name in ("list", "map") and name not in printed and value is not None:
                empty.append(name)
        elif type_.name == "object":
            if type(value) is dict:
                drop_empties(value, type_.definition)
        elif type_.name in ("list", "map"):
            _drop_in_elements(value, type_)
    for name in empty:
        del obj[name]


def _drop_in_elements(value: Any, type_: Type) -> None:
    element = type_.element
    if element is None or element.name != "object":
        return
    for item in value.values() if type(value) is dict else value:
        if type(item) is dict:
            drop_empties(item, element.definition)
