"""Every listed case of upstream's tests has a test here, or a reason why it does not apply."""

import importlib
from pathlib import Path

import pytest
from tests.controllers.upstream_coverage import missing

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", sorted(path.parent.name for path in HERE.glob("*/upstream_cases.py")))
def test_every_upstream_case_is_covered(name: str) -> None:
    assert missing(importlib.import_module(f"tests.controllers.{name}.upstream_cases").COVERED, HERE / name) == []
