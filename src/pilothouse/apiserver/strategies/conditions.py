"""What is wrong with conditions, for the kinds whose strategies ask (``metav1.Condition``)."""

import re
from collections.abc import Sequence

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.names import qualified_name_errors, regex_error

_STATUSES = ("False", "True", "Unknown")
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)
_REASON_EXAMPLES = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
_MAX_REASON, _MAX_MESSAGE = 1024, 32768


def condition_problems(conditions: Sequence[Object], path: str) -> list[FieldError]:
    """What ``metav1.Condition`` asks of every condition (apimachinery ``pkg/apis/meta/v1/validation``, v0.36)."""
    problems: list[FieldError] = []
    seen: list[str] = []
    for position, condition in enumerate(conditions):
        here = f"{path}[{position}]"
        type_, reason = condition.get("type") or "", condition.get("reason") or ""
        if type_ in seen:
            problems.append(errors.duplicate(f"{here}.type", type_))
        seen.append(type_)
        problems += [errors.invalid_value(f"{here}.type", type_, text) for text in qualified_name_errors(type_)]
        if condition.get("status") not in _STATUSES:
            problems.append(errors.not_supported(f"{here}.status", condition.get("status") or "", _STATUSES))
        observed = condition.get("observedGeneration") or 0
        if observed < 0:
            problems.append(
                errors.invalid_value(f"{here}.observedGeneration", observed, "must be greater than or equal to zero")
            )
        if not condition.get("lastTransitionTime"):
            problems.append(errors.required(f"{here}.lastTransitionTime"))
        if not reason:
            problems.append(errors.required(f"{here}.reason"))
        elif not re.fullmatch(_REASON, reason):
            told = regex_error(_REASON_TEXT, _REASON, _REASON_EXAMPLES)
            problems.append(errors.invalid_value(f"{here}.reason", reason, told))
        problems += [
            errors.too_long(f"{here}.{field}", limit)
            for field, limit in (("reason", _MAX_REASON), ("message", _MAX_MESSAGE))
            if len((condition.get(field) or "").encode()) > limit
        ]
    return problems
