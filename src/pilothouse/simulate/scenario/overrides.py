"""Overrides values of a scenario from the command line: ``manager.flags.node-monitor-grace-period`` is ``20s``.

A path starts in ``spec``; elements of lists are selected by index or by their field ``name``. ``objects.NAME.…``
selects the objects with that name, whatever file they are from.
"""

import copy
import itertools
import re
from collections.abc import Sequence
from typing import Any

from pilothouse.machinery.flags import closest
from pilothouse.simulate.scenario import positions
from pilothouse.simulate.scenario.positions import Positions

_ASSIGNMENT = re.compile(r"((?:\[\"[^\"]*\"\]|[^=\[]|\[)+?)=(.*)", re.DOTALL)
MAX_VALUES = 1000
_LISTED = 20
_STEP = re.compile(r"\.?(?:([^.\[\]]+)|\[(\d+)\]|\[\"([^\"]*)\"\])")
OBJECTS = "objects"


def steps_of(path: str) -> list[str | int]:
    """Parse a path such as ``a.b[2].c`` or ``a["b.c"]``. Raises ``ValueError``."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None:
            raise ValueError(f'"{path[:200]}" is not a path: expected FIELD.FIELD[0]["a.key"]')
        steps.append(int(match[2]) if match[2] else match[1] or match[3])
        at = match.end()
    if steps[:1] == ["spec"]:
        steps.pop(0)
    if not steps:
        raise ValueError("a path has at least one field")
    return steps


def parse_setting(text: str) -> tuple[str, Any]:
    """Parse ``PATH=VALUE``; the value is YAML. Raises ``ValueError``."""
    path, value = _split_assignment(text)
    return path, _yaml(value, text)


def parse_variation(text: str) -> tuple[str, list[Any]]:
    """Parse ``PATH=VALUE,VALUE``; each value is YAML. Raises ``ValueError``."""
    path, value = _split_assignment(text)
    return path, _yaml(f"[{value}]", text)


def _split_assignment(text: str) -> tuple[str, str]:
    match = _ASSIGNMENT.fullmatch(text)
    if match is None:
        raise ValueError(f'expected PATH=VALUE such as manager.flags.node-monitor-grace-period=20s, got "{text[:200]}"')
    steps_of(match[1])
    return match[1], match[2]


def _yaml(text: str, whole: str) -> Any:
    try:
        documents = [document for document, _line in positions.documents_of(text, MAX_VALUES)]
    except positions.PositionedError as error:
        raise ValueError(f'the value of "{whole[:200]}" is not YAML: {error}') from None
    if len(documents) > 1:
        raise ValueError(f'the value of "{whole[:200]}" has several documents')
    return documents[0] if documents else None


def changed(
    document: dict[str, Any], path: str, value: Any, where: Positions
) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """A copy of the document with a value set, and the settings of objects, which are applied after the objects are
    loaded. Raises ``ValueError``."""
    steps = steps_of(path)
    if steps[0] == OBJECTS and len(steps) > 1 and isinstance(steps[1], str):
        return document, [(path, value)]
    # Only containers on the path are copied, so all other parts keep their lines.
    result = _copied(document, where)
    spec = result["spec"] = _copied(result.get("spec") or {}, where)
    _set(spec, steps, value, path, where)
    return result, []


def changed_objects(objects: list[dict[str, Any]], path: str, value: Any) -> list[dict[str, Any]]:
    """A copy of the objects, with a value set in those with a name: ``objects.NAME.…``, or ``objects["KIND/NAME"].…``
    if several kinds have an object of that name. Raises ``ValueError``."""
    _objects, name, *steps = steps_of(path)
    kind, _slash, own = str(name).rpartition("/")
    kinds = list(dict.fromkeys(obj["kind"] for obj in objects if obj["metadata"].get("name") == own))
    if not kind and len(kinds) > 1:
        rest = path.partition(own)[2]
        ways = " or ".join(f'objects["{other_kind}/{own}"]{rest}' for other_kind in kinds)
        raise ValueError(f'"{path}" is ambiguous: {" and ".join(kinds)} are called {own}; write {ways}')
    result, matched = [], False
    for obj in objects:
        if obj["metadata"].get("name") == own and kind.lower() in ("", obj["kind"].lower()):
            matched = True
            _check_parent(obj, steps, str(name), path)
            result.append(copy.copy(obj))
            _set(result[-1], steps, value, path)
        else:
            result.append(obj)
    if not matched:
        near = closest(own, [str(obj["metadata"].get("name", "")) for obj in objects])
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(f'"{path}": no object of the scenario is called {name}{hint}')
    return result


_PARENTS: tuple[tuple[str, ...], ...] = (
    ("spec",),
    ("spec", "template", "spec"),
    ("spec", "jobTemplate", "spec", "template", "spec"),
)


def _check_parent(parent_value: dict[str, Any], steps: list[str | int], name: str, path: str) -> None:
    """Raises ``ValueError`` for a path that the object does not have, if the same path exists within its ``spec`` or
    pod template. (Fields of the pod spec may also be fields of the workload, such as a Job's activeDeadlineSeconds.)"""
    if not steps or _has(parent_value, steps[:1]):
        own = steps[1:] if steps[:1] == ["spec"] else []
        if len(own) < 2 or _has(parent_value, steps[:2]):
            return
    else:
        own = steps
    for parent in _PARENTS:
        if _has(parent_value, [*parent, *own]):
            field_path = _text_of([*parent, *own])
            selected = f'{OBJECTS}["{name}"]' if "/" in name else f"{OBJECTS}.{name}"
            raise ValueError(
                f'"{path}": {parent_value["kind"]} {name} has no such field; did you mean {selected}{field_path}?'
            )


def _text_of(steps: Sequence[str | int]) -> str:
    """``.a.b[2]["c.d"]``."""
    return "".join(
        f"[{step}]" if isinstance(step, int) else f'["{step}"]' if re.search(r"[.\[\]]", step) else f".{step}"
        for step in steps
    )


def _has(value: Any, steps: Sequence[str | int]) -> bool:
    for step in steps:
        try:
            value = value[_index(value, step, "")]
        except (KeyError, IndexError, TypeError, ValueError):
            return False
    return True


def _copied(container: Any, where: Positions | None) -> Any:
    copied = copy.copy(container)
    if where is not None and isinstance(container, dict | list):
        where.copied(container, copied)
    return copied


def _set(value: Any, steps: list[str | int], new: Any, path: str, where: Positions | None = None) -> None:
    """Set a value in a container that is already a copy; further containers on the path are copied."""
    for step, following in itertools.pairwise(steps):
        child = _copied(_child(value, step, {} if isinstance(following, str) else None, path, where), where)
        value[_index(value, step, path)] = child
        value = child
    last = _index(value, steps[-1], path)
    if not isinstance(value, dict | list):
        raise ValueError(f'"{path}": {last} is a field, but its parent is neither a mapping nor a list')  # noqa: TRY004
    value[last] = new
    if where is not None:
        where.add_setting(value, last)


def _child(value: Any, step: str | int, default: Any, path: str, where: Positions | None = None) -> Any:
    step = _index(value, step, path)
    if isinstance(value, list):
        return value[int(step)]
    if not isinstance(value, dict):
        raise ValueError(f'"{path}": {step} is a field, but its parent is neither a mapping nor a list')  # noqa: TRY004
    if value.get(step) is None:
        if default is None:
            raise ValueError(f'"{path}": there is no {step}')
        value[step] = default
        if where is not None:
            where.add_setting(value, step)
    return value[step]


def _index(value: Any, step: str | int, path: str) -> Any:
    """The key of a step: for lists the index, also of the element with that name."""
    if isinstance(value, list) and isinstance(step, str):
        for index, item in enumerate(value):
            if isinstance(item, dict) and item.get("name") == step:
                return index
        names = [str(item["name"]) for item in value if isinstance(item, dict) and "name" in item]
        near = closest(step, names)
        hint = f"; did you mean {near}?" if near else f"; there are {', '.join(names[:_LISTED])}" if names else ""
        raise ValueError(f'"{path}": there is no {step}{hint}')
    if isinstance(step, int) and not (isinstance(value, list) and step < len(value)):
        raise ValueError(f'"{path}": there is no [{step}]')
    return step
