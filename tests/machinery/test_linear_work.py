"""Work over what users send grows with its size, not with the square of it.

Measured in processor time, so that others on the machine don't count; each case took more than ten seconds when it
compared every item with every other.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from pilothouse.api.schema import load
from pilothouse.apiserver.registry.generic.object_meta import without_duplicate_owners
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


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(_merge({"spec": {"containers": _named("a")}}, {"spec": {"containers": _named("b")}}),
                     id="strategic merge: new items"),
        pytest.param(_merge({"spec": {"containers": _named("a")}},
                            {"spec": {"containers": _named("a", **{"$patch": "delete"})}}),
                     id="strategic merge: deletions of items"),
        pytest.param(_merge({"spec": {"containers": _named("a")}},
                            {"spec": {"$setElementOrder/containers": _named("a")[::-1],
                                      "containers": _named("a", **{"$patch": "delete"})}}),
                     id="strategic merge: ordered deletions of items"),
        pytest.param(_merge({"spec": {"containers": [{"name": "a", "ports": _PORTS}]}},
                            {"spec": {"containers": [{"name": "a", "ports": _PORTS[::-1]}]}}),
                     id="strategic merge: keys that are no text"),
        pytest.param(_merge({"spec": {"containers": [{"name": {"a": number}} for number in range(_MANY)]}},
                            {"spec": {"containers": [{"name": {"b": number}} for number in range(_MANY)]}}),
                     id="strategic merge: keys that are objects"),
        pytest.param(_merge({"metadata": {"finalizers": _FINALIZERS}}, {"metadata": {"finalizers": _OTHERS}}),
                     id="strategic merge: sets"),
        pytest.param(_merge({"metadata": {"finalizers": _FINALIZERS}},
                            {"metadata": {"$deleteFromPrimitiveList/finalizers": _OTHERS}}),
                     id="strategic merge: deletions from sets"),
        pytest.param(_merge({"metadata": {"labels": dict.fromkeys(_FINALIZERS, "")}},
                            {"metadata": {"labels": {"$retainKeys": _OTHERS + _FINALIZERS,
                                                     **dict.fromkeys(_FINALIZERS, "a")}}}),
                     id="strategic merge: retained keys"),
        pytest.param(lambda: apply_json_patch({"data": dict.fromkeys(_OTHERS, "")},
                                              [{"op": "add", "path": "/data/a", "value": ""}] * 10_000),
                     id="JSON patch: operations on one large object"),
        pytest.param(lambda: apply_json_patch({"data": dict.fromkeys(_OTHERS, "")},
                                              [{"op": "copy", "from": "/data/b", "path": "/data/a"}] * 10_000),
                     id="JSON patch: copies of little into much"),
        pytest.param(lambda: without_duplicate_owners({"ownerReferences": _named("a")}, admitted=False),
                     id="owner references"),
    ],
)  # fmt: skip
def test_work_grows_with_the_size_of_what_is_sent(work: Callable[[], Any]) -> None:
    before = time.process_time()
    work()
    assert time.process_time() - before < _SECONDS
