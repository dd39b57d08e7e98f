"""Prose is plain: no filler words."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UPSTREAMS = ("flags.md", "commands.md")
"""Pages with help texts of upstream's."""
PAGES = sorted(page for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")) if page.name not in UPSTREAMS)
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_AVOIDED = re.compile(
    r"\b(simply|obviously|easily|actually|basically|of course|in order to|utiliz\w+|leverag\w+|seamless\w*|blazing\w*|"
    r"powerful|robust|please note|click here)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_prose_is_plain(page: Path) -> None:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    assert [item[0] for item in _AVOIDED.finditer(text)] == []
