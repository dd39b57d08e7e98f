"""YAML as the API server accepts it: one document, in one pass, within limits.

libyaml's events are converted to the values of ``sigs.k8s.io/yaml``: keys and dates are strings, and only the first
document is used. A few lines of nested aliases can expand to gigabytes; Go's yaml (v2, ``decode.go``:
``allowedAliasRatio``) rejects them by the number of expanded values, and so does this. Unlike Go's it also rejects a
long text that is repeated a few hundred times, documents of more than a million values, and more than 300 levels,
instead of 10,000.
"""

import math
from typing import Any, NamedTuple

import yaml

from pilothouse.machinery.go_text import quote
from pilothouse.machinery.json_bounds import MAX_DEPTH
from pilothouse.machinery.yaml_scalars import ScalarError, is_plain_text, key_error, key_text, resolve, value_shown

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FEW_VALUES, _MANY_VALUES = 400_000, 4_000_000
"""Between these numbers of values, the allowed ratio of values from aliases decreases from 99 to 10 percent."""
MAX_VALUES = 1_000_000
"""Includes keys. Three megabytes can contain twice as many, but no useful object does."""
_MAX_TEXT = 32 * 1024 * 1024
_MAX_INTEGRAL_FLOAT = 1e21
"""Below this Go encodes an integral number as an integer."""
_MERGE = "tag:yaml.org,2002:merge"
_NO_KEY: Any = object()
_MERGE_KEY: Any = object()


class YamlError(ValueError):
    """Invalid YAML, or beyond the limits; the message is that of Go's library."""


class Document(NamedTuple):
    """``value`` is None for an empty text. ``repeated`` are the errors of Go's strict decoder about duplicate keys:
    ``line 9: key "foo" already set in map``."""

    value: Any
    repeated: list[str]


def read_yaml(text: bytes | str) -> Document:
    """Read the first document. Raises ``YamlError``."""
    loader = _LOADER(text)
    try:
        return _Builder(loader.get_event).run()
    except yaml.YAMLError as error:
        raise YamlError(f"yaml: {_error_message(error)}") from None
    except ScalarError as error:
        raise YamlError(f"yaml: {error}") from None
    finally:
        loader.dispose()


def load_yaml(text: bytes | str) -> Any:
    """Read the first document; of duplicate keys the last one is used."""
    return read_yaml(text).value


def _error_message(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    # Go's marks count lines from 0, and only those of the scanner are corrected (``decode.go``, ``fail``).
    line = 0 if mark is None else mark.line
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    text_error = getattr(error, "problem", None) or getattr(error, "reason", None) or error
    return f"line {line}: {text_error}" if line else str(text_error)


class _Frame:
    """A list or a map that is not complete yet."""

    __slots__ = ("anchor", "begun", "has_other_keys", "height", "is_map", "items", "key", "line", "members", "text")

    def __init__(self, anchor: str | None, line: int, *, is_map: bool, begun: int, text: int) -> None:
        self.anchor = anchor
        self.line = line
        self.is_map = is_map
        self.begun, self.text = begun, text
        """The number of values, and the size of text, before it."""
        self.height = 1
        self.items: list[Any] = []
        self.members: dict[Any, Any] = {}
        self.key: Any = _NO_KEY
        self.has_other_keys = False
        """Whether there are keys that are not strings."""


class _Anchored(NamedTuple):
    value: Any
    members: dict[Any, Any] | None
    """Of a map: its members by their original keys."""
    values: int
    text: int
    height: int


class _Builder:
    """Builds values from events."""

    def __init__(self, next_event: Any) -> None:
        self._next = next_event
        self._anchors: dict[str, _Anchored | None] = {}
        self._count = 0
        self._aliased = 0
        self._text = 0
        self._duplicate_errors: list[str] = []
        self._open: list[_Frame] = []
        self._result: Any = None

    def run(self) -> Document:
        event = self._next()
        while not isinstance(event, yaml.DocumentEndEvent | yaml.StreamEndEvent):
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._begin(event, is_map=kind is yaml.MappingStartEvent)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._end()
            elif kind is yaml.AliasEvent:
                self._alias(event)
            event = self._next()
        self._check_size()
        return Document(self._result, self._duplicate_errors)

    def _scalar(self, event: Any) -> None:
        text = event.value
        self._count += 1
        if self._count > MAX_VALUES:
            self._check_size()
        self._text += len(text)
        plain = event.implicit[0]
        if event.tag is None and (not plain or is_plain_text(text)):
            value = text
        else:
            value = resolve(text, event.tag, plain=plain)
        frame = self._open[-1] if self._open else None
        if frame is not None and frame.is_map and frame.key is _NO_KEY:
            is_merge = text == "<<" and (plain or event.tag == _MERGE)
            self._key(frame, _MERGE_KEY if is_merge else value)
        else:
            if type(value) is float:
                value = _number(value)
            self._put(value, None, event.start_mark.line)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, None, 1, len(text), 0)

    def _begin(self, event: Any, *, is_map: bool) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        frame = _Frame(event.anchor, event.start_mark.line, is_map=is_map, begun=self._count, text=self._text)
        self._count += 1
        if self._count > MAX_VALUES:
            self._check_size()
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._open.append(frame)

    def _end(self) -> None:
        frame = self._open.pop()
        value: Any = frame.items
        if frame.is_map:
            value = frame.members if not frame.has_other_keys else _with_text_keys(frame.members)
        if frame.anchor is not None:
            self._anchors[frame.anchor] = _Anchored(
                value,
                frame.members if frame.is_map else None,
                self._count - frame.begun,
                self._text - frame.text,
                frame.height,
            )
        self._put(value, frame.members if frame.is_map else None, frame.line, frame.height)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
        anchored = self._anchors[event.anchor]
        if anchored is None:
            raise YamlError(f"yaml: anchor '{event.anchor}' value contains itself")
        self._count += 1 + anchored.values
        self._aliased += anchored.values
        self._text += anchored.text
        self._check_size()
        if len(self._open) + anchored.height > MAX_DEPTH:
            raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        frame = self._open[-1]
        if frame.is_map and frame.key is _NO_KEY:
            self._key(frame, anchored.value)
        else:
            self._put(anchored.value, anchored.members, event.start_mark.line, anchored.height)

    def _check_size(self) -> None:
        count = self._count
        share = (
            0.99
            if count <= _FEW_VALUES
            else 0.10
            if count >= _MANY_VALUES
            else 0.99 - 0.89 * (count - _FEW_VALUES) / (_MANY_VALUES - _FEW_VALUES)
        )
        too_many = self._aliased > 100 and count > 1000 and self._aliased / count > share
        if too_many or (self._aliased and self._text > _MAX_TEXT):
            raise YamlError("yaml: document contains excessive aliasing")
        if count - self._aliased > MAX_VALUES:
            raise YamlError(f"yaml: document contains more than {MAX_VALUES} values")

    def _key(self, frame: _Frame, key: Any) -> None:
        if type(key) is str or key is _MERGE_KEY:
            frame.key = key
            return
        if isinstance(key, dict | list):
            raise YamlError(f"yaml: invalid map key: {value_shown(key)}")
        # Numbers of different types are different keys, and so are booleans.
        frame.has_other_keys = True
        frame.key = (type(key), key)

    def _put(self, value: Any, members: dict[Any, Any] | None, line: int, height: int = 0) -> None:
        """Add a complete value, and its members if it is a map."""
        if not self._open:
            self._result = value
            return
        frame = self._open[-1]
        if height >= frame.height:
            frame.height = height + 1
        if not frame.is_map:
            frame.items.append(value)
            return
        if frame.key is _NO_KEY:
            self._key(frame, value)
            return
        key, frame.key = frame.key, _NO_KEY
        if key is _MERGE_KEY:
            self._merge(frame, value, members, line)
            return
        self._set(frame, key, value, line)

    def _set(self, frame: _Frame, key: Any, value: Any, line: int) -> None:
        if key in frame.members:
            self._duplicate_errors.append(f"line {line + 1}: key {_key_in_error(key)} already set in map")
        frame.members[key] = value

    def _merge(self, frame: _Frame, value: Any, members: dict[Any, Any] | None, line: int) -> None:
        """``<<``: merges a map, or a list of maps; of duplicate keys the first map's has precedence."""
        if members is not None:
            maps = [members]
        elif isinstance(value, list) and all(isinstance(merged, dict) for merged in value):
            maps = value[::-1]
        else:
            raise YamlError("yaml: map merge requires map or sequence of maps as the value")
        for merged in maps:
            for key, member in merged.items():
                frame.has_other_keys = frame.has_other_keys or type(key) is not str
                self._set(frame, key, member, line)


def _key_in_error(key: Any) -> str:
    if type(key) is str:
        return quote(key)
    value = key[1]
    return "<nil>" if value is None else key_text(value) or str(value)


def _with_text_keys(members: dict[Any, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in members.items():
        text = key if type(key) is str else key_text(key[1])
        if text is None:
            raise YamlError(key_error(key[1], value))
        result[text] = value
    return result


def _number(value: float) -> int | float:
    """A float as encoded and decoded by Go's JSON."""
    if math.isnan(value) or math.isinf(value):
        name = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
        raise YamlError(f"json: unsupported value: {name}")
    return int(value) if value.is_integer() and abs(value) < _MAX_INTEGRAL_FLOAT else value
