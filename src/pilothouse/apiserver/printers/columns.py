"""Printer columns of CustomResourceDefinitions: a subset of JSONPath, typed cells.

The subset is what printer columns use: fields, quoted fields, indexes, ``[*]``, ``..name`` is not supported and filters
compare one field with a literal. Follows apiextensions-apiserver's ``pkg/registry/customresource/tableconvertor``
(v0.36).
"""

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.apiserver.registry.generic.printers import human_duration, parse_instant
from pilothouse.machinery.bounded_cache import bounded_cache

_STEP = re.compile(
    r"\.(?P<field>(?:[^.\[\]\\]|\\.)+)"
    r"|\[(?P<index>-?\d+)\]"
    r"|\[(?P<all>\*)\]"
    r"|\.(?P<star>\*)"
    r"|\[(?P<quote>['\"])(?P<quoted>.*?)(?P=quote)\]"
    r"|\[\?\(@\.(?P<left>[^=!<>\s]+)\s*(?P<operator>==|!=)\s*(?P<right>'[^']*'|\"[^\"]*\"|[^)\s]+)\s*\)\]"
)
Step = tuple[str, Any]


@bounded_cache(1024, max_length=1024)
def parse_path(text: str) -> tuple[Step, ...]:
    """Parse a path such as ``.status.conditions[?(@.type=="Ready")].status``. Raises ``ValueError``."""
    text = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ValueError(f"unrecognized character in path {text!r} at {position}")
        position = match.end()
        if match["field"] == "*" or match["all"] or match["star"]:
            steps.append(("all", None))
        elif match["field"] is not None:
            steps.append(("field", match["field"].replace("\\.", ".")))
        elif match["index"] is not None:
            steps.append(("index", int(match["index"])))
        elif match["quote"]:
            steps.append(("field", match["quoted"]))
        else:
            steps.append(("filter", (match["left"], match["operator"], _literal(match["right"]))))
    return tuple(steps)


def _literal(text: str) -> Any:
    if text[0] in "'\"":
        return text[1:-1]
    try:
        return json.loads(text)
    except ValueError:
        return text


class RowBudget:
    """What the columns of a definition, of which there may be thousands, may cost in one row: values that are visited,
    and characters that are printed. Both grow with the object, so that printing it takes no longer than validating it,
    and a table is not many times as large as its objects."""

    __slots__ = ("characters", "values")

    def __init__(self, size: int) -> None:
        self.values = 2000 + size // 4
        self.characters = 4096 + 4 * size

    @property
    def is_spent(self) -> bool:
        """Whether no more cells are printed. The one that has exceeded the budget is printed."""
        return self.values < 0 or self.characters < 0


def find(value: Any, path: str, budget: RowBudget) -> list[Any]:
    """Every value at the path; none if a part of it is missing, or if there are more than the budget allows."""
    values = [value]
    for kind, argument in parse_path(path):
        budget.values -= len(values)
        if budget.is_spent:
            return []
        values = [inner for outer in values for inner in _step(outer, kind, argument, budget)]
    return values


def _step(value: Any, kind: str, argument: Any, budget: RowBudget) -> Sequence[Any]:
    if kind == "field":
        return [value[argument]] if isinstance(value, Mapping) and argument in value else ()
    if kind == "all":
        inner = list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else ()
        budget.values -= len(inner)
        return inner
    if not isinstance(value, list):
        return ()
    if kind == "index":
        return [value[argument]] if -len(value) <= argument < len(value) else ()
    left, operator, right = argument
    matching = []
    for item in value:
        values = find(item, left, budget)
        if values and (values[0] == right) == (operator == "=="):
            matching.append(item)
    return matching


def cells(value: Any, columns: Sequence[Mapping[str, Any]], now: datetime.datetime, size: int) -> list[Any]:
    """The cells of an object that has so many bytes."""
    budget = RowBudget(size)
    return [cell(value, column.get("jsonPath", ""), column.get("type", "string"), now, budget) for column in columns]


def cell(value: Any, path: str, kind: str, now: datetime.datetime, budget: RowBudget) -> Any:
    """The cell of a column: None without a value, or if the value has another type, and once the budget is spent."""
    if budget.is_spent:
        return None
    values = find(value, path, budget)
    if not values or values[0] is None:
        return None
    first_value = values[0]
    match kind:
        case "integer":
            return (
                int(first_value) if isinstance(first_value, int | float) and not isinstance(first_value, bool) else None
            )
        case "number":
            return first_value if isinstance(first_value, int | float) and not isinstance(first_value, bool) else None
        case "boolean":
            return first_value if isinstance(first_value, bool) else None
        case "date":
            time = parse_instant(first_value)
            return "<invalid>" if time is None else human_duration(now - time)
    text = " ".join(_text(item) for item in values)
    budget.characters -= len(text)
    return text


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
