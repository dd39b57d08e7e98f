"""Labels and label selectors inside objects, judged with field paths.

After apimachinery's ``pkg/apis/meta/v1/validation/validation.go`` (v0.36).
"""

from collections.abc import Mapping
from functools import lru_cache

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.machinery.names import label_value_errors, qualified_name_errors

MAX_ANNOTATIONS = 256 * 1024
_OPERATORS = ("DoesNotExist", "Exists", "In", "NotIn")


@lru_cache(maxsize=4096)
def _label_errors(key: str, value: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(qualified_name_errors(key)), tuple(label_value_errors(value))


def label_problems_in(labels: Mapping[str, str], path: str) -> list[FieldError]:
    """What is wrong with a map of labels."""
    problems: list[FieldError] = []
    for key, value in labels.items():
        key_errors, value_errors = _label_errors(key, value)
        problems += [errors.invalid_value(path, key, text) for text in key_errors]
        problems += [errors.invalid_value(path, value, text) for text in value_errors]
    return problems


def annotation_problems(annotations: Mapping[str, str], path: str) -> list[FieldError]:
    """What is wrong with a map of annotations."""
    problems: list[FieldError] = []
    size = 0
    for key, value in annotations.items():
        problems += [errors.invalid_value(path, key, text) for text in qualified_name_errors(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > MAX_ANNOTATIONS:
        problems.append(errors.too_long(path, MAX_ANNOTATIONS))
    return problems


def selector_problems(selector: Object, path: str) -> list[FieldError]:
    """What is wrong with a ``LabelSelector``."""
    problems = label_problems_in(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for position, expression in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{position}]"
        operator, values = expression.get("operator"), expression.get("values") or []
        if operator in ("In", "NotIn") and not values:
            problems.append(errors.required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            problems.append(
                errors.not_allowed(
                    f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                )
            )
        elif operator not in _OPERATORS:
            problems.append(errors.invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        problems += [
            errors.invalid_value(f"{where}.key", expression.get("key") or "", text)
            for text in qualified_name_errors(expression.get("key") or "")
        ]
        for index, value in enumerate(values):
            problems += [
                errors.invalid_value(f"{where}.values[{index}]", value, text) for text in label_value_errors(value)
            ]
    return problems
