"""Removes nulls from documents, as patches and Go's decoder do."""

from typing import Any


def without_nulls(value: Any) -> Any:
    """A copy of ``value`` without members that are null, at any depth. Nulls in lists are kept."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
