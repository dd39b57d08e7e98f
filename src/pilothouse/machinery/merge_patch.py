"""JSON merge patch (RFC 7396), as the API server applies it: ``null`` deletes, objects are merged, other values
replaced."""

from typing import Any

from pilothouse.machinery.nulls import without_nulls


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Merge ``patch`` into ``document``. Neither is changed; the result shares unchanged parts with both.

    It differs from the RFC as upstream does (evanphx/json-patch v4, ``merge.go``): where a new value is added as a
    whole, members that are null are removed also inside of arrays.
    """
    if not isinstance(patch, dict):
        return patch
    if not isinstance(document, dict):
        return without_nulls(patch)
    result = dict(document)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
            continue
        current = result.get(name)
        if not isinstance(current, dict):
            result[name] = without_nulls(value)
        elif isinstance(value, dict):
            result[name] = apply_merge_patch(current, value)
        else:
            result[name] = value
    return result
