"""Objects with something missing, emptied or out of range: refused or taken, never the server's fault."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from tests.apiserver.api import Api, Object
from tests.apiserver.test_every_kind import _KINDS, _id, _root, _sent, _start

from pilothouse.apiserver.resources import ResourceInfo

_GONE = object()
_Path = tuple[str | int, ...]


def _paths(value: Any, at: _Path = ()) -> Iterator[tuple[_Path, Any]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield (*at, key), member
        yield from _paths(member, (*at, key))


def _variants(value: Any) -> Iterator[Any]:
    yield _GONE
    yield None
    if isinstance(value, dict):
        yield {}
    elif isinstance(value, list):
        yield from ([], [{}])
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (-1, 2**31 - 1)
    elif isinstance(value, str):
        yield from ("", "x y")


def _with(obj: Object, path: _Path, value: Any) -> Object:
    changed = copy.deepcopy(obj)
    node: Any = changed
    for part in path[:-1]:
        node = node[part]
    if value is _GONE:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return changed


@pytest.mark.parametrize("info", _KINDS, ids=_id)
async def test_no_body_is_the_servers_fault(api: Api, info: ResourceInfo) -> None:
    await _start(api)
    target = _root(info) + "?dryRun=All"
    sent = _sent(info)
    for path, value in _paths(sent):
        if path[0] in ("kind", "apiVersion"):
            continue
        for variant in _variants(value):
            answer = await api.post(target, _with(sent, path, variant))
            assert answer.status in (201, 400, 403, 404, 409, 422), (path, variant, answer.text)
