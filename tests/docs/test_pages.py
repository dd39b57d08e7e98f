"""The documentation matches the code: pages exist, links resolve, commands and flags exist."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from pilothouse.cli.commands import COMMANDS
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.runtime.descriptor import Descriptor

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"\]\(([^)#\s]+)")
_ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda d: d.name)
def test_every_controller_has_a_page(descriptor: Descriptor) -> None:
    page = ROOT / "docs" / "controllers" / f"{descriptor.package.rpartition('.')[2]}.md"
    text = page.read_text(encoding="utf-8")
    assert descriptor.name in text, f"{page.name} does not name {descriptor.name}"
    assert "differ" in text.lower(), f"{page.name} does not say where it differs from upstream"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_resolve(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub generates them."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_headings_resolve(page: Path) -> None:
    for target, anchor in _ANCHOR.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            linked = page.parent / target if target else page
            assert anchor in anchors(linked), f"{page.relative_to(ROOT)} links to {target}#{anchor}"


def test_reference_lists_every_command() -> None:
    text = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"pilothouse {command}" in text, f"the reference of commands does not mention {command}"


def test_every_extra_is_documented() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    texts = [page.read_text(encoding="utf-8") for page in ROOT.glob("docs/*.md")]
    for extra in extras:
        assert any(f"pilothouse[{extra}]" in text for text in texts), f"no page names pilothouse[{extra}]"


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def linked(page: Path) -> set[Path]:
    """The pages that a page links to."""
    result = {(page.parent / target).resolve() for target in _LINK.findall(page.read_text(encoding="utf-8"))}
    return {path for path in result if path.suffix == ".md" and path.is_file()}


def test_every_page_is_within_three_clicks_of_the_landing_page() -> None:
    reached_pages = reached = {ROOT / "docs/README.md"}
    for _click in range(3):
        reached = {page for item in reached for page in linked(item)} - reached_pages
        reached_pages = reached_pages | reached
    assert [str(page.relative_to(ROOT)) for page in PAGES if page not in reached_pages] == [], (
        "docs/README.md leads to none of them"
    )


def named_pages(entries: object) -> list[str]:
    """The pages in the navigation of the site."""
    match entries:
        case str():
            return [entries]
        case dict():
            return [page for value in entries.values() for page in named_pages(value)]
        case list():
            return [page for item in entries for page in named_pages(item)]
    raise AssertionError(f"{entries!r} is no entry of a navigation")


def test_every_page_is_in_the_navigation_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = named_pages(site["nav"])
    every = {page.relative_to(ROOT / "docs").as_posix() for page in PAGES if page.is_relative_to(ROOT / "docs")}
    folders = tuple(page.removesuffix("*") for page in named if page.endswith("/*"))
    missing = {page for page in every - set(named) if not page.startswith(folders)}
    assert missing == set(), "name them in mkdocs.yml, in the nav"
    assert sorted(set(named)) == sorted(named), "a page is named twice"
