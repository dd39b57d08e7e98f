"""YAML within limits: bombs, depths and circles are refused before anything is built."""

import time
import tracemalloc
from typing import Any

import pytest

from pilothouse.machinery.yaml_text import YamlError, load_yaml


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
        pytest.param("a: &a [*a]", "yaml: anchor value contains itself", id="a list in itself"),
        pytest.param("a: &a {b: {c: *a}}", "yaml: anchor value contains itself", id="a map in itself"),
        pytest.param("a: " + "[" * 100_000, "yaml: exceeded max depth of 300", id="without end"),
        pytest.param("a: " + "[" * 50_000 + "]" * 50_000, "yaml: exceeded max depth of 300", id="deep"),
        pytest.param(
            "\n".join(" " * i + "a:" for i in range(2000)), "yaml: exceeded max depth of 300", id="deep lines"
        ),
        pytest.param("a: [\nb", "yaml: line 3: ", id="no YAML"),
        pytest.param("a: 2026-13-45", "yaml: ", id="a date that is none"),
    ],
)
def test_what_goes_too_far_is_refused_soon_and_cheaply(text: str, said: str) -> None:
    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(YamlError) as caught:
        load_yaml(text)
    assert str(caught.value).startswith(said)
    assert time.process_time() - began < 5
    assert tracemalloc.get_traced_memory()[1] < 100_000_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", None, id="nothing"),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="an alias"),
        pytest.param("base: &b {x: 1}\nd:\n  <<: *b\n  y: 2", {"base": {"x": 1}, "d": {"x": 1, "y": 2}}, id="a merge"),
        pytest.param(laughs(3), None, id="a few laughs"),
    ],
)
def test_what_people_write_is_read(text: str, expected: Any) -> None:
    loaded = load_yaml(text)
    if text.startswith("a0"):
        assert len(loaded["a2"]) == 9
    else:
        assert loaded == expected
