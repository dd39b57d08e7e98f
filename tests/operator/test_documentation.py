"""The code of docs/operators.md runs, in its order, and equals the code of the examples."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.programs import ROOT

from pilothouse.operator.models import models
from pilothouse.testing import plane

EXAMPLE = (ROOT / "examples" / "backup_operator.py").read_text()
WEBSITES = (ROOT / "examples" / "website_operator.py").read_text()
PAGE = (ROOT / "docs" / "operators.md").read_text()
SECTION = re.compile(r"^##+ (.*)$", re.MULTILINE)
SECTIONS_FROM_EXAMPLES = ("Several versions", "Webhooks")
PREPARED = {
    "Views of existing custom resources": "app = App('website-operator')",
    "Running and deploying": "async def request(path): return 200",
}
"""Implied imports and definitions before the code of a section."""


def sections() -> Iterator[tuple[str, list[str]]]:
    """Every section with code, by its heading."""
    parts = SECTION.split(PAGE)[1:]
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        if result := re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            yield heading, result


@pytest.mark.parametrize("section", SECTIONS_FROM_EXAMPLES)
def test_the_code_of_a_section_is_that_of_the_example(section: str) -> None:
    blocks = dict(sections())[section]
    for block in blocks:
        assert block in EXAMPLE


def certificates() -> ModuleType:
    """The output of ``generate models`` for a definition like cert-manager's."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"secretName": {"type": "string"}}}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Certificate", "plural": "certificates"}
    spec = {"group": "cert-manager.io", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": "certificates.cert-manager.io"}
    source = models([{"kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}])
    module = ModuleType("certificates")
    exec(source, vars(module))
    return module


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "certificates", certificates())
    names: dict[str, Any] = {}
    exec(WEBSITES, names)
    example = dict(names)
    assert PREPARED.keys() <= dict(sections()).keys(), "a heading has changed"
    for heading, blocks in sections():
        if heading not in SECTIONS_FROM_EXAMPLES:
            exec(PREPARED.get(heading, ""), names)
            for block in blocks:
                exec(compile(block, f"docs/operators.md, {heading}", "exec"), names)
    # The test that the page shows is run with the example itself: the controllers of the page have no bodies.
    example["is_ready"] = lambda site: bool(site and site.get("status", {}).get("conditions"))
    exec(dict(sections())["Testing"][0], example)
    (tmp_path / "site.yaml").write_text(
        "{apiVersion: example.com/v1, kind: Website, metadata: {name: home}, spec: {html: Hello}}", encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    with plane() as cluster:
        example["test_a_website_is_served"](cluster)
