"""``without_strings``: what of an expression is neither a string nor a comment."""

import time

import pytest

from pilothouse.cel.source_text import without_strings


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a == 'b' && c", "a == '' && c"),
        (r"'\'a' + b", "'' + b"),
        (r'"\\" + a', "'' + a"),
        (r"r'\' + a + r'b'", "'' + a + ''"),
        ("'''a'b''' + c", "'' + c"),
        (r'"""a\""" b""" + c', "'' + c"),
        ("R'''\\''' + c", "'' + c"),
        ("a // it's\n + oldSelf + 'b'", "a ''\n + oldSelf + ''"),
        ("'http://a' + b", "'' + b"),
        ("a + 'b", "a + ''"),
    ],
)
def test_strings_and_comments(source: str, expected: str) -> None:
    assert without_strings(source) == expected


@pytest.mark.parametrize("unit", ['\\"', "\\'", '"""\\', "'''\\", 'r"""', "r'", '"\\\n', "//'"])
@pytest.mark.parametrize("start", ["", "// ", "'", '"""'])
def test_the_time_is_linear(start: str, unit: str) -> None:
    started_at = time.process_time()
    without_strings(start + unit * 50_000)
    assert time.process_time() - started_at < 1.0
