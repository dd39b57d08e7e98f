"""The files are whole, safe and bounded, whatever is recorded."""

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import pytest
from tests.simulate.report.recordings import HOSTILE, huge, small
from tests.tables import cases

from pilothouse.simulate.recording import ACTION, Mark, Recording
from pilothouse.simulate.report import html, svg
from pilothouse.simulate.report.markup import Markup, element
from pilothouse.simulate.result import BudgetResult

_ALLOWED = {
    *("meta", "title", "style", "script", "html", "head", "body", "main", "header", "footer", "section", "figure"),
    *(
        "svg",
        "defs",
        "pattern",
        "path",
        "rect",
        "circle",
        "g",
        "text",
        "figcaption",
        "div",
        "p",
        "h1",
        "h2",
        "h3",
        "h4",
    ),
    *("pre", "dl", "dt", "dd", "code", "span", "table", "caption", "thead", "tbody", "tr", "th", "td"),
}
_EMPTY = {"meta", "path", "line", "rect", "circle", "br", "use"}
_CLEAN = "</title></style><script>window.pwned=1</script><img src=//example.com/x onerror=window.pwned=1>��\"'&"


class _Page(HTMLParser):
    """Elements with their attributes, and texts; asserts that every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _EMPTY:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in _EMPTY:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(text: str) -> _Page:
    """What a page has. Asserts that it is whole."""
    return _Page(text)


@cases(
    "value, expected",
    {
        "content is escaped": (element("text", "a<b>&"), "<text>a&lt;b&gt;&amp;</text>"),
        "attributes are escaped": (element("g", title='"><script>'), '<g title="&quot;&gt;&lt;script&gt;"></g>'),
        "markup is not": (element("g", Markup("<a/>")), "<g><a/></g>"),
        "names of attributes": (element("th", class_="n", data_x="y", id=None), '<th class="n" data-x="y"></th>'),
        "numbers are short": (element("path", x=1 / 3), '<path x="0.333333"/>'),
        "characters that XML lacks": (element("text", "a\x00b\x1bc\ud800"), "<text>a\ufffdb\ufffdc\ufffd</text>"),
        "bidirectional control characters": (element("text", "a\u202eb"), "<text>a\ufffdb</text>"),
    },
)  # fmt: skip
def test_markup(value: Markup, expected: str) -> None:
    assert value.text == expected


@pytest.mark.parametrize("text", ["web", HOSTILE], ids=["plain", "hostile"])
def test_a_plot_is_xml_that_loads_nothing(text: str) -> None:
    root = ElementTree.fromstring(svg(small(text, text)))  # our own
    names = {node.tag.rpartition("}")[2] for node in root.iter()}
    assert names == {"svg", "title", "style", "defs", "pattern", "path", "rect", "circle", "g", "text"}
    assert not [name for node in root.iter() for name in node.attrib if name.endswith("href") or name.startswith("on")]


def test_names_and_messages_are_escaped() -> None:
    page = _Page(html(small(HOSTILE, HOSTILE)))
    assert {name for name, _attributes in page.elements} <= _ALLOWED
    assert sum(name == "script" for name, _attributes in page.elements) == 1
    for _name, attributes in page.elements:
        assert not [
            attribute for attribute in attributes if attribute in ("src", "href", "style") or attribute.startswith("on")
        ]
    assert any(_CLEAN in text for text in page.texts)


def test_a_report_loads_nothing() -> None:
    text = html(small(), replay="pilothouse simulate a.yaml --seeds 7")
    assert re.search(r"@import|url\((?!#)|https?:", text.replace("http://www.w3.org/2000/svg", "")) is None
    (policy,) = [
        str(a["content"]) for _n, a in _Page(text).elements if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


@cases(
    "budget, expected",
    {
        "held": (BudgetResult(name="restarts", measured=0, limit=3, held=True), ["restarts", "0", "3", "✓ held", "–"]),
        "exceeded": (
            BudgetResult(name="maxUnavailable deployment/web", measured=3, limit=1, held=False, at=60.0),
            ["maxUnavailable deployment/web", "3", "1", "✗ exceeded", "1m"],
        ),
        "a time": (
            BudgetResult(name="timeToReady p99", measured=61.5, limit=30.0, held=False),
            ["timeToReady p99", "1m2s", "30s", "✗ exceeded", "–"],
        ),
    },
)
def test_budgets(budget: BudgetResult, expected: list[str]) -> None:
    texts = _Page(html(small(), budgets=[budget])).texts
    start = texts.index("Budgets") + 6
    assert texts[start : start + 5] == expected


def test_a_report_has_all_tables() -> None:
    text = " ".join(_Page(html(small(), replay="pilothouse simulate a.yaml --seeds 7")).texts)
    for expected in (
        "✗ Failed",
        "Why it failed At 50s always web Causes of the write └─ web",
        "1 10s fault node web silent 2 40s action set image web 3 50s violation always web",
        "deployment/web in web 3 6 3 1 15s 3.5s 9s 12s 12s 0 0 0",
        "deployment/web in web revision 2: web:2 40s 25s 2 4",
        "Writes: 21 Client Resource Created Modified Deleted All web pods 6 12 3 21",
        "⚠ web pod/web and 1 more web 4 −9s 50s",
        "pilothouse simulate a.yaml --seeds 7",
    ):
        assert expected in text, expected


def test_a_passed_run_is_reported_as_passed() -> None:
    text = html(Recording(name="calm", seconds=5.0))
    assert "✓ Passed" in text
    assert "Failed" not in text
    ElementTree.fromstring(svg(Recording()))  # our own


def test_a_long_quiet_time_at_the_end_is_cut_off() -> None:
    recording = Recording(seconds=3600.0, marks=[Mark(at=100.0, kind=ACTION, text="scale")])
    drawn = html(recording)
    assert "Quiet after" in drawn
    assert "1h" in drawn
    busy = Recording(seconds=3600.0, marks=[Mark(at=3500.0, kind=ACTION, text="scale")])
    assert "Quiet after" not in html(busy)


def test_the_largest_recording_gives_small_files() -> None:
    largest = huge()
    assert len(svg(largest).encode()) < 4_000_000
    assert len(html(largest).encode()) < 8_000_000
