"""The JSON patch of a mutating function's changes.

A function changes the fields of a view. All other fields of the object are kept: the difference between the old and the
new view is applied to the object's JSON.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

MAX_OPERATIONS = 1000
"""With more operations the patch replaces whole fields of the object."""


def changed_object(raw: Any, before: Any, after: Any) -> Any:
    """``raw`` with the changes from one view of it to another. Nothing that is handed in changes.

    A field that becomes None is removed; one that becomes its default is written, because the API server's default may
    differ. Items of lists keep their other fields if they match an old item by equality, by name, or by position.
    """
    if isinstance(after, msgspec.Struct):
        return _changed_struct(raw, before, after)
    if isinstance(after, Mapping):
        return _changed_map(raw, before, after)
    if isinstance(after, list | tuple):
        return _changed_list(raw, before, after)
    return _json(after)


def _changed_struct(raw: Any, before: Any, after: msgspec.Struct) -> Any:
    if type(before) is not type(after):
        return _json(after)
    result = dict(raw) if isinstance(raw, dict) else {}
    for name, wire_name in zip(after.__struct_fields__, after.__struct_encode_fields__, strict=True):
        old, new = getattr(before, name), getattr(after, name)
        if _same(old, new):
            continue
        if new is None:
            result.pop(wire_name, None)
        else:
            result[wire_name] = changed_object(result.get(wire_name), old, new)
    return result


def _changed_map(raw: Any, before: Any, after: Mapping[Any, Any]) -> Any:
    old = before if isinstance(before, Mapping) else {}
    result = {name: value for name, value in raw.items() if name not in old} if isinstance(raw, dict) else {}
    for name, value in after.items():
        present = isinstance(raw, dict) and name in raw
        same = present and name in old and _same(old[name], value)
        result[name] = raw[name] if same else changed_object(raw[name] if present else None, old.get(name), value)
    return result


def _changed_list(raw: Any, before: Any, after: Sequence[Any]) -> list[Any]:
    old = list(before) if isinstance(before, list | tuple) else []
    if not isinstance(raw, list) or len(raw) != len(old):
        return [_json(item) for item in after]
    equal = _Positions(map(msgspec.json.encode, old))
    matched = [equal.take(msgspec.json.encode(item)) for item in after]
    used = set(matched)
    left = [number for number in range(len(old)) if number not in used]
    named = _Positions((_name(old[number]) for number in left), left)
    result = []
    for place, (item, index) in enumerate(zip(after, matched, strict=True)):
        if index is not None:
            result.append(raw[index])
            continue
        name = _name(item)
        same_place = not name and len(after) == len(old) and place not in used
        position = named.take(name) if name else place if same_place else None
        result.append(_json(item) if position is None else changed_object(raw[position], old[position], item))
    return result


class _Positions:
    """Where values are in a list; each position is taken once."""

    def __init__(self, values: Iterable[Any], positions: Sequence[int] | None = None) -> None:
        self._found: dict[Any, deque[int]] = {}
        for number, value in enumerate(values):
            self._found.setdefault(value, deque()).append(number if positions is None else positions[number])

    def take(self, value: Any) -> int | None:
        """The first position of the value that is left."""
        left = self._found.get(value)
        return left.popleft() if left else None


def _name(item: Any) -> str:
    name = item.get("name") if isinstance(item, Mapping) else getattr(item, "name", None)
    return name if isinstance(name, str) else ""


def _json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)


def patch_operations(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations (RFC 6902) that convert one JSON object to another."""
    operations: list[dict[str, Any]] = []
    _compare(before, after, "", operations)
    if len(operations) <= MAX_OPERATIONS:
        return operations
    operations = []
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            operations.append({"op": "remove", "path": _path("", name)})
        elif name not in before or not _equal(before[name], after[name]):
            operations.append({"op": "add", "path": _path("", name), "value": after[name]})
    return operations


def _compare(before: Any, after: Any, path: str, operations: list[dict[str, Any]]) -> None:
    if before is after:
        return  # ``changed_object`` shares unchanged parts
    if isinstance(before, dict) and isinstance(after, dict):
        operations.extend({"op": "remove", "path": _path(path, name)} for name in before if name not in after)
        for name, value in after.items():
            if name in before:
                if before[name] is not value:
                    _compare(before[name], value, _path(path, name), operations)
            else:
                operations.append({"op": "add", "path": _path(path, name), "value": value})
    elif isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        for number, old in enumerate(before):
            if old is not after[number]:
                _compare(old, after[number], f"{path}/{number}", operations)
        operations.extend({"op": "add", "path": f"{path}/-", "value": item} for item in after[len(before) :])
    elif not _equal(before, after):
        operations.append({"op": "replace", "path": path, "value": after})


def _equal(one: Any, other: Any) -> bool:
    """As JSON: true is not 1."""
    return bool(msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic"))


def _path(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
