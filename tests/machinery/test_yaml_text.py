"""YAML as Go's library reads it (``go.yaml.in/yaml/v2``, ``sigs.k8s.io/yaml``), within limits."""

import time
import tracemalloc
from typing import Any

import pytest

from pilothouse.machinery.yaml_text import YamlError, load_yaml, read_yaml


def laughs(levels: int) -> str:
    lines = ['a0: &a0 ["lol","lol","lol","lol","lol","lol","lol","lol","lol"]']
    for level in range(1, levels):
        below = ",".join([f"*a{level - 1}"] * 9)
        lines.append(f"a{level}: &a{level} [{below}]")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(laughs(10), "yaml: document contains excessive aliasing", id="a billion laughs"),
        pytest.param(
            f"a: &a {'x' * 1_000_000}\nb: [{','.join(['*a'] * 90)}]",
            "yaml: document contains excessive aliasing",
            id="a long text many times",
        ),
        pytest.param("a: &a [*a]", "yaml: anchor 'a' value contains itself", id="a list in itself"),
        pytest.param("a: &a {b: {c: *a}}", "yaml: anchor 'a' value contains itself", id="a map in itself"),
        pytest.param("a: " + "[" * 100_000, "yaml: exceeded max depth of 300", id="without end"),
        pytest.param("a: " + "[" * 50_000 + "]" * 50_000, "yaml: exceeded max depth of 300", id="deep"),
        pytest.param(
            "\n".join(" " * i + "a:" for i in range(2000)), "yaml: exceeded max depth of 300", id="deep lines"
        ),
        pytest.param(
            "a: &a " + "[" * 200 + "]" * 200 + "\nb: " + "[" * 200 + "*a" + "]" * 200,
            "yaml: exceeded max depth of 300",
            id="deep by an alias",
        ),
        pytest.param("a: [\nb", "yaml: line 2: did not find expected ',' or ']'", id="no YAML"),
        pytest.param("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context", id="no map"),
        pytest.param("a: *b", "yaml: unknown anchor 'b' referenced", id="an alias of nothing"),
        pytest.param("a: !!int b", "yaml: cannot decode !!str `b` as a !!int", id="a tag that does not fit"),
        pytest.param("[a]: b", "yaml: invalid map key: [a]", id="a list for a key"),
        pytest.param("~: b", "unsupported map key of type: %!s(<nil>), key: <nil>", id="null for a key"),
        pytest.param("a: .nan", "json: unsupported value: NaN", id="no number"),
        pytest.param("a: 1\n<<: 2", "yaml: map merge requires map or sequence of maps as the value", id="a bad merge"),
    ],
)
def test_what_goes_too_far_is_refused_soon_and_cheaply(text: str, said: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(YamlError) as caught:
        load_yaml(text)
    assert str(caught.value).removeprefix("yaml: ").startswith(said.removeprefix("yaml: "))
    assert time.process_time() - began < 5
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("text", ["[" + "a," * 1_500_000 + "a]", "[" + "[]," * 1_000_000 + "[]]"])
def test_a_document_may_have_a_million_values(text: str) -> None:
    began = time.process_time()
    with pytest.raises(YamlError, match="yaml: document contains more than 1000000 values"):
        load_yaml(text)
    assert time.process_time() - began < 10


def test_a_flat_document_is_read_once() -> None:
    """Three megabytes took ten seconds when they were parsed for depths, aliases, values and repeated keys."""
    text = "".join(f"key{number}: value\n" for number in range(180_000))
    began = time.process_time()
    assert len(read_yaml(text).value) == 180_000
    assert time.process_time() - began < 4


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="an alias"),
        pytest.param("base: &b {x: 1}\nd:\n  <<: *b\n  z: 2", {"base": {"x": 1}, "d": {"x": 1, "z": 2}}, id="a merge"),
        pytest.param(laughs(3), None, id="a few laughs"),
    ],
)
def test_what_people_write_is_read(text: str, expected: Any) -> None:
    loaded = load_yaml(text)
    if text.startswith("a0"):
        assert len(loaded["a2"]) == 9
    else:
        assert loaded == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[0777, 0o17, 0x1F, 0b11, -0b11, 1_000, +5, 08]", [511, 15, 31, 3, -3, 1000, 5, 8], id="integers"),
        pytest.param("[18446744073709551615, 18446744073709551616]", [2**64 - 1, 2**64], id="of 64 bits and more"),
        pytest.param("[1.50, .5, 1e3, 1e400, 1., 99999999999999999999]", [1.5, 0.5, 1000, "1e400", 1, 10**20],
                     id="fractions"),
        pytest.param("[yes, No, on, y, 'yes', ~, null, Null, nULL]",
                     [True, False, True, True, "yes", None, None, None, "nULL"], id="words"),
        pytest.param("[2026-01-01, 2026-13-45, 2026-01-01T00:00:00Z, 1:30, '5', -, +, =, <<]",
                     ["2026-01-01", "2026-13-45", "2026-01-01T00:00:00Z", "1:30", "5", "-", "+", "=", "<<"], id="text"),
        pytest.param("[!!str 5, !!float 3, !!int 5, !!binary aGk=, !own 5, ! 5, !!null '']",
                     ["5", 3, 5, "hi", "5", "5", None], id="tags"),
        pytest.param("{1: a, true: b, 1.5: c, 1000000.0: d, 0.1: e, no: f, 2026-01-01: g}",
                     {"1": "a", "true": "b", "1.5": "c", "1e+06": "d", "0.1": "e", "false": "f", "2026-01-01": "g"},
                     id="keys"),
        pytest.param("---\na: 1\n---\n]", {"a": 1}, id="only the first document"),
        pytest.param("{a: {b: 3, <<: {b: 1, c: 2}}}", {"a": {"b": 1, "c": 2}}, id="a merge that comes later counts"),
        pytest.param("{a: {<<: [{b: 1}, {b: 2, c: 3}]}}", {"a": {"b": 1, "c": 3}}, id="the first of a merge counts"),
        pytest.param("a: &a\nb: *a\n*a : c", None, id="an anchor of nothing"),
    ],
)  # fmt: skip
def test_values(text: str, expected: Any) -> None:
    if expected is None:
        with pytest.raises(YamlError, match="unsupported map key"):
            load_yaml(text)
    else:
        assert repr(load_yaml(text)) == repr(expected)


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        pytest.param("a: 1\nb: 2", [], id="none"),
        pytest.param("a: 1\na: 2", ['line 2: key "a" already set in map'], id="one"),
        pytest.param("a: 1\na:\n  b: 1\n  b: 2",
                     ['line 4: key "b" already set in map', 'line 3: key "a" already set in map'],
                     id="inner ones first, by the lines of their values"),
        pytest.param("1: a\n1: b\ntrue: c\nyes: d\n'1': e", ["line 2: key 1 already set in map",
                     "line 4: key true already set in map"], id="keys that are no text"),
        pytest.param("a: &x {b: 1}\nc:\n  b: 2\n  <<: *x", ['line 4: key "b" already set in map'], id="by a merge"),
    ],
)  # fmt: skip
def test_repeated_keys(text: str, repeated: list[str]) -> None:
    assert read_yaml(text).repeated == repeated
