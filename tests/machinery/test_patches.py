"""JSON patches and merge patches, with the leniency of upstream's library."""

import copy
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.machinery.json_patch import MAX_OPERATIONS, apply_json_patch
from pilothouse.machinery.merge_patch import apply_merge_patch
from pilothouse.machinery.patches import PatchNotApplicable, PatchSyntaxError, PatchTooLarge


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@cases(
    "document, operations, expected",
    {
        "no operations": ({"a": 1}, [], {"a": 1}),
        "add a member": ({}, [op("add", "/a", value=1)], {"a": 1}),
        "append": ({"a": [1]}, [op("add", "/a/-", value=2)], {"a": [1, 2]}),
        "insert": ({"a": [1, 3]}, [op("add", "/a/1", value=2)], {"a": [1, 2, 3]}),
        "insert at the end": ({"a": [1]}, [op("add", "/a/1", value=2)], {"a": [1, 2]}),
        "remove an item": ({"a": [1, 2]}, [op("remove", "/a/0")], {"a": [2]}),
        "negative index": ({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}),
        "remove a member": ({"a": 1}, [op("remove", "/a")], {}),
        "replace": ({"a": 1}, [op("replace", "/a", value=2)], {"a": 2}),
        "replace what is missing sets it": ({}, [op("replace", "/a", value=2)], {"a": 2}),
        "replace everything": ({"a": 1}, [op("replace", "", value={"b": 2})], {"b": 2}),
        "move": ({"a": 1}, [op("move", "/b", **{"from": "/a"})], {"b": 1}),
        "copy": ({"a": {"x": 1}}, [op("copy", "/b", **{"from": "/a"})], {"a": {"x": 1}, "b": {"x": 1}}),
        "escapes": ({"a~/b": 1}, [op("remove", "/a~0~1b")], {}),
        "test": ({"a": 1}, [op("test", "/a", value=1), op("add", "/b", value=2)], {"a": 1, "b": 2}),
        "test of a missing field with null": ({}, [op("test", "/a", value=None)], {}),
        "deep": ({"a": {"b": [1]}}, [op("add", "/a/b/0", value=0)], {"a": {"b": [0, 1]}}),
    },
)
def test_json_patch(document: Any, operations: list[dict[str, Any]], expected: Any) -> None:
    before = copy.deepcopy(document)
    assert apply_json_patch(document, operations) == expected
    assert document == before, "what is handed in stays as it is"


@cases(
    "operations",
    {
        "a failing test": [op("test", "/metadata/resourceVersion", value="2")],
        "true is not 1": [op("test", "/n", value=True)],
        "remove what is missing": [op("remove", "/missing")],
        "add below what is missing": [op("add", "/missing/a", value=1)],
        "beyond the end": [op("add", "/list/5", value=1)],
        "invalid index": [op("add", "/list/x", value=1)],
        "below a number": [op("add", "/n/x", value=1)],
        "only replace may address everything": [op("add", "", value=1)],
        "an unknown operation": [op("upsert", "/a")],
        "move without from": [op("move", "/a")],
        "missing path": [{"op": "remove"}],
    },
)
def test_inapplicable_json_patch_is_unprocessable(operations: list[dict[str, Any]]) -> None:
    document = {"metadata": {"resourceVersion": "1"}, "n": 1, "list": [1]}
    with pytest.raises(PatchNotApplicable) as caught:
        apply_json_patch(document, operations)
    assert str(caught.value) == "the server rejected our request due to an error in our request"
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def test_json_patch_length_is_bounded() -> None:
    with pytest.raises(PatchSyntaxError):
        apply_json_patch({}, {"op": "add"})  # type: ignore[arg-type]
    with pytest.raises(PatchTooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json_patch({}, [op("add", "/a", value=1)] * (MAX_OPERATIONS + 1))


def test_moved_items_are_bounded() -> None:
    document = {"a": [0] * 20_000}
    for operation in (op("add", "/a/0", value=0), op("remove", "/a/0"), op("move", "/a/-", **{"from": "/a/0"})):
        with pytest.raises(PatchTooLarge, match="move more than 100000000 items of lists: replace the lists"):
            apply_json_patch(document, [operation] * 9_000)
    assert len(apply_json_patch(document, [op("add", "/a/-", value=0)] * 9_000)["a"]) == 29_000


def test_copied_size_is_bounded() -> None:
    """Each of forty copies of a map into itself would double it."""
    document = {"a": {"x": "y" * 1000}}
    operations = [op("copy", f"/a/b{i}", **{"from": "/a"}) for i in range(40)]
    with pytest.raises(PatchNotApplicable) as caught:
        apply_json_patch(document, operations)
    assert "exceeding the limit 3145728" in caught.value.detail
    assert len(apply_json_patch(document, operations[:8])["a"]) == 9


def test_copy_is_independent_of_its_source() -> None:
    patched = apply_json_patch({"a": {"x": 1}}, [op("copy", "/b", **{"from": "/a"}), op("replace", "/b/x", value=2)])
    assert patched == {"a": {"x": 1}, "b": {"x": 2}}


@cases(
    "document, patch, expected",
    {
        "replace": ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        "add": ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        "null deletes": ({"a": "b"}, {"a": None}, {}),
        "lists are replaced": ({"a": ["b"]}, {"a": ["c"]}, {"a": ["c"]}),
        "objects merge": ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        "an object replaces a list": ({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        "nulls of new objects are removed": ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        "nulls in lists of new values are removed, as upstream's library does": ({}, {"a": [{"b": None}]}, {"a": [{}]}),
        "a list replaces an object": ({"a": 1}, ["c"], ["c"]),
    },
)
def test_merge_patch(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert apply_merge_patch(document, patch) == expected
    assert document == before, "what is handed in stays as it is"
