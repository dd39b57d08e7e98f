"""Splicing JSON: other members are unchanged byte for byte."""

import msgspec
import pytest
from tests.tables import cases

from pilothouse.machinery.splice import replace_fields, replace_spec, take_field, without_managed_fields

RAW = b'{"kind" : "Pod", "metadata": {"name":"a",  "x": 1.0}, "spec":{ "n" : 1e2 },"status":{"u":"\\u00e9"}}'


def test_only_the_named_fields_change() -> None:
    assert (
        replace_fields(RAW, {"status": b'{"phase":"Running"}'})
        == b'{"kind":"Pod","metadata":{"name":"a",  "x": 1.0},"spec":{ "n" : 1e2 },"status":{"phase":"Running"}}'
    )


def test_fields_are_removed_and_added() -> None:
    assert replace_fields(b'{"a":1,"b":2}', {"a": None, "c": msgspec.Raw(b"3"), "missing": None}) == b'{"b":2,"c":3}'


def test_nested_field() -> None:
    changed = replace_fields(RAW, {"metadata.x": None, "metadata.labels": b'{"l": 1}', "new.field": b"1", "no.f": None})
    assert take_field(changed, "metadata") is not None
    assert bytes(take_field(changed, "metadata") or b"") == b'{"name":"a","labels":{"l": 1}}'
    assert bytes(take_field(changed, "new") or b"") == b'{"field":1}'
    assert take_field(changed, "no") is None
    assert bytes(take_field(changed, "spec") or b"") == b'{ "n" : 1e2 }'


def test_null_object_is_created_for_a_new_field() -> None:
    assert replace_fields(b'{"metadata":null}', {"metadata.name": b'"x"'}) == b'{"metadata":{"name":"x"}}'


@cases(
    "raw, before, changed",
    {
        "last field": (b'{"a":1,"spec":{"n":1}}', b'{"n":1}', b'{"a":1,"spec":{"n":2}}'),
        "no stored bytes": (b'{"a":1,"spec":{"n":1}}', b"", b'{"a":1,"spec":{"n":2}}'),
        "changed by others": (b'{"a":1,"spec":{"n":3}}', b'{"n":1}', b'{"a":1,"spec":{"n":2}}'),
        "first field": (b'{"spec":{"n":1},"a":1}', b'{"n":1}', b'{"spec":{"n":2},"a":1}'),
        "same name in another object": (
            b'{"a":{"spec":{"n":1}},"spec":{}}',
            b'{"n":1}',
            b'{"a":{"spec":{"n":1}},"spec":{"n":2}}',
        ),
    },
)
def test_spec_is_replaced_at_any_position(raw: bytes, before: bytes, changed: bytes) -> None:
    assert replace_spec(raw, before, b'{"n":2}') == changed


def test_take_field_finds_values_by_path() -> None:
    assert bytes(take_field(RAW, "spec.n") or b"") == b"1e2"
    assert take_field(RAW, "spec.n.deeper") is None
    assert take_field(RAW, "missing.field") is None
    assert take_field(b'{"a":null}', "a") is None


def test_non_objects_are_rejected() -> None:
    with pytest.raises(msgspec.DecodeError):
        replace_fields(b"[1]", {"a": b"1"})


@cases(
    "raw, expected",
    {
        "last": (b'{"metadata":{"name":"a","managedFields":[{"f":"]}"}]},"x":1}', b'{"metadata":{"name":"a"},"x":1}'),
        "first": (b'{"metadata":{"managedFields":[{}],"name":"a"}}', b'{"metadata":{"name":"a"}}'),
        "between": (b'{"metadata":{"a":1,"managedFields":[[],{}],"name":"a"}}', b'{"metadata":{"a":1,"name":"a"}}'),
        "only field": (b'{"metadata":{"managedFields":[{}]},"x":1}', b'{"metadata":{},"x":1}'),
        "spaced": (b'{"metadata": {"name": "a", "managedFields": [ {} ]}}', b'{"metadata":{"name":"a"}}'),
        "managedFields of spec and metadata": (
            b'{"spec":{"managedFields":[{}]},"metadata":{"name":"a","managedFields":[{}]}}',
            b'{"spec":{"managedFields":[{}]},"metadata":{"name":"a"}}',
        ),
        "managedFields of spec only": (
            b'{"spec":{"managedFields":[{}],"a":1},"metadata":{"name":"a"}}',
            b'{"spec":{"managedFields":[{}],"a":1},"metadata":{"name":"a"}}',
        ),
        "a value": (b'{"metadata":{"name":"managedFields"}}', b'{"metadata":{"name":"managedFields"}}'),
        "null metadata": (b'{"metadata":null,"a":"managedFields"}', b'{"metadata":null,"a":"managedFields"}'),
        "no managedFields": (b'{"metadata": {"name": "a"}}', b'{"metadata": {"name": "a"}}'),
    },
)
def test_without_managed_fields(raw: bytes, expected: bytes) -> None:
    assert without_managed_fields(raw) == expected
