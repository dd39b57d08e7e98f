"""Values of a scenario changed from outside: ``manager.flags.node-monitor-grace-period`` is ``20s``.

A path begins in ``spec``; ``objects.NAME.…`` is about the objects of that name, wherever they come from.
"""

import copy
import itertools
import re
from typing import Any

_STEP = re.compile(r"\.?(?:([^.\[\]]+)|\[(\d+)\]|\[\"([^\"]*)\"\])")
OBJECTS = "objects"
_WORKLOADS = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob")


def steps_of(path: str) -> list[str | int]:
    """The steps of ``a.b[2].c`` and ``a["b.c"]``. Raises ``ValueError``."""
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(f'"{path[:200]}" is no path: expected FIELD.FIELD[0]["a.key"]')
        steps.append(int(found[2]) if found[2] else found[1] or found[3])
        at = found.end()
    if steps[:1] == ["spec"]:
        steps.pop(0)
    if not steps:
        raise ValueError("a path has at least one field")
    return steps


def changed(document: dict[str, Any], path: str, value: Any) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """The document with a value set, and what is about objects, which the document may only name. Raises
    ``ValueError``."""
    steps = steps_of(path)
    if steps[0] == OBJECTS and len(steps) > 1 and isinstance(steps[1], str):
        return document, [(path, value)]
    result = copy.deepcopy(document)
    _set(result.setdefault("spec", {}), steps, value, path)
    return result, []


def changed_objects(objects: list[dict[str, Any]], path: str, value: Any) -> list[dict[str, Any]]:
    """The objects, with a value set in those of a name: ``objects.NAME.…``, of one kind ``objects["KIND/NAME"].…``.
    Without a kind workloads come before others. Raises ``ValueError``."""
    _objects, name, *steps = steps_of(path)
    kind, _slash, own = str(name).rpartition("/")
    if not kind:
        named = [each["kind"] for each in objects if each["metadata"].get("name") == own]
        kind = next((each for each in named if each in _WORKLOADS), named[0] if named else "")
    result, found = [], False
    for each in objects:
        if each["metadata"].get("name") == own and kind.lower() in ("", each["kind"].lower()):
            found = True
            result.append(copy.deepcopy(each))
            _set(result[-1], steps, value, path)
        else:
            result.append(each)
    if not found:
        raise ValueError(f'"{path}": no object of the scenario is called {name}')
    return result


def _set(value: Any, steps: list[str | int], new: Any, path: str) -> None:
    for step, following in itertools.pairwise(steps):
        value = _child(value, step, {} if isinstance(following, str) else None, path)
    last = steps[-1]
    if isinstance(last, int):
        if not isinstance(value, list) or last >= len(value):
            raise ValueError(f'"{path}": there is no [{last}]')
    elif not isinstance(value, dict):
        raise ValueError(f'"{path}": {last} is a field of something that has none')  # noqa: TRY004
    value[last] = new


def _child(value: Any, step: str | int, default: Any, path: str) -> Any:
    if isinstance(step, int):
        if not isinstance(value, list) or step >= len(value):
            raise ValueError(f'"{path}": there is no [{step}]')
        return value[step]
    if not isinstance(value, dict):
        raise ValueError(f'"{path}": {step} is a field of something that has none')  # noqa: TRY004
    if value.get(step) is None:
        if default is None:
            raise ValueError(f'"{path}": there is no {step}')
        value[step] = default
    return value[step]
