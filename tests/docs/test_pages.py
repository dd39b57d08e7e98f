"""The documentation keeps up with the code: pages exist, links lead somewhere, commands and flags are real."""

import re
from pathlib import Path

import pytest

from pilothouse.cli.commands import COMMANDS
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.runtime.descriptor import Descriptor

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"\]\(([^)#\s]+)")
_ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda d: d.name)
def test_every_controller_has_its_page(descriptor: Descriptor) -> None:
    page = ROOT / "docs" / "controllers" / f"{descriptor.package.rpartition('.')[2]}.md"
    text = page.read_text(encoding="utf-8")
    assert descriptor.name in text, f"{page.name} does not name {descriptor.name}"
    assert "differ" in text.lower(), f"{page.name} does not say where it differs from upstream"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page end in, as GitHub makes them."""
    headings = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_headings_lead_to_one(page: Path) -> None:
    for target, anchor in _ANCHOR.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            linked = page.parent / target if target else page
            assert anchor in anchors(linked), f"{page.relative_to(ROOT)} links to {target}#{anchor}"


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert command == "version" or f"pilothouse {command}" in text, f"README.md does not mention {command}"
