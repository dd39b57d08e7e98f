"""The documentation keeps up with the code: pages exist, links lead somewhere, commands and flags are real."""

import re
from pathlib import Path

import pytest

from pilothouse.cli import COMMANDS
from pilothouse.controllers.registry import DESCRIPTORS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
_LINK = re.compile(r"\]\(([^)#\s]+)")


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda d: d.name)
def test_every_controller_has_its_page(descriptor: object) -> None:
    factory = descriptor.factory  # type: ignore[attr-defined]  # pytest hands parameters over untyped
    package = factory.partition(":")[0].split(".")[-2]
    page = ROOT / "docs" / "controllers" / f"{package}.md"
    text = page.read_text(encoding="utf-8")
    assert descriptor.name in text, f"{page.name} does not name {descriptor.name}"  # type: ignore[attr-defined]
    assert "differ" in text.lower(), f"{page.name} does not say where it differs from upstream"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target and not target.startswith("mailto:"):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_the_readme_names_every_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert command == "version" or f"pilothouse {command}" in text, f"README.md does not mention {command}"
