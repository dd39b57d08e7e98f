"""Regular expressions from clients."""

import time

import pytest
from tests.tables import cases

from pilothouse.machinery.patterns import PatternError, compiled


def test_matching_is_linear_in_the_text() -> None:
    began = time.process_time()
    assert compiled(r"^(a+)+$").search("a" * 50_000 + "!") is None
    assert time.process_time() - began < 2


@cases(
    "pattern, text, match",
    {
        "a simple one": (r"^[a-z]+$", "web", True),
        "a class by its POSIX name": (r"[[:digit:]]{2}", "a17", True),
        "letters beyond ASCII": (r"^\pL+$", "Käse", True),
        "\\d matches ASCII digits only": (r"^\d+$", "٣", False),
        "the end of the text": (r"a\z", "b\na", True),
    },
)
def test_syntax_is_gos(pattern: str, text: str, match: bool) -> None:
    assert (compiled(pattern).search(text) is not None) is match


@pytest.mark.parametrize("pattern", [r"(?=a)", r"(a)\1", "(", "a{1001}"])
def test_patterns_rejected_by_go_are_rejected(pattern: str) -> None:
    with pytest.raises(PatternError):
        compiled(pattern)
