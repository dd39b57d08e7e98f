"""JSON patches and merge patches, with the liberties that upstream's library takes."""

import copy
from typing import Any

import pytest

from pilothouse.machinery.json_patch import MAX_OPERATIONS, apply_json_patch
from pilothouse.machinery.merge_patch import apply_merge_patch
from pilothouse.machinery.patches import PatchNotApplicable, PatchSyntaxError, PatchTooLarge


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        pytest.param({"a": 1}, [], {"a": 1}, id="no operations"),
        pytest.param({}, [op("add", "/a", value=1)], {"a": 1}, id="add a member"),
        pytest.param({"a": [1]}, [op("add", "/a/-", value=2)], {"a": [1, 2]}, id="append"),
        pytest.param({"a": [1, 3]}, [op("add", "/a/1", value=2)], {"a": [1, 2, 3]}, id="insert"),
        pytest.param({"a": [1]}, [op("add", "/a/1", value=2)], {"a": [1, 2]}, id="insert at the end"),
        pytest.param({"a": [1, 2]}, [op("remove", "/a/0")], {"a": [2]}, id="remove an item"),
        pytest.param({"a": [1, 2]}, [op("remove", "/a/-1")], {"a": [1]}, id="count from the end"),
        pytest.param({"a": 1}, [op("remove", "/a")], {}, id="remove a member"),
        pytest.param({"a": 1}, [op("replace", "/a", value=2)], {"a": 2}, id="replace"),
        pytest.param({}, [op("replace", "/a", value=2)], {"a": 2}, id="replace what is missing sets it"),
        pytest.param({"a": 1}, [op("replace", "", value={"b": 2})], {"b": 2}, id="replace everything"),
        pytest.param({"a": 1}, [op("move", "/b", **{"from": "/a"})], {"b": 1}, id="move"),
        pytest.param({"a": {"x": 1}}, [op("copy", "/b", **{"from": "/a"})], {"a": {"x": 1}, "b": {"x": 1}}, id="copy"),
        pytest.param({"a~/b": 1}, [op("remove", "/a~0~1b")], {}, id="escapes"),
        pytest.param({"a": 1}, [op("test", "/a", value=1), op("add", "/b", value=2)], {"a": 1, "b": 2}, id="test"),
        pytest.param({}, [op("test", "/a", value=None)], {}, id="what is missing is null"),
        pytest.param({"a": {"b": [1]}}, [op("add", "/a/b/0", value=0)], {"a": {"b": [0, 1]}}, id="deep"),
    ],
)
def test_json_patch(document: Any, operations: list[dict[str, Any]], expected: Any) -> None:
    before = copy.deepcopy(document)
    assert apply_json_patch(document, operations) == expected
    assert document == before, "what is handed in stays as it is"


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param([op("test", "/metadata/resourceVersion", value="2")], id="a failing test"),
        pytest.param([op("test", "/n", value=True)], id="true is not 1"),
        pytest.param([op("remove", "/missing")], id="remove what is missing"),
        pytest.param([op("add", "/missing/a", value=1)], id="add below what is missing"),
        pytest.param([op("add", "/list/5", value=1)], id="beyond the end"),
        pytest.param([op("add", "/list/x", value=1)], id="not an index"),
        pytest.param([op("add", "/n/x", value=1)], id="below a number"),
        pytest.param([op("add", "", value=1)], id="only replace may address everything"),
        pytest.param([op("upsert", "/a")], id="an unknown operation"),
        pytest.param([op("move", "/a")], id="move without from"),
        pytest.param([{"op": "remove"}], id="no path"),
    ],
)
def test_a_json_patch_that_does_not_fit_is_unprocessable(operations: list[dict[str, Any]]) -> None:
    document = {"metadata": {"resourceVersion": "1"}, "n": 1, "list": [1]}
    with pytest.raises(PatchNotApplicable) as caught:
        apply_json_patch(document, operations)
    assert str(caught.value) == "the server rejected our request due to an error in our request"
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


def test_a_json_patch_is_a_list_of_a_bounded_length() -> None:
    with pytest.raises(PatchSyntaxError):
        apply_json_patch({}, {"op": "add"})  # type: ignore[arg-type]
    with pytest.raises(PatchTooLarge, match="maximum operations in a JSON patch is 10000, got 10001"):
        apply_json_patch({}, [op("add", "/a", value=1)] * (MAX_OPERATIONS + 1))


def test_copies_may_add_only_so_much() -> None:
    """Each of forty copies of a map into itself would double it."""
    document = {"a": {"x": "y" * 1000}}
    operations = [op("copy", f"/a/b{i}", **{"from": "/a"}) for i in range(40)]
    with pytest.raises(PatchNotApplicable) as caught:
        apply_json_patch(document, operations)
    assert "exceeding the limit 3145728" in caught.value.why
    assert len(apply_json_patch(document, operations[:8])["a"]) == 9


def test_a_copy_is_not_tied_to_its_source() -> None:
    patched = apply_json_patch({"a": {"x": 1}}, [op("copy", "/b", **{"from": "/a"}), op("replace", "/b/x", value=2)])
    assert patched == {"a": {"x": 1}, "b": {"x": 2}}


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        pytest.param({"a": "b"}, {"a": "c"}, {"a": "c"}, id="replace"),
        pytest.param({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}, id="add"),
        pytest.param({"a": "b"}, {"a": None}, {}, id="null deletes"),
        pytest.param({"a": ["b"]}, {"a": ["c"]}, {"a": ["c"]}, id="lists are replaced"),
        pytest.param({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}, id="objects merge"),
        pytest.param({"a": [1]}, {"a": {"b": 1}}, {"a": {"b": 1}}, id="an object replaces a list"),
        pytest.param({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}, id="nulls of new objects are left out"),
        pytest.param({}, {"a": [{"b": None}]}, {"a": [{}]}, id="in new lists too, as upstream's library does"),
        pytest.param({"a": 1}, ["c"], ["c"], id="what is no object replaces everything"),
    ],
)
def test_merge_patch(document: Any, patch: Any, expected: Any) -> None:
    before = copy.deepcopy(document)
    assert apply_merge_patch(document, patch) == expected
    assert document == before, "what is handed in stays as it is"
