"""Work on client input is linear in its size.

Measured in CPU time, so that other processes do not matter. With a quadratic algorithm each case took more than ten
seconds.
"""

import time
from collections.abc import Callable
from typing import Any

from tests.tables import cases

from pilothouse.api.schema import load
from pilothouse.apiserver.registry.generic.object_meta import dedup_owner_references
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.machinery.strategic_merge import apply_strategic_merge

_POD = load().for_kind("", "v1", "Pod")
_MANY = 20_000
_SECONDS = 3.0


def _named(prefix: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"{prefix}{number}", **more} for number in range(_MANY)]


def _merge(document: Any, patch: Any) -> Callable[[], Any]:
    return lambda: apply_strategic_merge(document, patch, _POD)


_FINALIZERS = [f"example.com/{number}" for number in range(_MANY)]
_OTHERS = [f"example.org/{number}" for number in range(3 * _MANY)]
_PORTS = [{"containerPort": number} for number in range(_MANY)]


@cases(
    "work",
    {
        "strategic merge: new items": _merge(
            {"spec": {"containers": _named("a")}}, {"spec": {"containers": _named("b")}}
        ),
        "strategic merge: deletions of items": _merge(
            {"spec": {"containers": _named("a")}}, {"spec": {"containers": _named("a", **{"$patch": "delete"})}}
        ),
        "strategic merge: ordered deletions of items": _merge(
            {"spec": {"containers": _named("a")}},
            {
                "spec": {
                    "$setElementOrder/containers": _named("a")[::-1],
                    "containers": _named("a", **{"$patch": "delete"}),
                }
            },
        ),
        "strategic merge: keys that are not strings": _merge(
            {"spec": {"containers": [{"name": "a", "ports": _PORTS}]}},
            {"spec": {"containers": [{"name": "a", "ports": _PORTS[::-1]}]}},
        ),
        "strategic merge: keys that are objects": _merge(
            {"spec": {"containers": [{"name": {"a": number}} for number in range(_MANY)]}},
            {"spec": {"containers": [{"name": {"b": number}} for number in range(_MANY)]}},
        ),
        "strategic merge: sets": _merge(
            {"metadata": {"finalizers": _FINALIZERS}}, {"metadata": {"finalizers": _OTHERS}}
        ),
        "strategic merge: deletions from sets": _merge(
            {"metadata": {"finalizers": _FINALIZERS}}, {"metadata": {"$deleteFromPrimitiveList/finalizers": _OTHERS}}
        ),
        "strategic merge: retained keys": _merge(
            {"metadata": {"labels": dict.fromkeys(_FINALIZERS, "")}},
            {"metadata": {"labels": {"$retainKeys": _OTHERS + _FINALIZERS, **dict.fromkeys(_FINALIZERS, "a")}}},
        ),
        "JSON patch: operations on one large object": lambda: apply_json_patch(
            {"data": dict.fromkeys(_OTHERS, "")}, [{"op": "add", "path": "/data/a", "value": ""}] * 10_000
        ),
        "JSON patch: many small copies into a large object": lambda: apply_json_patch(
            {"data": dict.fromkeys(_OTHERS, "")}, [{"op": "copy", "from": "/data/b", "path": "/data/a"}] * 10_000
        ),
        "owner references": lambda: dedup_owner_references({"ownerReferences": _named("a")}, admitted=False),
    },
)
def test_work_is_linear_in_the_input(work: Callable[[], Any]) -> None:
    before = time.process_time()
    work()
    assert time.process_time() - before < _SECONDS
