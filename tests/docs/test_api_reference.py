"""The Python API reference equals the output of ``make reference``."""

from pathlib import Path

import pytest
from scripts.make_api_reference import PACKAGES, page

DOCS = Path(__file__).resolve().parents[2] / "docs" / "reference"


@pytest.mark.parametrize("package", PACKAGES)
def test_page_is_current(package: str) -> None:
    assert (DOCS / f"{package}.md").read_text(encoding="utf-8") == page(package), "run: make reference"


@pytest.mark.parametrize("package", [item for item in PACKAGES if not item.startswith("api.")])
def test_every_public_name_is_documented(package: str) -> None:
    for entry in page(package).split("\n## ")[1:]:
        name, _, rest = entry.partition("\n")
        assert rest.rpartition("```")[2].strip() or rest.count("```") > 2, f"{package}.{name} has no docstring"


def test_constructor_attributes_are_listed() -> None:
    documented = page("operator").partition("## Context\n")[2].partition("```python\ndef ")[0]
    assert "* `object: T` — The synced object" in documented
    assert "* `status: dict[str, Any]` — The status, with its JSON names" in documented
