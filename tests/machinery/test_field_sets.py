"""Field sets: content, operations, serialization."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases

from pilothouse.machinery import field_sets
from pilothouse.machinery.field_sets import FieldsError, FieldSet

A, B = ("f:a",), ("f:b",)
AB, AC = ("f:a", "f:b"), ("f:a", "f:c")


@cases(
    "paths, written",
    {
        "a leaf": ([A], b'{"f:a":{}}'),
        "a field below one that is not in the set": ([AB], b'{"f:a":{"f:b":{}}}'),
        "a field and its child": ([A, AB], b'{"f:a":{".":{},"f:b":{}}}'),
        "numbers by their size": (
            [("f:p", 'k:{"port":443}'), ("f:p", 'k:{"port":80}')],
            b'{"f:p":{"k:{\\"port\\":80}":{},"k:{\\"port\\":443}":{}}}',
        ),
        "numbers in sets by their size": ([("f:s", "v:10"), ("f:s", "v:9")], b'{"f:s":{"v:9":{},"v:10":{}}}'),
        "empty": ([], b"{}"),
    },
)
def test_serialization(paths: list[tuple[str, ...]], written: bytes) -> None:
    fields = field_sets.of_paths(*paths)
    assert field_sets.encode_fields(fields) == written
    assert field_sets.decode_fields(written) == fields
    assert sorted(field_sets.paths(fields)) == sorted(paths)


@cases(
    "operation, one, other, result",
    {
        "union of a field and one below it": ("union", [A], [AB], [A, AB]),
        "union of neighbours": ("union", [AB], [AC, B], [AB, AC, B]),
        "difference of a parent keeps the child": ("difference", [A, AB], [A], [AB]),
        "difference of a child keeps the parent": ("difference", [A, AB], [AB], [A]),
        "difference with itself": ("difference", [AB], [AB], []),
        "recursive difference removes children": ("recursive_difference", [A, AB, B], [A], [B]),
        "recursive difference keeps siblings": ("recursive_difference", [AB, AC], [AB], [AC]),
        "intersection of siblings": ("intersection", [A, AB], [A, AC], [A]),
        "a field is not what is above it": ("intersection", [AB], [A], []),
    },
)
def test_set_operations(operation: str, one: Any, other: Any, result: Any) -> None:
    combine = getattr(field_sets, operation)
    assert combine(field_sets.of_paths(*one), field_sets.of_paths(*other)) == field_sets.of_paths(*result)


_PATHS = st.lists(st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":1}', "v:2"]), min_size=1, max_size=3).map(tuple))


@given(_PATHS, _PATHS)
def test_sets_agree_with_a_model(one: list[tuple[str, ...]], other: list[tuple[str, ...]]) -> None:
    first, second = field_sets.of_paths(*one), field_sets.of_paths(*other)

    def members(fields: FieldSet) -> set[tuple[str, ...]]:
        return set(field_sets.paths(fields))

    assert members(first) == set(one)
    assert members(field_sets.union(first, second)) == set(one) | set(other)
    assert members(field_sets.difference(first, second)) == set(one) - set(other)
    assert members(field_sets.intersection(first, second)) == set(one) & set(other)
    assert field_sets.covers(first, second) == (set(other) <= set(one))
    assert field_sets.decode_fields(field_sets.encode_fields(first)) == first
    kept = {path for path in one if not any(path[: len(other_elements)] == other_elements for other_elements in other)}
    assert members(field_sets.recursive_difference(first, second)) == kept


@cases(
    "document, fields",
    {
        "dot without children": ({"f:a": {".": {}}}, {"f:a": {}}),
        "keys are sorted and compact": ({'k:{"b": 1, "a":"x"}': {}}, {'k:{"a":"x","b":1}': {}}),
        "unknown elements are omitted": ({"x:new": {}, "f:a": {}}, {"f:a": {}}),
        "null": (None, {}),
    },
)
def test_parse_foreign_serializations(document: Any, fields: FieldSet) -> None:
    assert field_sets.read_fields(document) == fields


@pytest.mark.parametrize("document", [{"a": {}}, {"fa": {}}, {"k:x": {}}, {"v:": {}}, {"i:x": {}}, {"f:a": 1}, []])
def test_invalid_serializations(document: Any) -> None:
    with pytest.raises(FieldsError):
        field_sets.read_fields(document)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:c", 'k:{"name":"x","port":80}', "f:image"), '.c[name="x",port=80].image'),
        (("f:s", 'v:"a"', "i:3"), '.s[="a"][3]'),
    ],
)
def test_paths_in_messages(path: tuple[str, ...], text: str) -> None:
    assert field_sets.path_text(path) == text
