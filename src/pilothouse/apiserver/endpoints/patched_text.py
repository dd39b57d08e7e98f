"""The text of a patched object in errors of JSON and merge patches.

Upstream patches the JSON of the versioned object (apiserver ``pkg/endpoints/handlers/patch.go``, v1.36) with
gopkg.in/evanphx/json-patch.v4, which only decodes the patched parts: members are sorted there, and elsewhere in the
order of Go's declarations.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.serializers.protobuf_table import FieldRow, message_of, table
from pilothouse.machinery.go_text import compact_json, print_value
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.machinery.merge_patch import apply_merge_patch


def sort_untyped(result: Object, old: Object, patch: Any, fields: Sequence[str]) -> None:
    """Sort the members in fields without a type as the patch library does: their text is stored."""
    for name in fields:
        if name in result:
            if isinstance(patch, list):
                for operation in patch:
                    path = _path_segments(operation["path"])[:-1]
                    if path[:1] == [name]:
                        result[name] = _sorted_on_path(result[name], path[1:])
            elif name in patch:
                result[name] = _sorted_by_merge(result[name], old.get(name), patch[name])


def merge_patched_text(original: Object, patch: Mapping[str, Any]) -> str:
    """``original`` after an applicable merge patch."""
    ordered = in_go_order(original)
    return compact_json(_sorted_by_merge(apply_merge_patch(ordered, patch), ordered, patch))


def json_patched_text(original: Object, operations: Sequence[Mapping[str, Any]]) -> str:
    """``original`` after a JSON patch."""
    result = in_go_order(original)
    for operation in operations:
        if operation["op"] in ("move", "copy"):
            result = _sorted_on_path(result, _path_segments(operation["from"])[:-1])
        result = _sorted_on_path(apply_json_patch(result, [operation]), _path_segments(operation["path"])[:-1])
    return compact_json(result)


def in_go_order(obj: Object) -> Object:
    """An object with its members as Go encodes them: those of structs as declared, of maps sorted, so that those of
    custom objects are."""
    message = message_of(obj["apiVersion"], obj["kind"])
    if message is None:
        ordered: Object = msgspec.json.decode(msgspec.json.encode(obj, order="deterministic"))
        return ordered
    head = {name: obj[name] for name in ("kind", "apiVersion")}
    return {**head, **_ordered(obj, message)}


def _ordered(value: Any, message: str) -> Any:
    rows = table().messages.get(message)
    if rows is None or not isinstance(value, dict):
        return value
    ordered = _ordered_members(value, rows)
    return {**ordered, **{name: member for name, member in value.items() if name not in ordered}}


def _ordered_members(value: Object, rows: Sequence[FieldRow]) -> Object:
    members: Object = {}
    for row in rows:
        if row.inlined:
            members |= _ordered_members(value, table().messages[row.type])
        elif row.name in value:
            member = value[row.name]
            if row.is_map and isinstance(member, dict):
                members[row.name] = {name: _ordered(member[name], row.type) for name in sorted(member)}
            elif row.repeated and isinstance(member, list):
                members[row.name] = [_ordered(item, row.type) for item in member]
            else:
                members[row.name] = _ordered(member, row.type)
    return members


def _sorted_by_merge(result: Any, old: Any, patch: Any) -> Any:
    """``result`` with sorted members where a merge patch has read or set something."""
    merged = isinstance(old, dict)
    if isinstance(result, list) and isinstance(patch, list) and len(result) == len(patch) and not merged:
        return [_sorted_by_merge(item, None, patch_item) for item, patch_item in zip(result, patch, strict=True)]
    if not (isinstance(result, dict) and isinstance(patch, dict)):
        return result
    return {
        name: _sorted_by_merge(result[name], old.get(name) if merged else None, patch[name])
        if name in patch
        else result[name]
        for name in sorted(result)
    }


def _path_segments(path: str) -> list[str]:
    return [segment.replace("~1", "/").replace("~0", "~") for segment in path.split("/")[1:]]


def _sorted_on_path(value: Any, segments: Sequence[str]) -> Any:
    """``value`` with the members of each object on a path sorted."""
    segment, remaining = (segments[0], segments[1:]) if segments else ("", ())
    if isinstance(value, dict):
        return {
            name: _sorted_on_path(value[name], remaining) if segments and name == segment else value[name]
            for name in sorted(value)
        }
    if isinstance(value, list) and segment.isdigit() and int(segment) < len(value):
        position = int(segment)
        return [*value[:position], _sorted_on_path(value[position], remaining), *value[position + 1 :]]
    return value


def strategic_patch_text(original: Object, patch: Any) -> str:
    """A strategic merge patch after its application to ``original``: errors show it instead of the object."""
    return print_value(_without_directives(original, patch))


_ORDER = "$setElementOrder/"


def _without_directives(original: Any, patch: Any) -> Any:
    """The patch without the directives that its application removes (``$patch``, ``$setElementOrder``) (apimachinery
    ``pkg/util/strategicpatch/patch.go``, v1.36)."""
    if not (isinstance(patch, dict) and isinstance(original, dict)):
        return patch
    if patch.get("$patch") == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    ordered = {name.removeprefix(_ORDER) for name in patch if name.startswith(_ORDER)}
    return {
        name: _without_directives(original.get(name), value)
        for name, value in patch.items()
        if name not in ordered and not name.startswith(_ORDER) and name != "$retainKeys"
    }
