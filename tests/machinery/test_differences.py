"""Differences between two versions of an object."""

from collections.abc import Iterator
from typing import Any

from tests.tables import cases

from pilothouse.machinery.differences import ABSENT, Difference, differences, short_json


@cases(
    "before, after, expected",
    {
        "no change": ({"spec": {"a": 1}}, {"spec": {"a": 1}}, []),
        "a value": ({"spec": {"replicas": 2}}, {"spec": {"replicas": 1}}, [("spec.replicas", 2, 1)]),
        "true is not 1": ({"a": True}, {"a": 1}, [("a", True, 1)]),
        "null is not absent": ({"a": None}, {}, [("a", None, ABSENT)]),
        "added subtree is one difference": (
            {},
            {"status": {"phase": "Running"}},
            [("status", ABSENT, {"phase": "Running"})],
        ),
        "another type": ({"a": [1]}, {"a": {"b": 1}}, [("a", [1], {"b": 1})]),
        "names with dots and slashes": (
            {"metadata": {"labels": {"app.kubernetes.io/name": "a"}}},
            {"metadata": {"labels": {"app.kubernetes.io/name": "b"}}},
            [('metadata.labels["app.kubernetes.io/name"]', "a", "b")],
        ),
        "resourceVersion and managedFields are ignored": (
            {"metadata": {"resourceVersion": "1", "managedFields": []}},
            {"metadata": {"resourceVersion": "2", "managedFields": [{}]}},
            [],
        ),
        "entries with names": (
            {"containers": [{"name": "a", "image": "x"}, {"name": "b"}]},
            {"containers": [{"name": "b", "image": "z"}, {"name": "a", "image": "y"}]},
            [("containers[name=a].image", "x", "y"), ("containers[name=b].image", ABSENT, "z")],
        ),
        "entries with types": (
            {"conditions": [{"type": "Ready", "status": "True"}]},
            {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Done"}]},
            [("conditions[type=Ready].status", "True", "False"), ("conditions[type=Done]", ABSENT, {"type": "Done"})],
        ),
        "entries whose names are not unique": (
            {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 2}]},
            {"ports": [{"name": "a", "port": 1}, {"name": "a", "port": 3}]},
            [("ports[port=2]", {"name": "a", "port": 2}, ABSENT), ("ports[port=3]", ABSENT, {"name": "a", "port": 3})],
        ),
        "entries without names": ({"args": ["a", "b"]}, {"args": ["a"]}, [("args[1]", "b", ABSENT)]),
    },
)
def test_fields(before: dict[str, Any], after: dict[str, Any], expected: list[tuple[str, Any, Any]]) -> None:
    assert differences(before, after) == [Difference(*item) for item in expected]


def test_rest_of_a_large_object_is_compared_as_a_whole() -> None:
    before, after = ({"list": [{"a": n, "b": [n]} for n in range(first, first + 30_000)]} for first in (0, 1))
    kept = {"a": {"b": 1}}
    result = differences({**kept, **before, "z": 1}, {**kept, **after, "z": 2})
    assert [item.path for item in result] == ["list", "z"]
    assert [item.path for item in differences({"list": [*range(5000)]}, {"list": [7, *range(1, 5000)]})] == ["list[0]"]
    wide = {"maps": {f"k{n:04}": {"x": n} for n in range(9000)}}
    result = differences(wide, {"maps": {name: {"x": -1} for name in wide["maps"]}})
    assert (result[0].path, result[-1].path) == ("maps.k0000.x", "maps.k8999")


def test_short_json_is_the_beginning() -> None:
    assert short_json({"a": [1, None, "ü"], "b": {}}, 100) == '{"a": [1, null, "ü"], "b": {}}'
    assert short_json(["x" * 100], 10) == '["xxxxxxx…'

    class Unread(list[int]):
        def __iter__(self) -> Iterator[int]:
            yield from range(5)
            raise AssertionError("the rest is not read")

    assert short_json(Unread([1]), 10) == "[0, 1, 2,…"


@cases(
    "depth",
    {"maximum depth": 90, "deeper": 500, "depth that JSON can have": 980},
)
def test_objects_may_be_nested_deeply(depth: int) -> None:
    before, after = (nested(depth, leaf) for leaf in (1, 2))
    (changed,) = differences(before, after)
    assert changed.path.startswith("a.a.a.a.")
    assert short_json(before, 20) in ("…", '{"a": {"a": {"a": {…')
    assert differences({}, after)[0].path == "a"


def nested(depth: int, leaf: int) -> dict[str, Any]:
    result: Any = leaf
    for _ in range(depth):
        result = {"a": result}
    return dict(result)
