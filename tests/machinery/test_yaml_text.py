"""YAML as Go's library parses it (``go.yaml.in/yaml/v2``, ``sigs.k8s.io/yaml``), within limits."""

import time
import tracemalloc
from typing import Any

import pytest
from tests.tables import cases

from pilothouse.machinery.yaml_text import YamlError, load_yaml, read_yaml


def laughs(levels: int) -> str:
    lines = ['a0: &a0 ["lol","lol","lol","lol","lol","lol","lol","lol","lol"]']
    for level in range(1, levels):
        below = ",".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} [{below}]")
    return "\n".join(lines)


@cases(
    "text, message",
    {
        "a billion laughs": (laughs(10), "yaml: document contains excessive aliasing"),
        "long text repeated by alias": (
            f"a: &a {'x' * 1_000_000}\nb: [{','.join(['*a'] * 90)}]",
            "yaml: document contains excessive aliasing",
        ),
        "recursive list": ("a: &a [*a]", "yaml: anchor 'a' value contains itself"),
        "recursive map": ("a: &a {b: {c: *a}}", "yaml: anchor 'a' value contains itself"),
        "unclosed brackets": ("a: " + "[" * 100_000, "yaml: exceeded max depth of 300"),
        "deep": ("a: " + "[" * 50_000 + "]" * 50_000, "yaml: exceeded max depth of 300"),
        "deep lines": ("\n".join(" " * i + "a:" for i in range(2000)), "yaml: exceeded max depth of 300"),
        "deep by an alias": (
            "a: &a " + "[" * 200 + "]" * 200 + "\nb: " + "[" * 200 + "*a" + "]" * 200,
            "yaml: exceeded max depth of 300",
        ),
        "invalid YAML": ("a: [\nb", "yaml: line 2: did not find expected ',' or ']'"),
        "nested mapping in one line": ("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context"),
        "an alias of nothing": ("a: *b", "yaml: unknown anchor 'b' referenced"),
        "mismatched tag": ("a: !!int b", "yaml: cannot decode !!str `b` as a !!int"),
        "a list for a key": ("[a]: b", "yaml: invalid map key: [a]"),
        "null for a key": ("~: b", "unsupported map key of type: %!s(<nil>), key: <nil>"),
        "NaN": ("a: .nan", "json: unsupported value: NaN"),
        "invalid merge": ("a: 1\n<<: 2", "yaml: map merge requires map or sequence of maps as the value"),
    },
)
def test_excessive_documents_are_rejected_cheaply(text: str, message: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(YamlError) as caught:
        load_yaml(text)
    assert str(caught.value).removeprefix("yaml: ").startswith(message.removeprefix("yaml: "))
    assert time.process_time() - began < 5
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("text", ["[" + "a," * 1_500_000 + "a]", "[" + "[]," * 1_000_000 + "[]]"])
def test_million_values_are_accepted(text: str) -> None:
    began = time.process_time()
    with pytest.raises(YamlError, match="yaml: document contains more than 1000000 values"):
        load_yaml(text)
    assert time.process_time() - began < 10


def test_flat_document_is_parsed_once() -> None:
    """Three megabytes took ten seconds when they were parsed for depths, aliases, values and repeated keys."""
    text = "".join(f"key{number}: value\n" for number in range(180_000))
    began = time.process_time()
    assert len(read_yaml(text).value) == 180_000
    assert time.process_time() - began < 4


@cases(
    "text, expected",
    {
        "empty": ("", None),
        "an alias": ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        "a merge": ("base: &b {x: 1}\nd:\n  <<: *b\n  z: 2", {"base": {"x": 1}, "d": {"x": 1, "z": 2}}),
        "few nested aliases": (laughs(3), None),
    },
)
def test_common_documents(text: str, expected: Any) -> None:
    loaded = load_yaml(text)
    if text.startswith("a0"):
        assert len(loaded["a2"]) == 9
    else:
        assert loaded == expected


@cases(
    "text, expected",
    {
        "integers": ("[0777, 0o17, 0x1F, 0b11, -0b11, 1_000, +5, 08]", [511, 15, 31, 3, -3, 1000, 5, 8]),
        "64 bits and more": ("[18446744073709551615, 18446744073709551616]", [2**64 - 1, 2**64]),
        "fractions": ("[1.50, .5, 1e3, 1e400, 1., 99999999999999999999]", [1.5, 0.5, 1000, "1e400", 1, 10**20]),
        "booleans and nulls": ("[yes, No, on, y, 'yes', ~, null, Null, nULL]",
                     [True, False, True, True, "yes", None, None, None, "nULL"]),
        "text": ("[2026-01-01, 2026-13-45, 2026-01-01T00:00:00Z, 1:30, '5', -, +, =, <<]",
                     ["2026-01-01", "2026-13-45", "2026-01-01T00:00:00Z", "1:30", "5", "-", "+", "=", "<<"]),
        "tags": ("[!!str 5, !!float 3, !!int 5, !!binary aGk=, !own 5, ! 5, !!null '']",
                     ["5", 3, 5, "hi", "5", "5", None]),
        "keys": ("{1: a, true: b, 1.5: c, 1000000.0: d, 0.1: e, no: f, 2026-01-01: g}",
                     {"1": "a", "true": "b", "1.5": "c", "1e+06": "d", "0.1": "e", "false": "f", "2026-01-01": "g"}),
        "only the first document": ("---\na: 1\n---\n]", {"a": 1}),
        "merge after its keys overrides": ("{a: {b: 3, <<: {b: 1, c: 2}}}", {"a": {"b": 1, "c": 2}}),
        "first of several merges takes precedence": ("{a: {<<: [{b: 1}, {b: 2, c: 3}]}}", {"a": {"b": 1, "c": 3}}),
        "an anchor of nothing": ("a: &a\nb: *a\n*a : c", None),
    },
)  # fmt: skip
def test_values(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(YamlError, match="unsupported map key"):
            load_yaml(text)
    else:
        assert repr(load_yaml(text)) == repr(expected)


@cases(
    "text, repeated",
    {
        "no duplicates": ("a: 1\nb: 2", []),
        "one duplicate": ("a: 1\na: 2", ['line 2: key "a" already set in map']),
        "inner ones first, by the lines of their values": ("a: 1\na:\n  b: 1\n  b: 2",
                     ['line 4: key "b" already set in map', 'line 3: key "a" already set in map']),
        "keys that are no text": ("1: a\n1: b\ntrue: c\nyes: d\n'1': e", ["line 2: key 1 already set in map",
                     "line 4: key true already set in map"]),
        "key that a merge sets too": ("a: &x {b: 1}\nc:\n  b: 2\n  <<: *x", ['line 4: key "b" already set in map']),
    },
)  # fmt: skip
def test_duplicate_keys(text: str, repeated: list[str]) -> None:
    assert read_yaml(text).repeated == repeated
