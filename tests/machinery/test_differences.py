"""Differences between two versions of an object."""

from typing import Any

from tests.tables import cases

from pilothouse.machinery.differences import ABSENT, Difference, differences, short_json


@cases(
    "before, after, expected",
    {
        "nothing": ({"spec": {"a": 1}}, {"spec": {"a": 1}}, []),
        "a value": ({"spec": {"replicas": 2}}, {"spec": {"replicas": 1}}, [("spec.replicas", 2, 1)]),
        "true is not 1": ({"a": True}, {"a": 1}, [("a", True, 1)]),
        "null is not absent": ({"a": None}, {}, [("a", None, ABSENT)]),
        "what is added as a whole": ({}, {"status": {"phase": "Running"}}, [("status", ABSENT, {"phase": "Running"})]),
        "another type": ({"a": [1]}, {"a": {"b": 1}}, [("a", [1], {"b": 1})]),
        "names with dots and slashes": (
            {"metadata": {"labels": {"app.kubernetes.io/name": "a"}}},
            {"metadata": {"labels": {"app.kubernetes.io/name": "b"}}},
            [('metadata.labels["app.kubernetes.io/name"]', "a", "b")],
        ),
        "what every write changes": (
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
    assert differences(before, after) == [Difference(*each) for each in expected]


@cases(
    "depth",
    {"as deep as it is told apart": 90, "deeper": 500, "as deep as JSON can be read": 980},
)
def test_objects_may_be_nested_deeply(depth: int) -> None:
    before, after = (nested(depth, leaf) for leaf in (1, 2))
    (found,) = differences(before, after)
    assert found.path.startswith("a.a.a.a.")
    assert short_json(before, 20) in ("…", '{"a": {"a": {"a": {…')
    assert differences({}, after)[0].path == "a"


def nested(depth: int, leaf: int) -> dict[str, Any]:
    found: Any = leaf
    for _ in range(depth):
        found = {"a": found}
    return dict(found)
