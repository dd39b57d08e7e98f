"""Tolerations, of pods and of classes of runtimes.

After ``ValidateTolerations`` in kubernetes' ``pkg/apis/core/validation/validation.go`` (v1.36).
"""

from collections.abc import Iterable
from functools import lru_cache

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.names import label_value_errors, qualified_name_errors

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists")
_COMPARING = ("Lt", "Gt")


@lru_cache(maxsize=512)
def _key_errors(key: str) -> tuple[str, ...]:
    # Nearly every pod tolerates the same two taints.
    return tuple(qualified_name_errors(key))


def toleration_problems(tolerations: Iterable[Object], path: str) -> list[FieldError]:
    """What is wrong with tolerations."""
    problems: list[FieldError] = []
    for position, toleration in enumerate(tolerations):
        where = f"{path}[{position}]"
        operator = toleration.get("operator") or "Equal"
        effect = toleration.get("effect") or ""
        key = toleration.get("key")
        if key:
            problems += [errors.invalid_value(f"{where}.key", key, text) for text in _key_errors(key)]
        if not key and operator != "Exists":
            problems.append(
                errors.invalid_value(
                    f"{where}.operator",
                    toleration.get("operator") or "",
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            problems.append(
                errors.invalid_value(
                    f"{where}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
                )
            )
        value = toleration.get("value") or ""
        if operator == "Equal":
            found = label_value_errors(value)
            if found:
                problems.append(errors.invalid_value(f"{where}.operator", value, ";".join(found)))
        elif operator in _COMPARING:
            # Known, and only of use behind a gate (``TaintTolerationComparisonOperators``).
            problems.append(errors.not_supported(f"{where}.operator", operator, (*_OPERATORS, *_COMPARING)))
        elif operator != "Exists":
            problems.append(errors.not_supported(f"{where}.operator", operator, _OPERATORS))
        elif value:
            told = "value must be empty when `operator` is 'Exists'"
            problems.append(errors.invalid_value(f"{where}.operator", value, told))
        if effect and effect not in _TAINT_EFFECTS:
            problems.append(errors.not_supported(f"{where}.effect", effect, _TAINT_EFFECTS))
    return problems
