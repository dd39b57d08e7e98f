"""JSONPath of printer columns, after k8s.io/client-go ``util/jsonpath`` (v0.36), with missing keys allowed.

``parse_path`` parses, ``find`` evaluates. Values are visited within a ``RowBudget``.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from pilothouse.machinery.bounded_cache import bounded_cache


class PathError(ValueError):
    """A path that cannot be parsed, or that does not fit the object."""


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


class Step(msgspec.Struct, frozen=True):
    """One part of a path. ``kind`` determines which other fields are set."""

    kind: Literal["field", "wildcard", "recursive", "slice", "union", "filter", "literal"]
    name: str = ""
    """The name of a field, or the operator of a filter."""
    literal: Any = None
    bounds: tuple[int | None, int | None, int | None] = (None, None, None)
    index: bool = False
    """Whether the bounds are those of one index."""
    paths: tuple[tuple["Step", ...], ...] = ()
    """The paths of a union, or of both sides of a filter."""


Path = tuple[Step, ...]
_FIELD = re.compile(r"((?:\\.|[^\s.,\[\]$@{}\\])*)", re.DOTALL)
_NUMBER = re.compile(r"[+-]?[\d.]*")
_QUOTED = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"", re.DOTALL)
_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?")
_FILTER = re.compile(r"\[\?\(((?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^'\")])*)\)\]", re.DOTALL)
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)", re.DOTALL)
_MAX_DEPTH = 20


@bounded_cache(1024, max_length=1024)
def parse_path(text: str) -> Path:
    """Parse a path such as ``.status.conditions[?(@.type=="Ready")].status``. Raises ``PathError``."""
    return _parse(text.strip().removeprefix("{").removesuffix("}"), 0)


def _parse(text: str, depth: int) -> Path:
    if depth > _MAX_DEPTH:
        raise PathError("the path is nested too deep")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        letter = text[position]
        if text.startswith("[?(", position):
            match = _FILTER.match(text, position)
            if match is None:
                raise PathError("unterminated filter")
            steps.append(_filter(match[1], depth))
            position = match.end()
        elif text.startswith("..", position):
            if steps and steps[-1].kind == "recursive":
                raise PathError("invalid multiple recursive descent")
            steps.append(Step("recursive"))
            position += 2
            if position < len(text) and (text[position] == "_" or text[position].isalnum()):
                position = _append_field(steps, text, position)
        elif letter in " @$":
            position += 1
        elif letter == "[":
            end = text.find("]", position)
            if end < 0:
                raise PathError("unterminated array")
            steps += _array(text[position + 1 : end], depth)
            position = end + 1
        elif letter in "'\"":
            match = _QUOTED.match(text, position)
            if match is None:
                raise PathError("unterminated quoted string")
            value = match[1] if match[1] is not None else match[2]
            steps.append(Step("literal", literal=re.sub(r"\\(.)", r"\1", value)))
            position = match.end()
        elif letter == ".":
            position = _append_field(steps, text, position + 1)
        elif letter in "+-" or letter.isdigit():
            match = _NUMBER.match(text, position)
            assert match is not None, "it begins with a digit or a sign"
            steps.append(Step("literal", literal=_number(match[0])))
            position = match.end()
        elif letter == "_" or letter.isalpha():
            match = _FIELD.match(text, position)
            assert match is not None, "it begins with a letter"
            if match[0] not in ("true", "false"):
                raise PathError(f"unrecognized identifier {match[0]}")
            steps.append(Step("literal", literal=match[0] == "true"))
            position = match.end()
        else:
            raise PathError(f"unrecognized character in action: {letter!r}")
    return tuple(steps)


def _append_field(steps: list[Step], text: str, position: int) -> int:
    match = _FIELD.match(text, position)
    assert match is not None, "a field may be empty"
    name = match[1].replace("\\", "")
    steps.append(Step("wildcard") if name == "*" else Step("field", name))
    return match.end()


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise PathError(f"cannot parse number {text}") from None


def _array(text: str, depth: int) -> Iterable[Step]:
    text = ":" if text == "*" else text
    if "," in text:
        parts = text.split(",")
        return [Step("union", paths=tuple(_parse(f"[{part.strip(' ')}]", depth + 1) for part in parts))]
    if key := _KEY.fullmatch(text):
        return _parse(f".{key[1]}", depth + 1)
    match = _SLICE.fullmatch(text)
    if match is None or not text:
        raise PathError(f"invalid array index {text}")
    first, last, step = (_bound((part or "").removeprefix(":")) for part in match.groups())
    return [Step("slice", bounds=(first, last, step), index=match[2] is None)]


def _bound(text: str) -> int | None:
    try:
        return int(text) if text else None
    except ValueError:
        raise PathError(f"array index {text} is not a number") from None


def _filter(text: str, depth: int) -> Step:
    match = _COMPARISON.fullmatch(text)
    if match is None:
        return Step("filter", "exists", paths=(_parse(text, depth + 1), ()))
    if match[2] not in _OPERATORS:
        raise PathError(f"unrecognized filter operator {match[2]}")
    return Step("filter", match[2], paths=(_parse(match[1], depth + 1), _parse(match[3], depth + 1)))


def find(value: Any, path: str, budget: RowBudget) -> list[Any]:
    """Every value at the path; none if a part of it is missing, or if there are more than the budget allows. Raises
    ``PathError``."""
    return _walk([value], parse_path(path), budget)


def _walk(values: list[Any], path: Path, budget: RowBudget) -> list[Any]:
    for step in path:
        budget.values -= len(values)
        if budget.is_spent:
            return []
        values = _EVALUATED[step.kind](values, step, budget)
    return values


def _fields(values: list[Any], step: Step, _budget: RowBudget) -> list[Any]:
    return [value[step.name] for value in values if isinstance(value, Mapping) and step.name in value]


def _inner(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [value[name] for name in sorted(value)]
    return value if isinstance(value, list) else []


def _all(values: list[Any], _step: Step, budget: RowBudget) -> list[Any]:
    values_matched: list[Any] = []
    for value in values:
        values_matched += _inner(value)
    budget.values -= len(values_matched)
    return values_matched


def _recursive(values: list[Any], _step: Step, budget: RowBudget) -> list[Any]:
    values_matched: list[Any] = []
    stack = list(reversed(values))
    while stack and not budget.is_spent:
        value = stack.pop()
        inner = _inner(value)
        budget.values -= 1 + len(inner)
        if inner:
            values_matched.append(value)
            stack += reversed(inner)
    return values_matched


def _slice(values: list[Any], step: Step, budget: RowBudget) -> list[Any]:
    values_matched: list[Any] = []
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise PathError("it is not array or slice")
        first, last, stride = step.bounds
        first = 0 if first is None else first
        last = first + 1 if step.index else len(value) if last is None else last
        first = first + len(value) if first < 0 else first
        if last < 0 or (last == 0 and step.index):
            last += len(value)
        if first == last:
            return values_matched
        if not (0 <= first < len(value) and 0 <= last <= len(value) and first <= last):
            raise PathError("array index out of bounds")
        if stride is not None and stride <= 0:
            raise PathError("step must be > 0")
        values_matched += value[first : last : stride or 1]
    budget.values -= len(values_matched)
    return values_matched


def _union(values: list[Any], step: Step, budget: RowBudget) -> list[Any]:
    return [found for path in step.paths for found in _walk(values, path, budget)]


def _filtered(values: list[Any], step: Step, budget: RowBudget) -> list[Any]:
    left_path, right_path = step.paths
    values_matched: list[Any] = []
    for value in values:
        if not isinstance(value, list):
            raise PathError("it is not array or slice and cannot be filtered")
        for item in value:
            if step.name == "exists":
                if _exists(item, left_path, budget):
                    values_matched.append(item)
                continue
            sides = [_walk([item], path, budget) for path in (left_path, right_path)]
            if not all(sides):
                continue
            if any(len(side) > 1 for side in sides):
                raise PathError("can only compare one element at a time")
            if _compare(step.name, sides[0][0], sides[1][0]):
                values_matched.append(item)
    return values_matched


def _exists(item: Any, path: Path, budget: RowBudget) -> bool:
    try:
        return bool(_walk([item], path, budget))
    except PathError:
        return True  # upstream returns the input of the failed step


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compare(name: str, left: Any, right: Any) -> bool:
    if type(left) is not type(right) or not isinstance(left, bool | int | float | str):
        raise PathError("incompatible types for comparison")
    if isinstance(left, bool) and name not in ("==", "!="):
        raise PathError("invalid type for comparison")
    return bool(_OPERATORS[name](left, right))


_EVALUATED: dict[str, Callable[[list[Any], Step, RowBudget], list[Any]]] = {
    "field": _fields,
    "wildcard": _all,
    "recursive": _recursive,
    "slice": _slice,
    "union": _union,
    "filter": _filtered,
    "literal": lambda _values, step, _budget: [step.literal],
}
