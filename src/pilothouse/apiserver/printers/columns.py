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


@bounded_cache(1024, longest=1024)
def parse_path(text: str) -> tuple[Step, ...]:
    """Parse a path such as ``.status.conditions[?(@.type=="Ready")].status``. Raises ``ValueError``."""
    text = text.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = "." + text
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(f"unrecognized character in path {text!r} at {at}")
        at = match.end()
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


def find(value: Any, path: str) -> list[Any]:
    """Every value at the path; none if a part of it is missing."""
    found = [value]
    for kind, argument in parse_path(path):
        found = [inner for outer in found for inner in _step(outer, kind, argument)]
    return found


def _step(value: Any, kind: str, argument: Any) -> Sequence[Any]:
    if kind == "field":
        return [value[argument]] if isinstance(value, Mapping) and argument in value else ()
    if kind == "all":
        return list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    if not isinstance(value, list):
        return ()
    if kind == "index":
        return [value[argument]] if -len(value) <= argument < len(value) else ()
    left, operator, right = argument
    kept = []
    for item in value:
        values = find(item, left)
        if values and (values[0] == right) == (operator == "=="):
            kept.append(item)
    return kept


def cell(value: Any, path: str, kind: str, now: datetime.datetime) -> Any:
    """The cell of a column: None without a value, or if the value has another type."""
    found = find(value, path)
    if not found or found[0] is None:
        return None
    first = found[0]
    match kind:
        case "integer":
            return int(first) if isinstance(first, int | float) and not isinstance(first, bool) else None
        case "number":
            return first if isinstance(first, int | float) and not isinstance(first, bool) else None
        case "boolean":
            return first if isinstance(first, bool) else None
        case "date":
            moment = parse_instant(first)
            return "<invalid>" if moment is None else human_duration(now - moment)
    return " ".join(_text(item) for item in found)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
