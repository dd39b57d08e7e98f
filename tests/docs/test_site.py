"""The site checks of ``make docs``, and the content of docs/comparison.md from ``bench.comparison``."""

from pathlib import Path

import pytest
from scripts.check_site import errors
from tests.tables import cases

from bench import comparison

ROOT = Path(__file__).resolve().parents[2]
_PAGE = "<html><head><title>t</title>{}</head><body>{}</body></html>"


@cases(
    "head, body, error",
    {
        "a script from another host": ('<script src="https://cdn.example/x.js"></script>', "", "loads https://cdn"),
        "a font": ('<link rel="stylesheet" href="//fonts.example/f.css">', "", "loads //fonts.example"),
        "missing image": ("", '<img src="images/none.png">', "links to images/none.png"),
        "missing page": ("", '<a href="none.html#x">x</a>', "links to none.html"),
    },
)
def test_site_errors(head: str, body: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(_PAGE.format(head, body))
    assert [error in line for line in errors(tmp_path)] == [True]


def test_valid_site(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    text = _PAGE.format('<link rel="canonical" href="https://me.example">', '<a href="https://a.example">a</a>{}')
    (tmp_path / "index.html").write_text(text.format('<a href="sub/#top">b</a>'))
    (tmp_path / "sub" / "index.html").write_text(text.format('<a href="../index.html">c</a><img src="data:,x">'))
    assert list(errors(tmp_path)) == []


def test_an_empty_site(tmp_path: Path) -> None:
    assert list(errors(tmp_path)) == [f"{tmp_path} has no pages"]


def test_comparison_lists_the_questions() -> None:
    text = (ROOT / "docs/comparison.md").read_text("utf-8")
    rows = [
        line.split("|")[0].strip() for line in text.split("## Test servers")[1].split("\n\n* ")[0].split("\n| ")[1:]
    ]
    assert rows[-len(comparison.QUESTIONS) :] == list(comparison.QUESTIONS), "python -m bench.comparison"


@pytest.mark.slow
def test_pilothouse_passes_the_comparison() -> None:
    result = comparison.measured(comparison.pilothouse_up, rounds=1)
    assert [question for question, answer in result.answers.items() if not answer] == []
