"""Reports of simulations in a real browser: they load nothing, satisfy their policy, and are accessible."""

import time
from pathlib import Path

import msgspec
import pytest
from tests.simulate.report.recordings import HOSTILE, small
from tests.ui.browser import Browser, Tab
from tests.ui.test_chromium import violations

from pilothouse.simulate.report import comparison_html, html, svg

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chromium")]


def _opened(browser: Browser, path: Path, text: str) -> Tab:
    path.write_text(text, encoding="utf-8")
    tab = browser.open()
    tab.size(1280, 900)
    tab.go(path.as_uri())
    tab.wait("document.readyState === 'complete' && location.protocol === 'file:'")
    return tab


@pytest.mark.parametrize("text", ["web", HOSTILE], ids=["plain", "hostile"])
def test_a_report_in_a_browser(browser: Browser, axe: str, tmp_path: Path, text: str) -> None:
    tab = _opened(browser, tmp_path / "report.html", html(small(text, text)))
    tab.find("h1")
    assert tab.run("document.querySelectorAll('svg[data-begin] .band').length") >= 2
    tab.call("Runtime.evaluate", expression=axe)
    for scheme in ("light", "dark"):
        tab.prefer(prefers_color_scheme=scheme)
        assert violations(tab) == []
    assert (tab.errors, tab.requested, tab.run("window.pwned")) == ([], [(tmp_path / "report.html").as_uri()], None)
    tab.close()


def test_a_comparison_in_a_browser(browser: Browser, axe: str, tmp_path: Path) -> None:
    runs = [msgspec.structs.replace(small(), variant=f"surge={n % 2}", seed=n) for n in range(4)]
    tab = _opened(browser, tmp_path / "report.html", comparison_html(runs, runs=4))
    tab.find("h1")
    tab.call("Runtime.evaluate", expression=axe)
    for scheme in ("light", "dark"):
        tab.prefer(prefers_color_scheme=scheme)
        assert violations(tab) == []
    assert tab.errors == []
    tab.close()


def test_the_pointer_shows_the_time_in_all_pictures(browser: Browser, tmp_path: Path) -> None:
    tab = _opened(browser, tmp_path / "report.html", html(small()))
    tab.run("document.querySelector('#workloads svg').scrollIntoView({block: 'center', behavior: 'instant'})")
    time.sleep(0.1)
    box = tab.run(
        "(({x, y, width, height}) => [x, y, width, height])"
        "(document.querySelector('#workloads svg').getBoundingClientRect())"
    )
    begin, end = tab.run("(({begin, end}) => [+begin, +end])(document.querySelector('#workloads svg').dataset)")
    # The plot is from 236 to 1036 of 1122 units that begin at -1.
    place = 236 + 800 * (60.2 - begin) / (end - begin)
    at = box[0] + box[2] * (place + 1) / 1122
    tab.call("Input.dispatchMouseEvent", type="mouseMoved", x=at, y=box[1] + box[3] / 2)
    tab.find(".time", "1m0s")
    places = tab.run("[...document.querySelectorAll('.cursor')].map((line) => Math.round(line.getAttribute('x1')))")
    assert len(places) > 3
    assert {*places} == {round(place)}
    tab.close()


def test_a_plot_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    tab = _opened(browser, tmp_path / "plot.svg", svg(small(HOSTILE, HOSTILE)))
    colours = []
    for scheme in ("light", "dark"):
        tab.prefer(prefers_color_scheme=scheme)
        colours.append(tab.run("getComputedStyle(document.querySelector('.page')).fill"))
    assert colours == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
    assert (tab.errors, tab.requested, tab.run("window.pwned")) == ([], [(tmp_path / "plot.svg").as_uri()], None)
    tab.close()
