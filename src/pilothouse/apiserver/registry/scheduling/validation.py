"""Validation shared by PodGroups and Workloads. After kubernetes' ``pkg/apis/scheduling/validation/validation.go``
(v1.36).
"""

from collections.abc import Sequence

from pilothouse.apiserver.field_errors import ErrorList, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE

_POLICIES = ("basic", "gang")


def validate_immutable_spec_field(obj: Object, old: Object, field: str) -> ErrorList:
    """The error has no value, as in upstream's declarative validation."""
    if obj["spec"].get(field) == old["spec"].get(field):
        return []
    return [invalid(f"spec.{field}", None, IMMUTABLE)]


def validate_names(name: str, path: str, msgs: Sequence[str]) -> ErrorList:
    """A required name. ``msgs``: the errors in it, if it is set."""
    if not name:
        return [required(path)]
    return [invalid(path, name, msg) for msg in msgs]


def validate_scheduling_policy(policy: Object, path: str) -> ErrorList:
    policies = [name for name in _POLICIES if policy.get(name) is not None]
    choices = ", ".join(f"`{name}`" for name in _POLICIES)
    errors: ErrorList = []
    if not policies:
        errors.append(invalid(path, "", f"must specify one of: {choices}"))
    elif len(policies) > 1:
        errors.append(invalid(path, f"{{{', '.join(policies)}}}", f"must specify exactly one of: {choices}"))
    if "gang" in policies:
        count = policy["gang"].get("minCount") or 0
        if count == 0:
            errors.append(required(f"{path}.gang.minCount"))
        elif count < 0:
            errors.append(invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1"))
    return errors
