"""``ScenarioError``: an error in a scenario, with file, line and field."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.simulate.scenario import field_types
from pilothouse.simulate.scenario.positions import Positions, Step

_AT = re.compile(r" - at `(?:key` in `)?\$(.*)`$")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `(.*?)`(?:, got `(.*?)`)?(.*)")
_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "nothing",
}

_QUOTE = {
    ("text", bool): "; write it in quotes: YAML reads n, no and off as false, and y, yes and on as true",
    ("text", int): "; write it in quotes",
    ("text", float): "; write it in quotes",
}
"""What to do about a plain value that YAML does not read as text."""


class ScenarioError(ValueError):
    """An invalid scenario. The message has file, line and field, the reason, and the solution."""


def shown_path(path: Sequence[Step]) -> str:
    """``spec.timeline[2].scale``."""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")


def path_of(text: str) -> tuple[Step, ...]:
    """Parse a path of a msgspec error, up to the first unknown index."""
    steps: list[Step] = []
    for name, index in _STEP.findall(text):
        if index == "...":
            break
        steps.append(int(index) if index else name)
    return tuple(steps)


def positioned(
    source: str, error: msgspec.ValidationError, document: Any, positions: Positions, root: type[msgspec.Struct]
) -> ScenarioError:
    """Convert a validation error of msgspec into a readable message with the allowed values; ``root`` is the type of
    the document."""
    text = str(error)
    match = _AT.search(text)
    path = path_of(match[1]) if match is not None else ()
    message = text[: match.start()] if match is not None else text
    if unknown := _UNKNOWN.match(message):
        names, name = field_types.field_names(root, path), unknown[1]
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}" if names else ""
        path, message = (*path, name), f"unknown field{hint}"
    elif missing := _MISSING.match(message):
        message = f"the field {missing[1]} is missing"
    elif expected := _EXPECTED.match(message):
        wanted = " or ".join(_WORDS.get(word, word) for word in expected[1].split(" | ") if word != "null")
        actual = f", got {_WORDS.get(expected[2], expected[2])}" if expected[2] else ""
        value = _value(document, path)
        named = "a mapping" in wanted and isinstance(value, str) and "name" in field_types.field_names(root, path)
        hint = f"; write {{name: {value[:60]}}}" if named else _QUOTE.get((wanted, type(value)), "")
        message = f"expected {wanted}{actual}{expected[3]}{hint}"
    else:
        value = _value(document, path)
        if message.startswith("Invalid enum value"):
            message = f"{message}; one of {', '.join(field_types.values(root, path))}"
        elif isinstance(value, str) and value not in message:
            message = f"{message} (got {value[:60]})"
    return located(source, path, message, document, positions)


def located(source: str, path: Sequence[Step], message: str, document: Any, positions: Positions) -> ScenarioError:
    """``FILE:LINE: PATH: MESSAGE``; without a line for values from the command line."""
    position = f"{source}:{positions.line(document, path)}"
    setting = positions.setting(document, path)
    if setting is not None:
        position = position if positions.has_line(document, setting) else source
        return ScenarioError(f"{position}: {shown_path(path)} (from the command line): {message}")
    return ScenarioError(f"{position}: {shown_path(path)}: {message}" if path else f"{position}: {message}")


def _value(document: Any, path: Sequence[Step]) -> Any:
    for step in path:
        try:
            document = document[step]
        except (KeyError, IndexError, TypeError):
            return None
    return document
