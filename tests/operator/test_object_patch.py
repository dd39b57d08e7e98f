"""JSON patches of what a mutating function changed."""

import random
from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.api.meta import ObjectMeta, View
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.operator.object_patch import changed_object, patch_operations


class Container(View, frozen=True):
    name: str = ""
    image: str = ""


class Spec(View, frozen=True):
    replicas: int = 1
    paused: bool = False
    node_name: str | None = None
    containers: tuple[Container, ...] = ()
    ports: tuple[int, ...] = ()
    labels: dict[str, str] = {}


class Thing(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Spec = Spec()


A = {"name": "a", "image": "1", "command": ["x"]}
B = {"name": "b", "image": "1", "tty": True}


def thing(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "one", "managedFields": [{}]}, "spec": {"unknown": {"x": 1}, **spec}}


@cases(
    "before, change, after",
    {
        "no change": ({}, {}, {}),
        "set": ({}, {"replicas": 3}, {"replicas": 3}),
        "a default is written": ({"replicas": 3}, {"replicas": 1}, {"replicas": 1}),
        "an explicit default is kept": ({"replicas": 1}, {"paused": True}, {"replicas": 1, "paused": True}),
        "None removes the field": ({"nodeName": "n"}, {"node_name": None}, {}),
        "a map": ({"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "c": "3"}}, {"labels": {"b": "2", "c": "3"}}),
        "a sidecar is appended": (
            {"containers": [A]},
            {"containers": (Container(name="a", image="1"), Container(name="s"))},
            {"containers": [A, {"name": "s"}]},
        ),
        "items matched by name": (
            {"containers": [A, B]},
            {"containers": (Container(name="s"), Container(name="b", image="2"))},
            {"containers": [{"name": "s"}, {**B, "image": "2"}]},
        ),
        "the first one is removed": (
            {"containers": [A, B]},
            {"containers": (Container(name="b", image="1"),)},
            {"containers": [B]},
        ),
        "items without names matched by index": (
            {"containers": [{"image": "1", "x": 1}]},
            {"containers": (Container(image="2"),)},
            {"containers": [{"image": "2", "x": 1}]},
        ),
        "scalars": ({"ports": [1, 2, 3]}, {"ports": (3, 1, 1)}, {"ports": [3, 1, 1]}),
    },
)
def test_fields_that_the_view_does_not_have_stay(
    before: dict[str, Any], change: dict[str, Any], after: dict[str, Any]
) -> None:
    raw = thing(**before)
    view = msgspec.convert(raw, Thing)
    changed = msgspec.structs.replace(view, spec=msgspec.structs.replace(view.spec, **change))
    result = changed_object(raw, view, changed)
    assert result == thing(**after)
    operations = patch_operations(raw, result)
    assert apply_json_patch(raw, operations) == result
    assert bool(operations) == (before != after)


def test_a_field_of_an_absent_parent() -> None:
    view = Thing(metadata=ObjectMeta(name="one"))
    changed = Thing(metadata=ObjectMeta(name="one", labels={"a/b": "c"}), spec=Spec(replicas=2))
    raw = {"metadata": {"name": "one"}}
    result = changed_object(raw, view, changed)
    assert result == {"metadata": {"name": "one", "labels": {"a/b": "c"}}, "spec": {"replicas": 2}}
    assert raw == {"metadata": {"name": "one"}}


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
        ({"a": {"b/c~d": 1}}, {"a": {}}, [{"op": "remove", "path": "/a/b~1c~0d"}]),
        ({"a": [1]}, {"a": [1, 2]}, [{"op": "add", "path": "/a/-", "value": 2}]),
        ({"a": [1, 2]}, {"a": [2]}, [{"op": "replace", "path": "/a", "value": [2]}]),
        ({"a": {}}, {"a": {"b": None}}, [{"op": "add", "path": "/a/b", "value": None}]),
        ({"a": {}}, {"a": []}, [{"op": "replace", "path": "/a", "value": []}]),
    ],
)
def test_operations(before: dict[str, Any], after: dict[str, Any], operations: list[dict[str, Any]]) -> None:
    assert patch_operations(before, after) == operations


def test_large_changes_are_few_operations() -> None:
    before = {"a": list(range(5000)), "b": 1, "c": 2}
    after = {"a": list(range(1, 5001)), "b": 1, "d": 3}
    operations = patch_operations(before, after)
    assert [(operation["op"], operation["path"]) for operation in operations] == [
        ("add", "/a"),
        ("remove", "/c"),
        ("add", "/d"),
    ]
    assert apply_json_patch(before, operations) == after


def test_patches_between_arbitrary_objects(seed: int) -> None:
    rng = random.Random(seed)

    def value(depth: int) -> Any:
        kind = rng.randrange(5 if depth else 3)
        if kind == 3:
            return {rng.choice("abc/~"): value(depth - 1) for _ in range(rng.randrange(4))}
        if kind == 4:
            return [value(depth - 1) for _ in range(rng.randrange(4))]
        return rng.choice((None, True, False, 0, 1, "x", ""))

    for _ in range(300):
        before, after = ({name: value(3) for name in rng.sample("abcd", 3)} for _ in range(2))
        assert msgspec.json.encode(apply_json_patch(before, patch_operations(before, after)), order="sorted") == (
            msgspec.json.encode(after, order="sorted")
        )
