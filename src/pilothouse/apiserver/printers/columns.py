"""Cells of the printer columns of CustomResourceDefinitions, after apiextensions-apiserver's
``pkg/registry/customresource/tableconvertor`` (v0.36)."""

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.apiserver.printers.json_paths import PathError, RowBudget, find
from pilothouse.apiserver.registry.generic.printers import UNKNOWN, human_duration
from pilothouse.machinery.go_text import html_escaped
from pilothouse.machinery.times import TimeError, parse_time


def cells(value: Any, columns: Sequence[Mapping[str, Any]], now: datetime.datetime, size: int) -> list[Any]:
    """The cells of an object of this size in bytes."""
    budget = RowBudget(size)
    return [cell(value, column.get("jsonPath", ""), column.get("type", "string"), now, budget) for column in columns]


def cell(value: Any, path: str, kind: str, now: datetime.datetime, budget: RowBudget) -> Any:
    """The cell of a column: None without a value, or if the value has another type, and once the budget is spent."""
    if budget.is_spent:
        return None
    try:
        values = find(value, path, budget)
    except PathError:
        return None
    if not values:
        return None
    # Only the first of several values is shown.
    first_value = values[0]
    if first_value is None:
        return "<no value>" if kind == "string" else None
    match kind:
        case "integer":
            return _as_int64(first_value) if _is_number(first_value) else None
        case "number":
            return first_value if _is_number(first_value) else None
        case "boolean":
            return first_value if isinstance(first_value, bool) else None
        case "date":
            if not isinstance(first_value, str):
                return None
            if first_value in ("", "null"):
                return UNKNOWN
            try:
                return human_duration(now - parse_time(first_value))
            except TimeError:
                return "<invalid>"
    text = _text(first_value)
    budget.characters -= len(text)
    return text


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_int64(value: float) -> int:
    number = int(value)
    return number if -(1 << 63) <= number < 1 << 63 else -(1 << 63)  # as Go on amd64


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return html_escaped(json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True))
