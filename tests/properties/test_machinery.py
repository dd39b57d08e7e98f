"""Properties for all inputs: patches, selectors, splicing, quantities, bodies."""

import copy
import json
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.api.schema import load
from pilothouse.machinery.bodies import decode_body, decode_untyped
from pilothouse.machinery.durations import format_nanoseconds, parse_nanoseconds
from pilothouse.machinery.fields import FieldSelector, FieldTerm, parse_field_selector
from pilothouse.machinery.json_patch import apply_json_patch
from pilothouse.machinery.labels import Requirement, Selector, parse_selector
from pilothouse.machinery.merge_patch import apply_merge_patch
from pilothouse.machinery.quantities import canonical, parse_quantity
from pilothouse.machinery.splice import replace_fields
from pilothouse.machinery.strategic_merge import apply_strategic_merge

# Enough examples to find what a table misses, few enough that the suite stays quick.
quick = settings(max_examples=60, deadline=None, derandomize=True)

names = st.text(alphabet="abcxyz", min_size=1, max_size=3)
texts = st.text(alphabet=st.characters(codec="utf-8"), max_size=6)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=10
)
objects = st.dictionaries(names, values, max_size=4)


# Merge patch ---------------------------------------------------------------------------------------------------------


@quick
@given(document=objects, patch=objects)
def test_merge_patch_is_idempotent(document: Any, patch: Any) -> None:
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once


@quick
@given(document=objects, patch=objects)
def test_merge_patch_does_not_modify_its_input(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    apply_merge_patch(document, patch)
    assert (document, patch) == before


# JSON patch ----------------------------------------------------------------------------------------------------------


def difference(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """Some JSON patch from ``old`` to ``new``."""
    if isinstance(old, dict) and isinstance(new, dict):
        operations: list[dict[str, Any]] = [{"op": "remove", "path": f"{path}/{key}"} for key in old if key not in new]
        for key in new:
            if key not in old:
                operations.append({"op": "add", "path": f"{path}/{key}", "value": new[key]})
            else:
                operations.extend(difference(old[key], new[key], f"{path}/{key}"))
        return operations
    if isinstance(old, list) and isinstance(new, list):
        operations = [{"op": "remove", "path": f"{path}/-1"} for _ in old[len(new) :]]
        for index, item in enumerate(new):
            if index < len(old):
                operations.extend(difference(old[index], item, f"{path}/{index}"))
            else:
                operations.append({"op": "add", "path": f"{path}/-", "value": item})
        return operations
    same = json.dumps(old) == json.dumps(new)
    return [] if same else [{"op": "replace", "path": path, "value": new}]


@quick
@given(old=objects, new=objects)
def test_json_patch_of_the_difference_round_trips(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    patched = apply_json_patch(old, difference(old, new))
    assert patched == new
    assert apply_json_patch(patched, difference(new, old)) == old == before


# Strategic merge -----------------------------------------------------------------------------------------------------

container_names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@quick
@given(live=container_names, patch=container_names)
def test_merged_list_keeps_both_orders_and_all_items(live: list[str], patch: list[str]) -> None:
    pod = load().for_kind("", "v1", "Pod")

    def spec(of: list[str]) -> dict[str, Any]:
        return {"spec": {"containers": [{"name": name} for name in of]}}

    merged = [c["name"] for c in apply_strategic_merge(spec(live), spec(patch), pod)["spec"]["containers"]]
    assert sorted(merged) == sorted({*live, *patch})
    assert [name for name in merged if name in patch] == patch
    assert [name for name in merged if name not in patch] == [name for name in live if name not in patch]
    again = apply_strategic_merge(spec(merged), spec(patch), pod)["spec"]["containers"]
    assert [c["name"] for c in again] == merged


# Selectors -----------------------------------------------------------------------------------------------------------

label_values = st.sampled_from(["", "1", "2", "5", "a", "b"])
requirements = st.one_of(
    st.builds(
        lambda key, operator, value: Requirement(key, operator, (value,)),
        st.sampled_from("abcd"),
        st.sampled_from(["=", "==", "!="]),
        label_values,
    ),
    st.builds(
        lambda key, operator, chosen: Requirement(key, operator, tuple(sorted(chosen))),
        st.sampled_from("abcd"),
        st.sampled_from(["in", "notin"]),
        st.sets(label_values, min_size=1),
    ),
    st.builds(Requirement, st.sampled_from("abcd"), st.sampled_from(["exists", "!"])),
    st.builds(
        lambda key, operator, value: Requirement(key, operator, (str(value),)),
        st.sampled_from("abcd"),
        st.sampled_from(["gt", "lt"]),
        st.integers(0, 9),
    ),
)


def holds(requirement: Requirement, labels: dict[str, str]) -> bool:
    """The definition, word for word."""
    has_label = requirement.key in labels
    value = labels.get(requirement.key, "")
    match requirement.operator:
        case "=" | "==" | "in":
            return has_label and value in requirement.values
        case "!=" | "notin":
            return not has_label or value not in requirement.values
        case "exists":
            return has_label
        case "!":
            return not has_label
        case "gt":
            return has_label and value.isdigit() and int(value) > int(requirement.values[0])
        case _:
            return has_label and value.isdigit() and int(value) < int(requirement.values[0])


@quick
@given(chosen=st.lists(requirements, max_size=4), labels=st.dictionaries(st.sampled_from("abcd"), label_values))
def test_compiled_selector_agrees_with_the_definition(chosen: list[Requirement], labels: dict[str, str]) -> None:
    assert Selector(chosen).matches(labels) is all(holds(requirement, labels) for requirement in chosen)


@quick
@given(chosen=st.lists(requirements, max_size=4))
def test_selector_text_round_trips(chosen: list[Requirement]) -> None:
    selector = Selector(chosen)
    assert parse_selector(str(selector)) == selector
    assert str(parse_selector(str(selector))) == str(selector)


@quick
@given(text=st.text(alphabet="ab=!,()<> \tinot", max_size=12))
def test_parsing_any_text_gives_a_selector_or_an_error(text: str) -> None:
    try:
        selector = parse_selector(text)
    except ValueError:
        return
    assert parse_selector(str(selector)) == selector


@quick
@given(terms=st.lists(st.tuples(names, st.sampled_from(["=", "!="]), texts), max_size=3))
def test_field_selector_text_round_trips(terms: list[tuple[str, str, str]]) -> None:
    selector = FieldSelector(tuple(FieldTerm(*term) for term in terms))
    parsed = parse_field_selector(str(selector))
    assert sorted(map(str, parsed.terms)) == sorted(map(str, selector.terms))


# Splicing ------------------------------------------------------------------------------------------------------------


@quick
@given(document=objects, changes=st.dictionaries(names, st.none() | values.filter(lambda v: v is not None), max_size=3))
def test_splice_agrees_with_dict_assignment(document: dict[str, Any], changes: dict[str, Any]) -> None:
    raw = json.dumps(document, indent=1).encode()
    spliced = replace_fields(raw, {k: None if v is None else json.dumps(v).encode() for k, v in changes.items()})
    expected = {key: value for key, value in {**document, **changes}.items() if not (key in changes and value is None)}
    assert json.loads(spliced) == expected
    assert replace_fields(spliced, {}) == spliced


# Quantities and durations --------------------------------------------------------------------------------------------

SUFFIXES = {
    "": Fraction(1), "m": Fraction(1, 1000), "u": Fraction(1, 10**6), "n": Fraction(1, 10**9),
    "k": Fraction(1000), "M": Fraction(10**6), "G": Fraction(10**9), "Ki": Fraction(1024), "Mi": Fraction(1024**2),
    "Gi": Fraction(1024**3), "e3": Fraction(1000), "E-2": Fraction(1, 100),
}  # fmt: skip
amounts = st.tuples(
    st.integers(-(10**6), 10**6), st.integers(0, 999), st.integers(0, 3), st.sampled_from(sorted(SUFFIXES))
)


@quick
@given(amount=amounts)
def test_quantity_is_rounded_up_to_nano(amount: tuple[int, int, int, str]) -> None:
    whole, fraction, digits, suffix = amount
    decimals = f".{fraction % 10**digits:0{digits}d}" if digits else ""
    text = f"{whole}{decimals}{suffix}"
    exact = Fraction(f"{whole}{decimals or '.0'}") * SUFFIXES[suffix]
    nanos = abs(exact) * 10**9
    rounded = -(-nanos.numerator // nanos.denominator) * (1 if exact >= 0 else -1)
    quantity = parse_quantity(text)
    assert quantity.mantissa * Fraction(10) ** quantity.exponent == Fraction(rounded, 10**9)


@quick
@given(amount=amounts)
def test_canonical_text_is_a_fixed_point(amount: tuple[int, int, int, str]) -> None:
    whole, _, _, suffix = amount
    text = canonical(f"{whole}{suffix}")
    assert canonical(text) == text
    assert parse_quantity(text) == parse_quantity(f"{whole}{suffix}")


@quick
@given(a=amounts, b=amounts)
def test_sums_are_exact(a: tuple[int, int, int, str], b: tuple[int, int, int, str]) -> None:
    left, right = parse_quantity(f"{a[0]}{a[3]}"), parse_quantity(f"{b[0]}{b[3]}")
    assert (left + right) - right == left
    assert (left < right) == (left - right < parse_quantity("0"))


@quick
@given(nanoseconds=st.integers(-(2**62), 2**62))
def test_durations_round_trip(nanoseconds: int) -> None:
    assert parse_nanoseconds(format_nanoseconds(nanoseconds)) == nanoseconds


# Bodies --------------------------------------------------------------------------------------------------------------

configs = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {}, optional={"name": texts, "labels": st.dictionaries(texts, texts, max_size=3), "generation": st.just(1)}
        ),
        "data": st.dictionaries(texts, texts, max_size=3),
        "immutable": st.booleans(),
    },
)


@quick
@given(document=configs, indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_valid_body_round_trips(document: Any, indent: int | None, ascii_only: bool) -> None:
    definition = load().for_kind("", "v1", "ConfigMap")
    assert definition is not None
    decoded = decode_body(json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode(), definition)
    assert decoded.document == document
    assert decoded.strict_errors == []


@quick
@given(document=configs.filter(lambda c: "data" in c and c["data"]), value=texts, ascii_only=st.booleans())
def test_every_duplicate_is_found(document: Any, value: str, ascii_only: bool) -> None:
    definition = load().for_kind("", "v1", "ConfigMap")
    assert definition is not None
    key = sorted(document["data"])[0]
    text = json.dumps(document, ensure_ascii=ascii_only)
    member = f"{json.dumps(key, ensure_ascii=ascii_only)}: {json.dumps(value)}"
    body = text.replace('"data": {', f'"data": {{{member}, ', 1).encode()
    assert decode_body(body, definition).duplicates == [f"data.{key}"]
    assert decode_untyped(body)[1] == [f'duplicate field "data.{key}"']


@quick
@given(body=st.text(alphabet='{}[]",:truefalsn0123.-+eE \\u', max_size=20))
def test_json_syntax_agrees_with_pythons_parser(body: str) -> None:
    def refuse(_: str) -> None:
        raise ValueError

    try:
        json.loads(body, parse_constant=refuse)
        good = True
    except ValueError:
        good = False
    try:
        decode_untyped(body.encode())
        assert good
    except ValueError:
        assert not good
