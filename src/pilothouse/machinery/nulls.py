"""Values without nulls: what a patch leaves where there is nothing to delete, and what Go makes of a document."""

from typing import Any


def without_nulls(value: Any) -> Any:
    """``value`` without the members of objects that are null, at any depth. Nulls in lists stay. It is not changed."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
