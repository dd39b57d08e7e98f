"""docs/operators.md shows what the example is."""

import re

import pytest
from tests.programs import ROOT

EXAMPLE = (ROOT / "examples" / "backup_operator.py").read_text()
PAGE = (ROOT / "docs" / "operators.md").read_text()


@pytest.mark.parametrize("section", ["### Several versions", "## Webhooks"])
def test_the_code_of_a_section_is_that_of_the_example(section: str) -> None:
    text = PAGE.partition(f"\n{section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        assert block in EXAMPLE
