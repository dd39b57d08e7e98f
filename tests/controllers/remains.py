"""State of a program that still refers to an object: every place in its memory with the object's uid or key.

Informer caches, clients, events and bounded caches are excluded.
"""

import collections
from collections.abc import Iterator
from typing import Any

import msgspec

from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.controllers.devices.resourceclaim.created_claims import DeletedPods
from pilothouse.env import Env, Log
from pilothouse.runtime import Cache, EventRecorder, InformerFactory, PodControl, Registry, SharedInformer

_EXCLUDED = (
    Cache, SharedInformer, InformerFactory, Client, RestMapper, EventRecorder, Registry, Env, Log, DeletedPods,
    PodControl
)  # fmt: skip
_COLLECTIONS = (list, tuple, set, frozenset, collections.deque)


def remains(program: object, uid: str, key: str = "") -> list[str]:
    """The places that refer to the object."""
    return sorted(_search(program, type(program).__name__, uid, key, set()))


def _search(leftover: Any, path: str, uid: str, key: str, visited: set[int]) -> Iterator[str]:
    if isinstance(leftover, str):
        if uid in leftover or (key and leftover == key):
            yield path
        return
    if id(leftover) in visited or isinstance(leftover, _EXCLUDED):
        return
    visited.add(id(leftover))
    if isinstance(leftover, dict):
        for name, value in leftover.items():
            yield from _search(name, path, uid, key, visited)
            yield from _search(value, f"{path}[{name!r}]", uid, key, visited)
    elif isinstance(leftover, _COLLECTIONS):
        for value in leftover:
            yield from _search(value, path, uid, key, visited)
    elif type(leftover).__module__.startswith("pilothouse."):
        for name in _fields(leftover):
            if hasattr(leftover, name):
                yield from _search(getattr(leftover, name), f"{path}.{name}", uid, key, visited)


def _fields(value: Any) -> list[str]:
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    slots = [name for item in type(value).__mro__ for name in getattr(item, "__slots__", ())]
    return [*slots, *getattr(value, "__dict__", ())]
