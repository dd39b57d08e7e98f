"""Caches the labels and selectable fields of stored objects, with an index for some fields.

Used by lists and watches with selectors: each object is read at most once per revision. Nothing is cached for a
resource before its first selection.
"""

from collections.abc import Iterable
from functools import partial

from pilothouse.apiserver.registry.generic.selection_predicate import AttributeReader, Attributes, Selection
from pilothouse.storage import Change, Record, Store

_INDEXED_FIELDS = {"/pods/": "spec.nodeName"}
"""Storage prefix → the indexed field: kubelets and controllers list the pods of one node."""

_MAX_READERS = 8
_MAX_RECENT, _MAX_RECENT_BYTES = 8192, 16 * 1024
"""The maximum number and size of cached objects. The size is limited because an object can consist mostly of labels."""


class AttributeCache:
    """The attributes of objects by key and revision. Entries of deleted objects are removed on commit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._current: dict[str, dict[AttributeReader, dict[str, tuple[int, Attributes]]]] = {}
        """Storage prefix → reader → key: the groups and versions of a stored resource have different selectable
        fields."""
        self._indexes: dict[str, _Index] = {}
        self._recent: dict[tuple[AttributeReader, str], tuple[int, Attributes]] = {}

    def at_revision(self, reader: AttributeReader, key: str, revision: int, value: bytes) -> Attributes:
        """The attributes of an object at a revision. The last revision of each object is cached: the state after one
        change is the state before the next, which watches also need."""
        entry = self._recent.get((reader, key))
        if entry is not None and entry[0] == revision:
            return entry[1]
        attributes = reader.read(value)
        if len(value) <= _MAX_RECENT_BYTES:
            if len(self._recent) >= _MAX_RECENT:
                self._recent.clear()
            self._recent[reader, key] = (revision, attributes)
        return attributes

    def current(self, prefix: str, reader: AttributeReader, record: Record) -> Attributes:
        """The attributes of a current record of the resource with that storage prefix."""
        readers = self._current.get(prefix)
        if readers is None:
            readers = self._current[prefix] = {}
            self._store.follow(prefix, partial(self._on_commit, prefix))
        cached = readers.get(reader)
        if cached is None:
            if len(readers) >= _MAX_READERS:
                # Readers of changed CustomResourceDefinitions are not used again.
                readers.clear()
            cached = readers[reader] = {}
        entry = cached.get(record.key)
        if entry is not None and entry[0] == record.revision:
            return entry[1]
        attributes = reader.read(record.value)
        cached[record.key] = (record.revision, attributes)
        return attributes

    def candidates(self, prefix: str, reader: AttributeReader, selection: Selection) -> Iterable[str] | None:
        """The sorted keys of the current objects that can match, from an index; None if no index applies."""
        field = _INDEXED_FIELDS.get(prefix)
        if field is None:
            return None
        value = selection.exact(field)
        if value is None:
            return None
        index = self._indexes.get(prefix)
        if index is None:
            index = self._indexes[prefix] = _Index(field, reader)
            for record in self._store.list(prefix).records:
                index.put(record.key, self.current(prefix, reader, record).field(field))
        return index.keys(value)

    def _on_commit(self, prefix: str, changes: list[Change]) -> None:
        readers, index = self._current[prefix], self._indexes.get(prefix)
        for change in changes:
            key = change.key
            if change.type == "DELETED":
                for cached in readers.values():
                    cached.pop(key, None)
                if index is not None:
                    index.drop(key)
            elif index is not None:
                attributes = index.reader.read(change.value)
                readers.setdefault(index.reader, {})[key] = (change.revision, attributes)
                index.put(key, attributes.field(index.field))


class _Index:
    """The keys of objects by the value of one field."""

    def __init__(self, field: str, reader: AttributeReader) -> None:
        self.field = field
        self.reader = reader
        self._by_value: dict[str, dict[str, None]] = {}
        self._value_of: dict[str, str] = {}

    def put(self, key: str, value: str) -> None:
        old_value = self._value_of.get(key)
        if old_value == value:
            return
        if old_value is not None:
            self._remove(key, old_value)
        self._value_of[key] = value
        self._by_value.setdefault(value, {})[key] = None

    def drop(self, key: str) -> None:
        old_value = self._value_of.pop(key, None)
        if old_value is not None:
            self._remove(key, old_value)

    def _remove(self, key: str, value: str) -> None:
        keys = self._by_value[value]
        del keys[key]
        if not keys:
            del self._by_value[value]

    def keys(self, value: str) -> list[str]:
        return sorted(self._by_value.get(value, ()))
