"""One change of an object, said in each of the ways there are: whole, as a merge, strategic or JSON patch, applied.

An edit is a path and a value; ``GONE`` takes the field away. The path is chosen by walking along what the object has,
and leaves it for a field that it does not have yet.
"""

import copy
from collections.abc import Sequence
from typing import Any

from tests.real.fuzz.values import Values

from pilothouse.api.schema import Definition, Field, Type

Json = Any
Path = tuple[str | int, ...]
GONE = object()
SERVERS_OWN = frozenset(
    {
        "apiVersion",
        "kind",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.creationTimestamp",
        "metadata.deletionTimestamp",
        "metadata.deletionGracePeriodSeconds",
        "metadata.generation",
        "metadata.managedFields",
        "metadata.selfLink",
        "metadata.name",
        "metadata.namespace",
        "metadata.generateName",
    }
)


class Edit:
    """``path`` with the schema's field at each name, and the new value."""

    def __init__(self, path: Path, fields: Sequence[Field | None], value: Json) -> None:
        self.path = path
        self.fields = fields
        self.value = value


def choose(values: Values, root: Definition, doc: Json, top: Sequence[str], spoiled: float) -> Edit:
    """An edit within these top-level fields."""
    random = values.random
    path: list[str | int] = []
    fields: list[Field | None] = []
    definition: Definition | None = root
    current: Json = doc
    kind: Type | None = None
    value: Json = None
    while True:
        if definition is not None and not isinstance(current, list):
            known = values.shared.fields(definition)
            names = [
                name
                for name in known
                if ".".join([*(str(part) for part in path), name]) not in SERVERS_OWN and (path or name in top)
            ]
            if not names:
                break
            present = [name for name in names if isinstance(current, dict) and name in current]
            go_on = [name for name in present if isinstance(current[name], dict | list) and current[name]]
            if go_on and random.random() < (0.8 if not path else 0.6):
                name = random.choice(go_on)
            elif present and random.random() < 0.4:
                name = random.choice(present)
            else:
                name = random.choice(names)
            field = known[name]
            path.append(name)
            fields.append(field)
            kind = field.type
            owner = definition
            inside = current.get(name) if isinstance(current, dict) else None
            if name in go_on and random.random() < 0.75:
                current = inside
                definition = _definition(kind)
                if isinstance(current, list):
                    if not isinstance(current[0], dict):
                        value = values.field(owner, field)
                        break
                    position = random.randrange(len(current))
                    path.append(position)
                    fields.append(None)
                    current = current[position]
                if definition is None:
                    if kind.name == "map" and isinstance(current, dict):
                        key = random.choice([*(key for key in current if "deprecated" not in key), "fresh"])
                        path.append(key)
                        fields.append(None)
                        kind = kind.element
                        assert kind is not None
                        value = values.value(kind)
                    else:
                        value = values.field(owner, field)
                    break
                continue
            value = values.field(owner, field)
            break
        break
    if kind is not None and random.random() < spoiled:
        value = values.spoiled(kind)
    elif value is None or random.random() < 0.12:
        value = GONE
    return Edit(tuple(path), fields, value)


def _definition(kind: Type) -> Definition | None:
    while kind.element is not None and kind.name == "list":
        kind = kind.element
    return kind.definition if kind.name == "object" else None


def put(doc: Json, edit: Edit) -> Json:
    """The document with the edit made; what cannot be reached stays as it is."""
    if not edit.path:
        return doc
    current = doc
    for part, following in zip(edit.path, edit.path[1:], strict=False):
        if isinstance(part, int):
            if not isinstance(current, list) or part >= len(current):
                return doc
            current = current[part]
        else:
            if not isinstance(current, dict):
                return doc
            current = current.setdefault(part, [] if isinstance(following, int) else {})
    last = edit.path[-1]
    if isinstance(last, int):
        if isinstance(current, list) and last < len(current):
            current[last : last + 1] = [] if edit.value is GONE else [edit.value]
    elif isinstance(current, dict):
        if edit.value is GONE:
            current.pop(last, None)
        else:
            current[last] = edit.value
    return doc


def merge_patch(doc: Json, edit: Edit) -> Json:
    """As JSON merge patch: lists are given whole."""
    return _nested(doc, edit, 0, strategic=False)


def strategic_patch(doc: Json, edit: Edit) -> Json:
    """As strategic merge patch: items of lists that merge are named by their key."""
    return _nested(doc, edit, 0, strategic=True)


def _nested(doc: Json, edit: Edit, at: int, *, strategic: bool) -> Json:
    if at == len(edit.path):
        return None if edit.value is GONE else edit.value
    part = edit.path[at]
    inside = doc.get(part) if isinstance(doc, dict) else None
    if at + 1 < len(edit.path) and isinstance(edit.path[at + 1], int):
        position = edit.path[at + 1]
        field = edit.fields[at]
        assert isinstance(position, int)
        item = inside[position] if isinstance(inside, list) and position < len(inside) else {}
        merges = strategic and field is not None and "merge" in field.patch_strategies and field.merge_key in item
        if merges:
            assert field is not None
            changed = _nested(item, edit, at + 2, strategic=strategic)
            changed = changed if isinstance(changed, dict) else {}
            return {part: [{field.merge_key: item[field.merge_key], **changed}]}
        rest = Edit(edit.path[at + 1 :], edit.fields[at + 1 :], edit.value)
        return {part: put(copy.deepcopy(inside), rest)}
    return {part: _nested(inside, edit, at + 1, strategic=strategic)}


def json_patch(doc: Json, edit: Edit) -> list[Json]:
    """As JSON patch, with the objects on the way made where they are missing."""
    operations: list[Json] = []
    current = doc
    pointer = ""
    for part in edit.path[:-1]:
        pointer += "/" + _escaped(part)
        if isinstance(current, list):
            current = current[part] if isinstance(part, int) and part < len(current) else None
        elif isinstance(current, dict):
            if part not in current:
                operations.append({"op": "add", "path": pointer, "value": {}})
                current = {}
            else:
                current = current[part]
    last = edit.path[-1] if edit.path else ""
    pointer += "/" + _escaped(last)
    if edit.value is GONE:
        return [*operations, {"op": "remove", "path": pointer}]
    there = isinstance(current, dict) and last in current
    return [*operations, {"op": "replace" if there else "add", "path": pointer, "value": edit.value}]


def _escaped(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def applied(doc: Json, edit: Edit) -> Json:
    """As an applied configuration: the path with the keys of the lists on it, and nothing else."""
    return _applied(doc, edit, 0)


def _applied(doc: Json, edit: Edit, at: int) -> Json:
    if at == len(edit.path):
        return None if edit.value is GONE else edit.value
    part = edit.path[at]
    inside = doc.get(part) if isinstance(doc, dict) else None
    if at + 1 < len(edit.path) and isinstance(edit.path[at + 1], int):
        position = edit.path[at + 1]
        field = edit.fields[at]
        assert isinstance(position, int)
        item = inside[position] if isinstance(inside, list) and position < len(inside) else {}
        if field is not None and field.list_type == "map":
            changed = _applied(item, edit, at + 2)
            keys = {key: item[key] for key in field.map_keys if key in item}
            return {part: [{**keys, **(changed if isinstance(changed, dict) else {})}]}
        rest = Edit(edit.path[at + 1 :], edit.fields[at + 1 :], edit.value)
        return {part: put(copy.deepcopy(inside), rest)}
    return {part: _applied(inside, edit, at + 1)}
