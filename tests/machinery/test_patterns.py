"""Regular expressions that come with requests."""

import time

import pytest

from pilothouse.machinery.patterns import PatternError, compiled


def test_no_expression_takes_longer_than_its_text_is_long() -> None:
    began = time.process_time()
    assert compiled(r"^(a+)+$").search("a" * 50_000 + "!") is None
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param(r"^[a-z]+$", "web", True, id="a simple one"),
        pytest.param(r"[[:digit:]]{2}", "a17", True, id="a class by its POSIX name"),
        pytest.param(r"^\pL+$", "Käse", True, id="letters beyond ASCII"),
        pytest.param(r"^\d+$", "٣", False, id="digits are ASCII's, as in Go"),
        pytest.param(r"a\z", "b\na", True, id="the end of the text"),
    ],
)
def test_they_are_gos(pattern: str, text: str, found: bool) -> None:
    assert (compiled(pattern).search(text) is not None) is found


@pytest.mark.parametrize("pattern", [r"(?=a)", r"(a)\1", "(", "a{1001}"])
def test_what_go_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        compiled(pattern)
