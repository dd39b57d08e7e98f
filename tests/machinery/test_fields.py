"""Field selectors (apimachinery 0.36, pkg/fields/selector_test.go)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import cases

from pilothouse.machinery.fields import (
    FieldSelector,
    FieldSelectorError,
    FieldTerm,
    escape_value,
    parse_field_selector,
)


@cases(
    "text, terms",
    {
        "an empty selector": ("", ()),
        "equal": ("a=b", (FieldTerm("a", "=", "b"),)),
        "double equals is equals": ("a==b", (FieldTerm("a", "=", "b"),)),
        "not equal": ("a!=b", (FieldTerm("a", "!=", "b"),)),
        "terms are sorted": ("b=1,a=2", (FieldTerm("a", "=", "2"), FieldTerm("b", "=", "1"))),
        "empty terms are skipped": ("metadata.name=x,", (FieldTerm("metadata.name", "=", "x"),)),
        "escapes": (r"a=b\,c\=d\\e", (FieldTerm("a", "=", r"b,c=d\e"),)),
        "the empty value": ("a=", (FieldTerm("a", "=", ""),)),
    },
)
def test_parse(text: str, terms: tuple[FieldTerm, ...]) -> None:
    selector = parse_field_selector(text)
    assert selector.terms == terms
    assert parse_field_selector(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("a in (b)", "invalid selector: 'a in (b)'; can't understand 'a in (b)'"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_parse_errors_are_upstreams(text: str, message: str) -> None:
    with pytest.raises(FieldSelectorError) as caught:
        parse_field_selector(text)
    assert str(caught.value) == message


def test_missing_values_compare_as_empty() -> None:
    fields = {"status.phase": "Running"}
    selector = parse_field_selector("status.phase=Running,spec.nodeName!=n1")
    assert selector.matches(lambda path: fields.get(path, ""))
    assert parse_field_selector("spec.nodeName=").matches(lambda path: fields.get(path, ""))
    assert not parse_field_selector("status.phase!=Running").matches(lambda path: fields.get(path, ""))


def test_requires_exact_match() -> None:
    selector = parse_field_selector("metadata.name=x,status.phase!=y")
    assert selector.exact("metadata.name") == "x"
    assert selector.exact("status.phase") is None


def test_escaped_values_round_trip() -> None:
    value = r"a,b=c\d"
    assert parse_field_selector(f"x={escape_value(value)}").exact("x") == value


_TERMS = st.builds(
    FieldTerm, st.sampled_from(["a", "b", "c"]), st.sampled_from(["=", "!="]), st.sampled_from(["", "x", "y"])
)


@given(
    st.lists(_TERMS, max_size=5),
    st.sampled_from([1, 9]),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["x", "y", "z"])),
)
def test_long_selector_matches_as_its_terms(terms: list[FieldTerm], times: int, fields: dict[str, str]) -> None:
    def get(path: str) -> str:
        return fields.get(path, "")

    one_by_one = all(FieldSelector((term,)).matches(get) for term in terms)
    assert FieldSelector(tuple(terms * times)).compiled()(get) is one_by_one
