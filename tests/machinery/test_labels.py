"""Label selectors: upstream's grammar and errors (apimachinery 0.36, pkg/labels/selector_test.go; texts of v1.36.2)."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases

from pilothouse.api.meta import LabelSelector, LabelSelectorRequirement
from pilothouse.machinery import labels
from pilothouse.machinery.labels import (
    EVERYTHING,
    NOTHING,
    Requirement,
    Selector,
    SelectorError,
    parse_selector,
    selector_from,
    selector_from_map,
)


@cases(
    "text, canonical",
    {
        "an empty selector matches everything": ("", ""),
        "equality": ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        "==": ("x==a", "x==a"),
        "requirements are sorted by key": ("z=1,a!=2", "a!=2,z=1"),
        "values are sorted": ("x in (c,a,b)", "x in (a,b,c)"),
        "notin without values": ("x notin ()", "x notin ()"),
        "empty value in a set": ("x in (,a)", "x in (,a)"),
        "between commas too": ("x in (a,,b)", "x in (,a,b)"),
        "exists and does not exist": ("x, !y", "x,!y"),
        "greater and less": ("x>1,z <5", "x>1,z<5"),
        "the empty value": ("x=", "x="),
        "the empty value before a comma": ("x=,z=1", "x=,z=1"),
        "operators as key and values": ("in in (in, notin)", "in in (in,notin)"),
        "notin as key": ("notin=in", "notin=in"),
        "white space is free": ("\tx \r\n=\n a ", "x=a"),
        "a prefixed key": ("example.com/a_b.C-d=1", "example.com/a_b.C-d=1"),
    },
)
def test_parse_selector_gives_the_canonical_text(text: str, canonical: str) -> None:
    selector = parse_selector(text)
    assert str(selector) == canonical
    assert parse_selector(canonical) == selector


_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a===", "unable to parse requirement: found '=', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (",", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (,", "unable to parse requirement: found '', expected: ',', or identifier"),
        ("a in (b))", "found ')', expected: ',' or 'end of string'"),
        ("a in (b c)", "unable to parse requirement: found 'c', expected: ',' or ')'"),
        ("=", "found '=', expected: !, identifier, or 'end of string'"),
        ("a!", "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt"),
        ("/a", 'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty'),
        (
            "a<",
            'unable to parse requirement: values[0]: Invalid value: "": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (
            "a" * 64,
            f'unable to parse requirement: <nil>: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes',
        ),
        ("a=%", f'unable to parse requirement: values[0][a]: Invalid value: "%": {_BAD_VALUE}'),
        (
            "a>b",
            'unable to parse requirement: values[0]: Invalid value: "b": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_parse_errors_are_upstreams(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert str(caught.value) == message


@cases(
    "text, labels, expected",
    {
        "equal": ("x=a", {"x": "a"}, True),
        "different value": ("x=a", {"x": "b"}, False),
        "the empty value is not a missing label": ("x=", {}, False),
        "additional labels": ("x=a,y=b", {"x": "a", "y": "b", "z": "c"}, True),
        "one of two requirements fails": ("x=a,y=b", {"x": "a"}, False),
        "three equalities": ("a=1,b=2,c=3", {"a": "1", "b": "2", "c": "3"}, True),
        "three equalities, the last fails": ("a=1,b=2,c=3", {"a": "1", "b": "2", "c": "4"}, False),
        "!= with missing label": ("x!=a", {}, True),
        "!= with equal value": ("x!=a", {"x": "a"}, False),
        "notin with missing label": ("x notin (a,b)", {}, True),
        "notin with listed value": ("x notin (a,b)", {"x": "b"}, False),
        "in": ("x in (a,b)", {"x": "b"}, True),
        "in with missing label": ("x in (a,b)", {}, False),
        "exists": ("x", {"x": ""}, True),
        "not exists, label exists": ("!x", {"x": ""}, False),
        "greater": ("x>5", {"x": "6"}, True),
        "equal is not greater": ("x>5", {"x": "5"}, False),
        "less than": ("x<5", {"x": "-6"}, True),
        "less than, not a number": ("x<5", {"x": "a"}, False),
        "missing is not less": ("x<5", {}, False),
        "beyond 64 bits is not a number": ("x<5", {"x": "99999999999999999999"}, False),
        "mixed operators": ("x,y=b", {"x": "1", "y": "b"}, True),
    },
)
def test_matches(text: str, labels: dict[str, str], expected: bool) -> None:
    assert parse_selector(text).matches(labels) is expected


def test_nil_selector_matches_nothing_and_empty_selector_everything() -> None:
    assert selector_from(None) is NOTHING
    assert not NOTHING.matches({})
    assert not NOTHING.empty
    assert selector_from(LabelSelector()) is EVERYTHING
    assert EVERYTHING.matches({"a": "b"})
    assert EVERYTHING.empty
    assert NOTHING != EVERYTHING


def test_match_labels_and_expressions_are_anded() -> None:
    selector = selector_from(
        LabelSelector(
            match_labels={"app": "web"},
            match_expressions=(
                LabelSelectorRequirement(key="tier", operator="In", values=("b", "a")),
                LabelSelectorRequirement(key="old", operator="DoesNotExist"),
            ),
        )
    )
    assert str(selector) == "app=web,!old,tier in (a,b)"
    assert selector.matches({"app": "web", "tier": "a"})
    assert not selector.matches({"app": "web", "tier": "a", "old": ""})


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        (
            LabelSelectorRequirement(key="a", operator="in", values=("b",)),
            '"in" is not a valid label selector operator',
        ),
        (
            LabelSelectorRequirement(key="a", operator="In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            LabelSelectorRequirement(key="a", operator="Exists", values=("b",)),
            'values: Invalid value: ["b"]: values set must be empty for exists and does not exist',
        ),
    ],
)
def test_invalid_expression_is_rejected(requirement: LabelSelectorRequirement, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        selector_from(LabelSelector(match_expressions=(requirement,)))
    assert str(caught.value) == message


def test_requires_exact_match() -> None:
    selector = parse_selector("a=1,b in (2),c in (3,4),d!=5")
    assert [selector.exact(key) for key in "abcde"] == ["1", "2", None, None, None]


def test_selectors_compare_and_hash_by_their_requirements() -> None:
    assert parse_selector("b=2,a=1") == selector_from_map({"a": "1", "b": "2"})
    assert len({parse_selector("a=1"), parse_selector("a = 1"), Selector([Requirement("a", "=", ("1",))])}) == 1
    assert parse_selector("a=1") != parse_selector("a==1")


_KEYS, _VALUES = st.sampled_from(["a", "b", "c"]), st.sampled_from(["", "x", "y", "-1", "3", "7"])
_REQUIREMENTS = st.one_of(
    st.builds(Requirement, _KEYS, st.sampled_from(["=", "==", "!="]), st.tuples(_VALUES)),
    st.builds(Requirement, _KEYS, st.sampled_from(["in", "notin"]), st.lists(_VALUES, min_size=1).map(tuple)),
    st.builds(Requirement, _KEYS, st.sampled_from(["gt", "lt"]), st.tuples(st.sampled_from(["-5", "0", "3", "9"]))),
    st.builds(Requirement, _KEYS, st.sampled_from(["exists", "!"])),
)


@given(
    st.lists(_REQUIREMENTS, min_size=1, max_size=5),
    st.sampled_from([1, 9]),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), _VALUES),
)
def test_long_selector_matches_as_its_requirements(
    requirements: list[Requirement], times: int, labels: dict[str, str]
) -> None:
    one_by_one = all(Selector([requirement]).matches(labels) for requirement in requirements)
    assert Selector(requirements * times).matches(labels) is one_by_one


def test_selectors_of_many_labels_are_not_cached() -> None:
    before = labels._cached_selector.cache_info().misses
    many = LabelSelector(match_labels={f"k{number}": "v" for number in range(100)})
    assert selector_from(many).matches(many.match_labels)
    assert labels._cached_selector.cache_info().misses == before


@cases(
    "text, expected",
    {
        "equalities": ("a=1,b==2", [("a", "1"), ("b", "2")]),
        "a set of one": ("a in (1)", [("a", "1")]),
        "others": ("a in (1,2),b!=2,c,!d,e notin (1)", []),
        "the first of a key counts": ("a!=1,a=2,b=1,b=2", [("b", "1")]),
    },
)
def test_exact_labels(text: str, expected: list[tuple[str, str]]) -> None:
    selector = parse_selector(text)
    assert [*selector.exact_labels()] == expected
    assert [(key, selector.exact(key)) for key, _value in expected] == expected


def test_exact_labels_of_a_long_selector() -> None:
    selector = Selector([Requirement(f"k{number}", "notin", ("a",)) for number in range(20_000)])
    began = time.process_time()
    assert not [*selector.exact_labels()]
    assert time.process_time() - began < 0.5
