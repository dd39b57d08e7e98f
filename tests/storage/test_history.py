"""Retention of a resource's history."""

from pilothouse.storage.history import KEPT, Collection
from pilothouse.storage.records import Change, Record


def _collection(changes: int) -> Collection:
    collection = Collection("/pods/", 0)
    before = None
    for revision in range(1, changes + 1):
        change = Change(revision, "/pods/default/a", "MODIFIED", b"{}", before, {"line": b"x"})
        collection.remember(change, KEPT)
        before = Record(change.key, change.value, revision, 1)
    return collection


def test_encoded_events_are_cached_for_the_newest_changes_only() -> None:
    collection = _collection(3000)
    assert len(collection.changes) == 3000
    assert [change.revision for change in collection.changes if change.memo is not None] == list(range(1977, 3001))
    assert len(collection.since(10)) == 2990


def test_encoded_events_of_large_objects_are_cached_for_few_changes() -> None:
    collection, large = Collection("/pods/", 0), b"x" * (3 * 1024 * 1024)
    for revision in range(1, 20):
        collection.remember(Change(revision, "/pods/default/a", "MODIFIED", large, None, {"line": large}), KEPT)
    assert [change.revision for change in collection.changes if change.memo is not None] == [18, 19]
    collection.forget(19)
    assert collection._fresh_size == 0


def test_expired_changes_are_released() -> None:
    collection = _collection(3000)
    for revision in (100, 2990):
        collection.forget(revision)
        assert {change.revision for change in collection._fresh} <= {change.revision for change in collection.changes}
    collection.forget(3000)
    assert not collection.changes
    assert not collection._fresh
    collection.remember(Change(3001, "/pods/default/a", "DELETED", b"{}", None), KEPT)
    assert len(collection.changes) == 1
