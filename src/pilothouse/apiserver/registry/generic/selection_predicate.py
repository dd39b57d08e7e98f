"""Label and field selectors of lists and watches, and the attributes of objects that they match
(``storage.SelectionPredicate``).

Only labels and the selectable fields of the kind are decoded from an object.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.options import read_list_options
from pilothouse.apiserver.request_info import Query
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.fields import FieldSelector, FieldSelectorError, FieldTerm, parse_field_selector
from pilothouse.machinery.labels import EVERYTHING, Selector, SelectorError, parse_selector

Fields = Mapping[str, tuple[str, ...]]
"""Field label → path in the object."""

METADATA_FIELDS: Fields = {"metadata.name": ("metadata", "name"), "metadata.namespace": ("metadata", "namespace")}
NAME_ONLY: Fields = {"metadata.name": ("metadata", "name")}


class Attributes(msgspec.Struct, gc=False):
    """The labels and selectable fields of an object (``storage.AttrFunc``)."""

    labels: Mapping[str, str]
    _decoded: Any
    _reader: "AttributeReader"

    def field(self, label: str) -> str:
        """The value of a selectable field as string."""
        paths, default = self._reader.fields[label]
        for path in paths:
            node = self._decoded
            for segment in path:
                node = getattr(node, segment, None)
                if node is None:
                    break
            if node is not None and node != "":
                return _format_value(node)
        return default


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)


class AttributeReader:
    """Decodes the ``Attributes`` of one kind from stored bytes, and skips all other fields."""

    def __init__(self, fields: Fields, defaults: Mapping[str, str], fallbacks: Fields | None = None) -> None:
        self.fields = {
            label: ((path, *((fallbacks[label],) if fallbacks and label in fallbacks else ())), defaults.get(label, ""))
            for label, path in fields.items()
        }
        """Field label → the paths in the object (the first non-empty value is used), and the default."""

    @cached_property
    def _decode(self) -> Callable[[bytes], Any]:
        tree: dict[str, Any] = {}
        for path in (("metadata", "labels"), *(path for paths, _default in self.fields.values() for path in paths)):
            node = tree
            for segment in path[:-1]:
                node = node.setdefault(segment, {})
            node.setdefault(path[-1], None)
        return msgspec.json.Decoder(_struct("Selectable", tree)).decode

    def read(self, value: bytes) -> Attributes:
        """The attributes of a stored object. One that is nested too deeply to be decoded has none, so that it does not
        break lists and watches."""
        try:
            decoded = self._decode(value)
        except RecursionError:
            decoded = self._decode(b'{"metadata":{}}')
        except msgspec.DecodeError as error:
            raise errors.unreadable(value, "", error) from None
        return Attributes(decoded.metadata.labels or {}, decoded, self)


def _struct(name: str, tree: Mapping[str, Any]) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        name,
        [
            (segment, (Any if subtree is None else _struct(segment, subtree) | None), None)
            for segment, subtree in tree.items()
        ],
        gc=False,
    )


class Selection:
    """The selectors of one request. ``name`` is set if the field selector requires one name."""

    __slots__ = ("_fields", "_labels", "_match_fields", "empty", "name")

    def __init__(self, labels: Selector, fields: FieldSelector | None) -> None:
        self._labels = labels
        self._fields = fields
        self._match_fields = None if fields is None else fields.compiled()
        self.name = ""
        if fields is not None:
            self.name = fields.exact("metadata.name") or ""
        self.empty = labels.empty and fields is None

    @property
    def has_field_selector(self) -> bool:
        """Whether there is a field selector."""
        return self._fields is not None

    def with_name(self, name: str) -> "Selection":
        """The selection of the object with this name, if the label selector matches it."""
        return Selection(self._labels, FieldSelector((FieldTerm("metadata.name", "=", name),)))

    def exact(self, field: str) -> str | None:
        """The value that the selection requires for a field; None if it requires none (``RequiresExactMatch``)."""
        return None if self._fields is None else self._fields.exact(field)

    def matches(self, attributes: Attributes) -> bool:
        if not self._labels.empty and not self._labels.matches(attributes.labels):
            return False
        match_fields = self._match_fields
        return match_fields is None or match_fields(attributes.field)


ALL = Selection(EVERYTHING, None)


def read_selection(info: ResourceInfo, query: Query, fields: Fields, unsupported: Callable[[str], str]) -> Selection:
    """The selection of the query parameters ``labelSelector`` and ``fieldSelector``.

    ``fields`` are the selectable fields of the kind; ``unsupported`` returns the message for others. Raises 400 with
    upstream's messages.
    """
    label_text = query.first("labelSelector")
    field_text = query.first("fieldSelector")
    if not label_text and not field_text:
        return ALL
    try:
        labels = parse_selector(label_text) if label_text else EVERYTHING
        field_selector = parse_field_selector(field_text) if field_text else None
    except (SelectorError, FieldSelectorError) as error:
        raise errors.bad_request(str(error)) from None
    if field_selector is not None:
        for term in field_selector.terms:
            if term.path not in fields:
                # Upstream validates the other options before it resolves fields.
                read_list_options(query, watch=query.flag("watch"))
                raise errors.bad_request(unsupported(term.path))
        if field_selector.empty:
            field_selector = None
    return Selection(labels, field_selector)
