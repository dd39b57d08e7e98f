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


def _search(found: Any, where: str, uid: str, key: str, seen: set[int]) -> Iterator[str]:
    if isinstance(found, str):
        if uid in found or (key and found == key):
            yield where
        return
    if id(found) in seen or isinstance(found, _EXCLUDED):
        return
    seen.add(id(found))
    if isinstance(found, dict):
        for name, value in found.items():
            yield from _search(name, where, uid, key, seen)
            yield from _search(value, f"{where}[{name!r}]", uid, key, seen)
    elif isinstance(found, _COLLECTIONS):
        for value in found:
            yield from _search(value, where, uid, key, seen)
    elif type(found).__module__.startswith("pilothouse."):
        for name in _fields(found):
            if hasattr(found, name):
                yield from _search(getattr(found, name), f"{where}.{name}", uid, key, seen)


def _fields(found: Any) -> list[str]:
    if isinstance(found, msgspec.Struct):
        return list(found.__struct_fields__)
    slots = [name for item in type(found).__mro__ for name in getattr(item, "__slots__", ())]
    return [*slots, *getattr(found, "__dict__", ())]
