"""Tables of cases as upstream writes them: the key of a row is the name of the case."""

from collections.abc import Mapping
from typing import Any

import pytest


def cases(names: str, table: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test once per row; ``names`` are those of its parameters (``"spec, expected"``)."""
    return pytest.mark.parametrize(names, list(table.values()), ids=list(table))
