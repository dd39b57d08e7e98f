"""Labels and selectable fields of stored objects, read at most once per revision, and an index over a few of the
fields.

Lists and watches with selectors ask here. Nothing is kept for a resource before the first selection in it.
"""

from collections.abc import Iterable

from pilothouse.apiserver.registry.generic.selection_predicate import AttributeReader, Attributes, Selection
from pilothouse.storage import Change, Record, Store

_INDEXED = {"/pods/": "spec.nodeName"}
"""Resource prefix → the field that is worth an index: kubelets and controllers ask for one node's pods."""

_READERS = 8
_MAX_RECENT, _LONGEST_RECENT = 8192, 16 * 1024
"""How many objects are remembered, and of how many bytes: their labels may be most of them."""


class AttributeCache:
    """Attributes by key and revision. Follows the store, so that what is deleted is forgotten."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, dict[AttributeReader, dict[str, tuple[int, Attributes]]]] = {}
        """By storage prefix, then by reader: versions and groups of one stored resource select by different fields."""
        self._indexes: dict[str, _Index] = {}
        self._recent: dict[tuple[AttributeReader, str], tuple[int, Attributes]] = {}
        store.on_commit.append(self._follow)

    def at(self, reader: AttributeReader, key: str, revision: int, value: bytes) -> Attributes:
        """The attributes of an object as it was at a revision. Remembered until the next one that is asked for: what a
        watch sees after one change it sees before the next."""
        found = self._recent.get((reader, key))
        if found is not None and found[0] == revision:
            return found[1]
        attributes = reader.read(value)
        if len(value) <= _LONGEST_RECENT:
            if len(self._recent) >= _MAX_RECENT:
                self._recent.clear()
            self._recent[reader, key] = (revision, attributes)
        return attributes

    def of(self, prefix: str, reader: AttributeReader, record: Record) -> Attributes:
        """The attributes of a current record of the resource with that storage prefix."""
        readers = self._known.setdefault(prefix, {})
        known = readers.get(reader)
        if known is None:
            if len(readers) >= _READERS:
                # A definition that changes leaves readers behind that are not used again.
                readers.clear()
            known = readers[reader] = {}
        found = known.get(record.key)
        if found is not None and found[0] == record.revision:
            return found[1]
        attributes = reader.read(record.value)
        known[record.key] = (record.revision, attributes)
        return attributes

    def candidates(self, prefix: str, reader: AttributeReader, selection: Selection) -> Iterable[str] | None:
        """The keys, in order, that an index leaves of the current objects of a resource; None when no index applies."""
        field = _INDEXED.get(prefix)
        if field is None:
            return None
        value = selection.exact(field)
        if value is None:
            return None
        index = self._indexes.get(prefix)
        if index is None:
            index = self._indexes[prefix] = _Index(field, reader)
            for record in self._store.list(prefix).records:
                index.put(record.key, self.of(prefix, reader, record).field(field))
        return index.keys(value)

    def _follow(self, changes: list[Change]) -> None:
        if not self._known:
            return
        for change in changes:
            key = change.key
            prefix = key[: key.index("/", key.index("/") + 1) + 1]
            readers = self._known.get(prefix)
            if readers is None:
                continue
            index = self._indexes.get(prefix)
            if change.type == "DELETED":
                for known in readers.values():
                    known.pop(key, None)
                if index is not None:
                    index.drop(key)
            elif index is not None:
                attributes = index.reader.read(change.value)
                readers.setdefault(index.reader, {})[key] = (change.revision, attributes)
                index.put(key, attributes.field(index.field))


class _Index:
    """Keys by the value of one field."""

    def __init__(self, field: str, reader: AttributeReader) -> None:
        self.field = field
        self.reader = reader
        self._by_value: dict[str, dict[str, None]] = {}
        self._value_of: dict[str, str] = {}

    def put(self, key: str, value: str) -> None:
        before = self._value_of.get(key)
        if before == value:
            return
        if before is not None:
            self._remove(key, before)
        self._value_of[key] = value
        self._by_value.setdefault(value, {})[key] = None

    def drop(self, key: str) -> None:
        before = self._value_of.pop(key, None)
        if before is not None:
            self._remove(key, before)

    def _remove(self, key: str, value: str) -> None:
        keys = self._by_value[value]
        del keys[key]
        if not keys:
            del self._by_value[value]

    def keys(self, value: str) -> list[str]:
        return sorted(self._by_value.get(value, ()))
