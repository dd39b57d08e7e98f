"""Table-driven tests as in Go: a mapping from the name of a case to its values."""

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run the test once per row. ``names`` are its parameters (``"spec, expected"``)."""
    return pytest.mark.parametrize(names, list(table.values()), ids=list(table))
