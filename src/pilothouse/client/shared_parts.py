"""Shares equal parts of decoded objects: pods of one owner differ in little but names and times.

A decoder creates every string, dict and struct: about ninety objects for a pod, 5 kB, of which four fifths are equal in
all pods of a ReplicaSet. ``share`` replaces them, directly after an object was decoded for a cache, by those of the
last similar object. This cannot be observed: only equal values are replaced, and only where equality is exact (``1``,
``1.0`` and ``true`` are equal in Python, so fields with arbitrary JSON are not touched).
"""

import datetime
import operator
import types
import typing
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from pilothouse.api.core import Node, Pod

_MAX_PREVIOUS = 4096
"""Maximum number of previous objects that are kept for comparison."""
_MAX_NODE_NAMES = 16_384
_UNIQUE_FIELDS = frozenset({"uid", "resource_version", "container_id", "pod_ip", "pod_ips"})
"""Fields that differ in every object, and are not compared."""
_EXACT_TYPES = (str, int, bool, bytes, datetime.datetime, type(None), msgspec.Raw)
_set = msgspec.structs.force_setattr


class SharedParts:
    """The previous objects of one view, with which new ones are compared. Keeps at most ``_MAX_PREVIOUS`` of them."""

    __slots__ = ("_key", "_older", "_recent", "_share_within")

    def __init__(self, key: Callable[[Any], Hashable], share_within: Callable[[Any], None] | None = None) -> None:
        """``key`` returns the same value for objects that are probably similar. ``share_within`` shares equal parts of
        one object."""
        self._key = key
        self._share_within = share_within
        self._recent: dict[Hashable, Any] = {}
        self._older: dict[Hashable, Any] = {}

    def share(self, new: Any) -> None:
        """Replace parts of ``new``, which must not be shared yet, by equal parts of a previous object."""
        key = self._key(new)
        recent = self._recent
        previous = recent.get(key)
        if previous is None:
            previous = self._older.get(key)
            if len(recent) * 2 >= _MAX_PREVIOUS:
                self._older, recent = recent, {}
                self._recent = recent
        if previous is not None:
            _share(new, previous)
        if self._share_within is not None:
            self._share_within(new)
        recent[key] = new


def _share(new: Any, previous: Any) -> None:
    kind = type(new)
    exact, values_of, mixed = _fields.get(kind) or _fields_of(kind)
    for name, new_value, previous_value in zip(exact, values_of(new), values_of(previous), strict=True):
        if new_value is previous_value:
            continue
        if new_value == previous_value:
            _set(new, name, previous_value)
        elif isinstance(new_value, msgspec.Struct):
            if type(previous_value) is type(new_value):
                _share(new_value, previous_value)
        elif type(new_value) is tuple and previous_value and len(new_value) == len(previous_value):
            _set(new, name, tuple(map(_shared_item, new_value, previous_value)))
    for name in mixed:
        new_value, previous_value = getattr(new, name), getattr(previous, name)
        if type(new_value) is tuple:
            if previous_value is not None:
                for new_item, previous_item in zip(new_value, previous_value, strict=False):
                    _share(new_item, previous_item)
        elif new_value is not None and previous_value is not None:
            _share(new_value, previous_value)


def _shared_item(new_item: Any, previous_item: Any) -> Any:
    if new_item == previous_item:
        return previous_item
    if isinstance(new_item, msgspec.Struct) and type(previous_item) is type(new_item):
        _share(new_item, previous_item)
    return new_item


_Values = Callable[[Any], tuple[Any, ...]]
_fields: dict[type, tuple[tuple[str, ...], _Values, tuple[str, ...]]] = {}


def _fields_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], _Values, tuple[str, ...]]:
    """(exact, values_of, mixed): the fields in which equal values have the same JSON, a function that reads all of
    them, and the fields whose structs have both such and other fields."""
    hints = typing.get_type_hints(kind)
    names = [name for name in kind.__struct_fields__ if name not in _UNIQUE_FIELDS]
    exact = tuple(name for name in names if _is_exact(hints[name]))
    mixed = tuple(name for name in names if name not in exact and _has_struct(hints[name]))
    fields = _fields[kind] = exact, _reader(exact), mixed
    return fields


def _reader(names: tuple[str, ...]) -> _Values:
    if len(names) > 1:
        return operator.attrgetter(*names)  # all of them in one call
    return lambda obj: tuple(getattr(obj, name) for name in names)


def _has_struct(hint: Any) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return True
    arguments = [argument for argument in typing.get_args(hint) if argument not in (..., type(None))]
    return len(arguments) == 1 and _has_struct(arguments[0])


def _is_exact(hint: Any) -> bool:
    if typing.get_origin(hint) in (tuple, dict, types.UnionType, typing.Union):
        return all(argument is ... or _is_exact(argument) for argument in typing.get_args(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return all(_is_exact(type_hint) for type_hint in typing.get_type_hints(hint).values())
    return hint in _EXACT_TYPES


def _pod_key(pod: Pod) -> Hashable:
    owners = pod.metadata.owner_references
    return owners[0].uid if owners else pod.metadata.namespace, pod.status.phase


_node_names: dict[str, str] = {}


def _share_within_pod(pod: Pod) -> None:
    status, node_name = pod.status, pod.spec.node_name
    if status.pod_ips and status.pod_ips[0].ip == status.pod_ip:
        _set(status.pod_ips[0], "ip", status.pod_ip)
    if node_name:
        known = _node_names.get(node_name)
        if known is not None:
            _set(pod.spec, "node_name", known)
        else:
            if len(_node_names) >= _MAX_NODE_NAMES:
                _node_names.clear()
            _node_names[node_name] = node_name


def _node_key(_node: Node) -> Hashable:
    return None


def shared_parts_of(view: type[Any]) -> SharedParts | None:
    """Shares the parts of objects of a view; None for views with few objects, or objects that change often."""
    if issubclass(view, Pod):
        return SharedParts(_pod_key, _share_within_pod)
    if issubclass(view, Node):
        return SharedParts(_node_key)
    return None
