"""Parses untrusted YAML into values with line numbers.

A single pass over libyaml's events, with limits of size, depth and expanded aliases. Scalars are resolved as by
Kubernetes' parser.
"""

from collections.abc import Sequence
from typing import Any

import yaml

from pilothouse.machinery.yaml_scalars import ScalarError, key_text, resolve

MAX_BYTES = 4 << 20
MAX_DEPTH = 100
MAX_VALUES = 200_000
"""Maximum number of values; values of aliases count each time."""
Step = str | int
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class PositionedError(ValueError):
    """Invalid YAML, or YAML that exceeds the limits."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line
        """The line number, starting at 1; 0 if unknown."""


class Positions:
    """The line numbers of the parts of a document."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[Step, int]] = {}
        self._kept: list[Any] = []
        self._settings: set[tuple[int, Step]] = set()

    def add(self, container: Any) -> dict[Step, int]:
        """Register a container; returns its line numbers by key or index, to be filled."""
        self._kept.append(container)  # keeps its id unique
        lines: dict[Step, int] = {}
        self._lines[id(container)] = lines
        return lines

    def copied(self, old: Any, new: Any) -> None:
        """Copy the line numbers of a container to its copy."""
        self.add(new).update(self._lines.get(id(old), {}))
        self._settings |= {(id(new), step) for owner, step in self._settings if owner == id(old)}

    def add_setting(self, container: Any, step: Step) -> None:
        """Mark a part as set on the command line. It keeps its line if it was in the file."""
        self._kept.append(container)
        self._settings.add((id(container), step))

    def setting(self, document: Any, path: Sequence[Step]) -> tuple[Step, ...] | None:
        """The path of the command line setting that contains a part, None if there is none."""
        value = document
        for number, step in enumerate(path):
            if (id(value), step) in self._settings:
                return tuple(path[: number + 1])
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return None

    def has_line(self, document: Any, path: Sequence[Step]) -> bool:
        """Whether the part itself is in the file."""
        *around, last = path
        for step in around:
            document = document[step]
        return last in self._lines.get(id(document), {})

    def line(self, document: Any, path: Sequence[Step]) -> int:
        """The line number of a part, or of the closest part that contains it."""
        line, value = 1, document
        for step in path:
            lines = self._lines.get(id(value))
            if lines is None or step not in lines:
                break
            line, value = lines[step], value[step]
        return line


class _Frame:
    def __init__(self, value: Any, lines: dict[Step, int], anchor: str | None, begun: int) -> None:
        self.value = value
        self.lines = lines
        self.anchor = anchor
        self.begun = begun
        self.key: str | None = None
        self.merged: list[tuple[Any, int]] = []


def read(text: str) -> tuple[Any, Positions]:
    """Parse a text with a single document. Raises ``PositionedError``."""
    if len(text) > MAX_BYTES:
        raise PositionedError(f"the file has more than {MAX_BYTES} bytes")
    reader = _read(text, MAX_VALUES)
    if len(reader.documents) > 1:
        raise PositionedError("expected a single document: a file has one scenario", reader.documents[1][1])
    return (reader.documents[0][0] if reader.documents else None), reader.positions


def documents_of(text: str, limit: int) -> list[tuple[Any, int]]:
    """Parse the documents of a text, None for empty ones, with their first lines; at most ``limit`` values in total.
    Raises ``PositionedError``."""
    return _read(text, limit).documents


def _read(text: str, limit: int) -> "_Reader":
    loader = _LOADER(text)
    try:
        reader = _Reader(loader.get_event, limit)
        reader.run()
        return reader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error)
        raise PositionedError(f"invalid YAML: {reason}", mark.line + 1 if mark else 0) from None
    finally:
        loader.dispose()


class _Reader:
    def __init__(self, next_event: Any, limit: int) -> None:
        self._next = next_event
        self._most = limit
        self.positions = Positions()
        self.documents: list[tuple[Any, int]] = []
        """The documents with their first lines."""
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._open: list[_Frame] = []
        self._count = 0

    def run(self) -> None:
        while True:
            event = self._next()
            line = event.start_mark.line + 1
            match event:
                case yaml.StreamEndEvent():
                    break
                case yaml.DocumentStartEvent():
                    self._anchors.clear()
                    self.documents.append((None, line))
                case yaml.ScalarEvent():
                    self._scalar(event, line)
                case yaml.AliasEvent():
                    self._alias(event, line)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._begin(event, line)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._end(line)

    def _charge(self, values: int, line: int) -> None:
        self._count += values
        if self._count > self._most:
            raise PositionedError(f"there are more than {self._most} values; aliases count each time", line)

    def _begin(self, event: Any, line: int) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise PositionedError(f"values are nested more than {MAX_DEPTH} deep", line)
        self._charge(1, line)
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        if self._open and self._open[-1].key is None and isinstance(self._open[-1].value, dict):
            raise PositionedError("a key must be text", line)
        if event.anchor:
            self._anchors[event.anchor] = None
        self._put(value, line)
        self._open.append(_Frame(value, self.positions.add(value), event.anchor, self._count))

    def _end(self, line: int) -> None:
        frame = self._open.pop()
        for merged, at in frame.merged:
            for mapping in [merged] if isinstance(merged, dict) else merged:
                if not isinstance(mapping, dict):
                    raise PositionedError("<< merges mappings", at)
                for key, value in mapping.items():
                    if key not in frame.value:
                        frame.value[key] = value
                        frame.lines[key] = at
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, self._count - frame.begun + 1)

    def _alias(self, event: Any, line: int) -> None:
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            inside = event.anchor in self._anchors
            reason = "an alias must not contain itself" if inside else f"no anchor is named {event.anchor}"
            raise PositionedError(reason, line)
        self._charge(anchored[1], line)
        self._put(anchored[0], line)

    def _scalar(self, event: Any, line: int) -> None:
        self._charge(1, line)
        try:
            value = resolve(event.value, event.tag, plain=event.implicit[0])
        except ScalarError as error:
            raise PositionedError(str(error), line) from None
        frame = self._open[-1] if self._open else None
        if frame is not None and isinstance(frame.value, dict) and frame.key is None:
            key = event.value if event.value == "<<" else key_text(value)
            if key is None:
                raise PositionedError(f"a key must be text, got {event.value}", line)
            if key in frame.value:
                raise PositionedError(f'the key "{key[:80]}" is duplicated', line)
            frame.key = key
            frame.lines[key] = line
            return
        self._put(value, line)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)

    def _put(self, value: Any, line: int) -> None:
        if not self._open:
            self.documents[-1] = (value, self.documents[-1][1])
            return
        frame = self._open[-1]
        if isinstance(frame.value, list):
            frame.lines[len(frame.value)] = line
            frame.value.append(value)
        elif frame.key is None:
            raise PositionedError("a key must be text", line)
        elif frame.key == "<<":
            frame.merged.append((value, line))
            frame.lines.pop("<<", None)
            frame.key = None
        else:
            frame.value[frame.key] = value
            frame.key = None
