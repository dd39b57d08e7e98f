"""Names, owners, conditions and resource versions."""

import datetime

import pytest

from pilothouse.api.apps import REPLICA_SETS
from pilothouse.api.core import PodCondition
from pilothouse.api.meta import ObjectMeta, OwnerReference
from pilothouse.machinery import names
from pilothouse.machinery.conditions import find_condition, is_condition_true, with_condition, without_condition
from pilothouse.machinery.go_text import compact_json, print_value, quote
from pilothouse.machinery.owners import controller_of, is_controlled_by, new_controller_reference
from pilothouse.machinery.resource_versions import compare, is_newer


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("a-1", []),
        (
            "A",
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
                "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
                "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ],
        ),
        ("a.b", ["must not contain dots"]),
        ("a" * 64, ["must be no more than 63 characters"]),
    ],
)
def test_dns_labels(text: str, errors: list[str]) -> None:
    assert names.dns_label_errors(text) == errors


def test_qualified_names() -> None:
    assert names.qualified_name_errors("app.kubernetes.io/name") == []
    assert names.qualified_name_errors("/name") == ["prefix part must be non-empty"]
    assert names.qualified_name_errors("a/" + "b" * 64) == ["name part must be no more than 63 bytes"]
    assert names.qualified_name_errors("a" * 254 + "/b") == ["prefix part must be no more than 253 bytes"]
    (error,) = names.qualified_name_errors("a/b/c")
    assert error.startswith("a valid label key must consist of")
    assert error.endswith("with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")
    assert names.qualified_name_errors("a\n") != []


def test_invalid_path_segment_names() -> None:
    assert names.path_segment_errors("..") == ["may not be '..'"]
    assert names.path_segment_errors("a/b%") == ["may not contain '/'", "may not contain '%'"]


def test_long_generate_name_is_truncated() -> None:
    assert names.generated_name("web-", "abcde") == "web-abcde"
    assert len(names.generated_name("x" * 80, "abcde")) == 63


def test_controller_of() -> None:
    other = OwnerReference(uid="1")
    controller_reference = OwnerReference(uid="2", controller=True)
    meta = ObjectMeta(owner_references=(other, controller_reference))
    assert controller_of(meta) is controller_reference
    assert is_controlled_by(meta, "2")
    assert not is_controlled_by(meta, "1")
    assert controller_of(ObjectMeta(owner_references=(other,))) is None


def test_new_controller_ref_sets_block_owner_deletion() -> None:
    assert new_controller_reference(ObjectMeta(name="web", uid="u"), REPLICA_SETS) == OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name="web", uid="u", controller=True, block_owner_deletion=True
    )


def test_condition_keeps_its_transition_time_with_its_status() -> None:
    first = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    later = first + datetime.timedelta(minutes=1)
    conditions = (PodCondition(type="Ready", status="True", last_transition_time=first), PodCondition(type="Other"))
    same = with_condition(conditions, PodCondition(type="Ready", status="True", reason="x", last_transition_time=later))
    assert same[0].last_transition_time == first
    assert same[0].reason == "x"
    changed = with_condition(conditions, PodCondition(type="Ready", status="False", last_transition_time=later))
    assert changed[0].last_transition_time == later
    assert [c.type for c in with_condition(conditions, PodCondition(type="New"))] == ["Ready", "Other", "New"]
    assert conditions[0].last_transition_time == first


def test_conditions_are_found_by_type() -> None:
    conditions = (PodCondition(type="A", status="True"), PodCondition(type="B", status="False"))
    assert find_condition(conditions, "B") is conditions[1]
    assert find_condition(conditions, "C") is None
    assert is_condition_true(conditions, "A")
    assert not is_condition_true(conditions, "B")
    assert not is_condition_true(conditions, "C")
    assert without_condition(conditions, "A") == (conditions[1],)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("1", "2", -1),
        ("99", "100", -1),
        ("200", "199", 1),
        ("7", "7", 0),
        ("0", "1", None),
        ("01", "2", None),
        ("", "2", None),
        ("a", "2", None),
        ("²", "2", None),
        ("99999999999999999999999", "1", 1),
    ],
)
def test_resource_versions_compare_only_as_plain_decimals(a: str, b: str, expected: int | None) -> None:
    assert compare(a, b) == expected
    assert is_newer(a, b) is (expected == 1)


def test_values_print_as_in_go() -> None:
    assert quote('a"b\n\x01é\u200b') == r'"a\"b\n\x01é\u200b"'
    assert (
        print_value({"b": [1, None, True], "a": {"x": 1.5, "y": 1e21}}) == "map[a:map[x:1.5 y:1e+21] b:[1 <nil> true]]"
    )
    assert compact_json({"a": "<&>", "b": [1]}) == r'{"a":"\u003c\u0026\u003e","b":[1]}'
