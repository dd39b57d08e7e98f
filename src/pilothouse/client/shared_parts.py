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

_MODELS = 4096
"""Maximum number of objects that are kept for comparison."""
_UNLIKE = frozenset({"uid", "resource_version", "container_id", "pod_ip", "pod_ips"})
"""Fields that differ in every object: not compared."""
_EXACT = (str, int, bool, bytes, datetime.datetime, type(None), msgspec.Raw)
_set = msgspec.structs.force_setattr


class SharedParts:
    """The objects of one view with which the next ones are compared. Bounded: see ``_MODELS``."""

    __slots__ = ("_key", "_models", "_older")

    def __init__(self, key: Callable[[Any], Hashable]) -> None:
        """``key``: the same for objects that are probably alike."""
        self._key = key
        self._models: dict[Hashable, Any] = {}
        self._older: dict[Hashable, Any] = {}

    def share(self, new: Any) -> None:
        """Replace parts of ``new``, which nobody else has yet, by equal ones of an earlier object."""
        key = self._key(new)
        models = self._models
        like = models.get(key)
        if like is None:
            like = self._older.get(key)
            if len(models) * 2 >= _MODELS:
                self._older, models = models, {}
                self._models = models
        if like is not None:
            _share(new, like)
        models[key] = new


def _share(new: Any, like: Any) -> None:
    kind = type(new)
    exact, values_of, mixed = _fields.get(kind) or _fields_of(kind)
    for name, new_value, like_value in zip(exact, values_of(new), values_of(like), strict=True):
        if new_value is like_value:
            continue
        if new_value == like_value:
            _set(new, name, like_value)
        elif isinstance(new_value, msgspec.Struct):
            if type(like_value) is type(new_value):
                _share(new_value, like_value)
        elif type(new_value) is tuple and like_value and len(new_value) == len(like_value):
            _set(new, name, tuple(map(_shared_item, new_value, like_value)))
    for name in mixed:
        new_value, like_value = getattr(new, name), getattr(like, name)
        if type(new_value) is tuple:
            if like_value is not None:
                for one, other in zip(new_value, like_value, strict=False):
                    _share(one, other)
        elif new_value is not None and like_value is not None:
            _share(new_value, like_value)


def _shared_item(new_item: Any, like_item: Any) -> Any:
    if new_item == like_item:
        return like_item
    if isinstance(new_item, msgspec.Struct) and type(like_item) is type(new_item):
        _share(new_item, like_item)
    return new_item


_Values = Callable[[Any], tuple[Any, ...]]
_fields: dict[type, tuple[tuple[str, ...], _Values, tuple[str, ...]]] = {}


def _fields_of(kind: type[msgspec.Struct]) -> tuple[tuple[str, ...], _Values, tuple[str, ...]]:
    """The fields of a struct in which equal values are the same JSON, what reads all of them, and the fields with
    structs that have such fields and others."""
    hints = typing.get_type_hints(kind)
    names = [name for name in kind.__struct_fields__ if name not in _UNLIKE]
    exact = tuple(name for name in names if _is_exact(hints[name]))
    mixed = tuple(name for name in names if name not in exact and _has_struct(hints[name]))
    parts = _fields[kind] = exact, _reader(exact), mixed
    return parts


def _reader(names: tuple[str, ...]) -> _Values:
    if len(names) > 1:
        return operator.attrgetter(*names)  # all of them in one call
    return lambda of: tuple(getattr(of, name) for name in names)


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
    return hint in _EXACT


def _like_pod(pod: Pod) -> Hashable:
    owners = pod.metadata.owner_references
    return owners[0].uid if owners else pod.metadata.namespace, pod.status.phase


def _like_node(_node: Node) -> Hashable:
    return None


def shared_parts_of(view: type[Any]) -> SharedParts | None:
    """Shares the parts of objects of a view; None for views with few objects, or objects that change often."""
    if issubclass(view, Pod):
        return SharedParts(_like_pod)
    if issubclass(view, Node):
        return SharedParts(_like_node)
    return None
