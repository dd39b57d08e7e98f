"""From bytes to views: single objects, lists, and the lines of a watch.

``Client`` and ``Watch`` read with this. Go reads JSON ``null`` as the zero value of any field and its servers write
some, so an object that does not fit its view at first is read again without its nulls; that path is slow and rare.
An object that still does not fit becomes ``UndecodableObject``, which names it.
"""

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ListMeta, Object, ObjectList
from pilothouse.client.errors import UndecodableObject
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.nulls import without_nulls

if TYPE_CHECKING:
    from pilothouse.client import shared_parts

with lazy_imports():
    from pilothouse.client import shared_parts

T = TypeVar("T")

_FEW = 200
"""Minimum number of objects of a view for sharing parts: with fewer, sharing costs more memory than it saves."""

OnUndecodable = Callable[[UndecodableObject], None]
"""Called with an object that is omitted because it does not fit its view."""


class Entry(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """An object and, if requested, a copy of its JSON."""

    object: T
    raw: bytes


class Page(msgspec.Struct, Generic[T], frozen=True):
    """A page of a list."""

    metadata: ListMeta
    items: list[Entry[T]]


class _RawList(msgspec.Struct, gc=False, frozen=True):
    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of decoding foreign bytes. The last one is raised for too deep nesting."""

_raw_list = msgspec.json.Decoder(_RawList)
_object = msgspec.json.Decoder(Object)


class Decoders(Generic[T]):
    """The decoders of one view, created at the first use (creating one costs more than using it)."""

    def __init__(self, view: type[T]) -> None:
        self.view = view
        self.is_raw = view is msgspec.Raw
        self._kept = 0

    @cached_property
    def _one(self) -> msgspec.json.Decoder[T]:
        return msgspec.json.Decoder(self.view)

    @cached_property
    def _list(self) -> msgspec.json.Decoder[ObjectList[T]]:
        view = self.view
        return msgspec.json.Decoder(
            ObjectList[view]  # type: ignore[valid-type]  # msgspec makes a decoder of the view given at run time
        )

    @cached_property
    def _shared_parts(self) -> "shared_parts.SharedParts | None":
        return None if self.is_raw else shared_parts.shared_parts_of(self.view)

    def share(self, obj: T) -> T:
        """An object that will be cached, and that nobody else has yet: its parts are shared with other objects if there
        are many."""
        if self._kept < _FEW:
            self._kept += 1
        elif (parts := self._shared_parts) is not None:
            parts.share(obj)
        return obj

    def one(self, body: bytes | memoryview, description: Callable[[], str]) -> T:
        """Decode one object. ``description`` names it in errors."""
        try:
            return self._one.decode(body)
        except UNREADABLE as error:
            return self._decode_again(bytes(body), description, error)

    def list(self, kind: Kind[Any], body: bytes, on_undecodable: OnUndecodable | None) -> ObjectList[T]:
        """Decode a whole list."""
        if not self.is_raw:
            try:
                return self._list.decode(body)
            except UNREADABLE:
                pass  # decoded item by item below: there are nulls, or the undecodable item must be named
        page = self.page(kind, body, keep_raw=False, on_undecodable=on_undecodable)
        return ObjectList(metadata=page.metadata, items=tuple(entry.object for entry in page.items))

    def page(self, kind: Kind[Any], body: bytes, *, keep_raw: bool, on_undecodable: OnUndecodable | None) -> Page[T]:
        """Decode a whole list, item by item."""
        try:
            raw_list = _raw_list.decode(body)
        except RecursionError:
            raw_list = _split_list(body)
        except UNREADABLE as error:
            raise UndecodableObject(f"a list of {kind.group_resource}", str(error), body) from error
        entries: list[Entry[T]] = []
        for item in raw_list.items or ():
            # A slice would keep the whole page in memory as long as the object.
            copy = bytes(item) if keep_raw or self.is_raw else b""
            try:
                obj: T = msgspec.Raw(copy) if self.is_raw else self._item(kind, item)  # type: ignore[assignment]
            except UndecodableObject as error:
                if on_undecodable is None:
                    raise
                on_undecodable(error)
                continue
            entries.append(Entry(self.share(obj), copy if keep_raw else b""))
        return Page(raw_list.metadata, entries)

    def _item(self, kind: Kind[Any], item: msgspec.Raw) -> T:
        try:
            return self._one.decode(item)
        except UNREADABLE as error:
            raw = bytes(item)
            return self._decode_again(raw, lambda: name_of(kind, raw), error)

    def _decode_again(self, body: bytes, description: Callable[[], str], first: Exception) -> T:
        try:
            return msgspec.convert(without_nulls(msgspec.json.decode(body)), self.view)
        except UNREADABLE as error:
            raise UndecodableObject(description(), str(error), body) from first


_token = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
"""A string that does not end goes to the end of the body: it is not searched again from each escaped quote in it."""


def _split_list(body: bytes) -> _RawList:
    """Split a list with an item that is nested too deeply for the decoder, so that the others can be decoded.

    Only brackets are counted; items are validated when they are decoded.
    """
    items: list[msgspec.Raw] = []
    metadata = ListMeta()
    depth = start = 0
    name = field = b""
    for token in _token.finditer(body):
        text = token[0]
        if text in b"[{":
            depth += 1
            if depth == 2:
                field, start = name, token.start()
            elif depth == 3 and field == b'"items"':
                start = token.start()
        elif text in b"]}":
            if depth == 3 and field == b'"items"':
                items.append(msgspec.Raw(body[start : token.end()]))
            elif depth == 2 and field == b'"metadata"':
                metadata = msgspec.json.decode(body[start : token.end()], type=ListMeta)
            depth -= 1
        elif depth == 1:
            name = text
    return _RawList(metadata=metadata, items=items)


def name_of(kind: Kind[Any], raw: bytes) -> str:
    """``replicasets.apps default/web``, as far as the object still shows its name."""
    try:
        metadata = _object.decode(raw).metadata
    except UNREADABLE:
        return f"an object of {kind.group_resource}"
    name = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
    return f"{kind.group_resource} {name}"


_decoders: dict[type[Any], Decoders[Any]] = {}


def decoders_of(view: type[T]) -> Decoders[T]:
    """The decoders of that view, shared by all callers."""
    decoders = _decoders.get(view)
    if decoders is None:
        decoders = _decoders[view] = Decoders(view)
    return decoders
