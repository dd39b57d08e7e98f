"""Validation that PodGroups and Workloads share. After kubernetes' ``pkg/apis/scheduling/validation/validation.go``
(v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE

_POLICIES = ("basic", "gang")


def validate_unchanged(obj: Object, old: Object, field: str) -> ErrorList:
    """What changes is not shown: rules that are tags have it so."""
    if obj["spec"].get(field) == old["spec"].get(field):
        return []
    return [invalid(f"spec.{field}", None, IMMUTABLE)]


def validate_names(name: str, path: str, detail: Sequence[str]) -> ErrorList:
    """``told``: the error of a name that is there."""
    if not name:
        return [required(path)]
    return [invalid(path, name, text) for text in detail]


def validate_scheduling_policy(policy: Object, path: str) -> ErrorList:
    given = [name for name in _POLICIES if policy.get(name) is not None]
    choices = ", ".join(f"`{name}`" for name in _POLICIES)
    errors: ErrorList = []
    if not given:
        errors.append(invalid(path, "", f"must specify one of: {choices}"))
    elif len(given) > 1:
        errors.append(invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {choices}"))
    if "gang" in given:
        count = policy["gang"].get("minCount") or 0
        if count == 0:
            errors.append(required(f"{path}.gang.minCount"))
        elif count < 0:
            errors.append(invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1"))
    return errors
