"""The indexed store of an informer: written only by the informer, read by controllers (client-go's ``Indexer``).

Objects are frozen and shared by all readers. Between two reads nothing changes unless the reader awaits. Lists are
sorted by key, so that their order does not depend on the order of events.
"""

import builtins
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from pilothouse.api.meta import ObjectMeta
from pilothouse.env import Log
from pilothouse.machinery.names import object_key
from pilothouse.runtime.crash_handler import CrashHandler


class Cached(Protocol):
    """The fields that a cache needs of an object."""

    @property
    def metadata(self) -> ObjectMeta:
        """The object's metadata."""
        ...


T = TypeVar("T", bound=Cached)

IndexFunction = Callable[[T], Iterable[str]]
"""Returns the index values of an object. Must be pure: it is called again with the old object when that is removed."""

NAMESPACE_INDEX = "namespace"


class _Bucket(Generic[T]):
    """Objects by key, with a sorted order that is computed only when it is needed.

    Writes are O(1). ``order`` has every key that was in the last sorted list, then new keys, minus those in
    ``removed``: sorting a list with a sorted prefix is linear.
    """

    __slots__ = ("_order", "_removed", "_unsorted", "items", "values")

    def __init__(self, values: tuple[str, ...] = ()) -> None:
        self.items: dict[str, T] = {}
        self.values = values
        """The index values of an object; objects with equal values share the tuple. It is emptied when the object is
        removed, because a bucket that remains would keep it in memory."""
        self._order: list[str] | None = None
        self._removed: set[str] = set()  # never iterated
        self._unsorted = False

    def put(self, key: str, obj: T) -> None:
        if self._order is not None and key not in self.items:
            if key in self._removed:
                self._removed.discard(key)
            else:
                self._order.append(key)
                self._unsorted = True
        self.items[key] = obj

    def drop(self, key: str) -> None:
        if self.items.pop(key, None) is not None and self._order is not None:
            self._removed.add(key)
            if len(self._removed) > len(self.items) + 100:
                # Nothing has been listed since: drop the old order.
                self._order, self._unsorted = None, False
                self._removed.clear()

    def listing(self) -> list[T]:
        items = self.items
        if len(items) < 2:
            return list(items.values())
        order = self._order
        if order is None:
            order = self._order = sorted(items)
        else:
            if self._removed:
                removed = self._removed
                order = self._order = [key for key in order if key not in removed]
                removed.clear()
            if self._unsorted:
                order.sort()
                self._unsorted = False
        return [items[key] for key in order]

    def keys(self) -> list[str]:
        if len(self.items) > 1:
            self.listing()
            assert self._order is not None
            return self._order.copy()
        return list(self.items)


class _Index(Generic[T]):
    """One index: objects by the values of its function, which is called once per version of an object."""

    __slots__ = ("_given", "buckets", "function")

    def __init__(self, function: IndexFunction[T]) -> None:
        self.function = function
        self.buckets: dict[str, _Bucket[T]] = {}
        self._given: dict[str, tuple[str, ...]] = {}

    def put(self, key: str, obj: T, values: tuple[str, ...]) -> None:
        buckets, old_values = self.buckets, self._given.get(key, ())
        if values == old_values:
            for value in values:
                buckets[value].items[key] = obj
            return
        if old_values:
            self._leave(key, old_values, values)
        for value in values:
            bucket = buckets.get(value)
            if bucket is None:
                bucket = buckets[value] = _Bucket(values)
            elif not bucket.values:
                bucket.values = values
            elif bucket.values == values:
                values = bucket.values
            bucket.put(key, obj)
        if values:
            self._given[key] = values
        else:
            del self._given[key]

    def drop(self, key: str) -> None:
        old_values = self._given.pop(key, None)
        if old_values is not None:
            self._leave(key, old_values, ())

    def _leave(self, key: str, values: tuple[str, ...], stays: tuple[str, ...]) -> None:
        for value in values:
            bucket = self.buckets.get(value)
            if bucket is None:
                continue
            if bucket.values is values:
                bucket.values = ()
            if value not in stays:
                bucket.drop(key)
                if not bucket.items:
                    del self.buckets[value]


class Cache(Generic[T]):
    """All objects of one informer by key, with indexes.

    ``resource_version`` is that of the latest applied event, bookmark or list; ``""`` before the first.
    """

    def __init__(self, name: str = "", *, keep_raw: bool = False, crash_handler: CrashHandler | None = None) -> None:
        self.name = name
        self.keep_raw = keep_raw
        self.resource_version = ""
        self._all: _Bucket[T] = _Bucket()
        self._raw: dict[str, bytes] = {}
        self._namespaces: dict[str, _Bucket[T]] | None = None
        """Maintained from the first list of a namespace on: few caches are read so, and it is as large as ``_all``."""
        self._indexes: dict[str, _Index[T]] = {}
        self._crash_handler = crash_handler if crash_handler is not None else CrashHandler(Log("cache"), name)

    # Reading

    def __len__(self) -> int:
        return len(self._all.items)

    def __contains__(self, key: str) -> bool:
        return key in self._all.items

    def get(self, key: str) -> T | None:
        """The object with that key (``object_key``), or None."""
        return self._all.items.get(key)

    def still_has(self, meta: ObjectMeta) -> bool:
        """Whether the object with this metadata is still in the cache: neither deleted nor replaced by another one with
        the same name.

        Check it after an ``await`` before you store anything about an object that was read earlier: the event handler
        that would remove it again may already have run.
        """
        cached = self._all.items.get(object_key(meta))
        return cached is not None and cached.metadata.uid == meta.uid

    def raw(self, key: str) -> bytes | None:
        """The JSON from which the object was decoded, without managedFields; None unless the informer keeps it
        (``keep_raw``)."""
        return self._raw.get(key)

    def list(self, namespace: str | None = None) -> builtins.list[T]:
        """All objects, or those of one namespace, sorted by key. The list is the caller's own."""
        if namespace is None:
            return self._all.listing()
        namespaces = self._namespaces
        if namespaces is None:
            namespaces = self._namespaces = {}
            for key, obj in self._all.items.items():
                self._put_in_namespace(namespaces, key, obj)
        bucket = namespaces.get(namespace)
        return bucket.listing() if bucket is not None else []

    def keys(self) -> builtins.list[str]:
        """All keys, sorted."""
        return self._all.keys()

    def snapshot(self) -> dict[str, T]:
        """All objects by key, in the order of their keys."""
        items = self._all.items
        return {key: items[key] for key in self._all.keys()}  # noqa: SIM118  # the bucket's sorted keys, no dict's

    def by_index(self, name: str, value: str) -> builtins.list[T]:
        """The objects for which the index function of that name gave ``value``, sorted by key."""
        bucket = self._indexes[name].buckets.get(value)
        return bucket.listing() if bucket is not None else []

    def count(self, name: str, value: str) -> int:
        """The number of objects that ``by_index`` would return."""
        bucket = self._indexes[name].buckets.get(value)
        return len(bucket.items) if bucket is not None else 0

    def index_values(self, name: str) -> builtins.list[str]:
        """Every value that some object has in that index, sorted."""
        return sorted(self._indexes[name].buckets)

    # Setting up

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Index all objects, those already there included. The same function under the same name may be added again.

        If the index function raises, the object is in no bucket, and the exception is logged.
        """
        existing = self._indexes.get(name)
        if existing is not None:
            if existing.function is not function:
                raise ValueError(f"cache {self.name!r} already has another index named {name!r}")
            return
        self._indexes[name] = index = _Index(function)
        for key, obj in self._all.items.items():
            index.put(key, obj, self._values(function, obj))

    # Writing: the informer's side

    def put(self, key: str, obj: T, raw: bytes | None = None) -> T | None:
        """Add or replace one object and return the one that was there."""
        items = self._all.items
        old = items.get(key)
        if old is None:
            self._all.put(key, obj)
        else:
            items[key] = obj
        if self._namespaces is not None:
            self._put_in_namespace(self._namespaces, key, obj)
        for index in self._indexes.values():
            index.put(key, obj, self._values(index.function, obj))
        if raw is not None and self.keep_raw:
            self._raw[key] = raw
        return old

    def drop(self, key: str) -> T | None:
        """Remove one object and return it."""
        old = self._all.items.get(key)
        if old is None:
            return None
        self._all.drop(key)
        if self._namespaces is not None:
            namespace = old.metadata.namespace
            bucket = self._namespaces.get(namespace)
            if bucket is not None:
                bucket.drop(key)
                if not bucket.items:
                    del self._namespaces[namespace]
        for index in self._indexes.values():
            index.drop(key)
        self._raw.pop(key, None)
        return old

    def replace(self, objects: Mapping[str, T], raw: Mapping[str, bytes], resource_version: str) -> None:
        """Replace the whole content atomically."""
        self._all = _Bucket()
        self._all.items = dict(objects)
        self._raw = dict(raw) if self.keep_raw else {}
        self._namespaces = None
        for name, index in list(self._indexes.items()):
            self._indexes[name] = fresh = _Index(index.function)
            for key, obj in objects.items():
                fresh.put(key, obj, self._values(index.function, obj))
        self.resource_version = resource_version

    @staticmethod
    def _put_in_namespace(namespaces: dict[str, _Bucket[T]], key: str, obj: T) -> None:
        namespace = obj.metadata.namespace
        if namespace:
            bucket = namespaces.get(namespace)
            if bucket is None:
                bucket = namespaces[namespace] = _Bucket()
            bucket.put(key, obj)

    def _values(self, function: IndexFunction[T], obj: T) -> tuple[str, ...]:
        try:
            return tuple(function(obj))
        except Exception as error:  # noqa: BLE001  # one object lacks an index, not the process
            self._crash_handler.report(function, error)
            return ()
