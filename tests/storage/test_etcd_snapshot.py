"""Files of ``etcdctl snapshot save``: their content, and errors of corrupt ones."""

import os
import random
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import etcd_snapshots
from tests.etcd_snapshots import Bolt, Pair, deletion, name, put
from tests.tables import cases

from pilothouse.storage.etcd_snapshot import SnapshotFileError, read_keyspace

PAIRS: tuple[Pair, ...] = (
    put(2, b"/registry/a", b"old"),
    put(3, b"/registry/b"),
    put(4, b"/registry/c", b"large" * 5000),
    put(5, b"compact_rev_key"),
    put(6, b"/registry/a", b"new"),
    deletion(7, b"/registry/b"),
    put(8, b"/registry/d"),
    deletion(9, b"/registry/d"),
    put(10, b"/registry/d", b"again"),
    put(11, b"/registry/e", sub=0),
    put(11, b"/registry/f", sub=1),
    deletion(12, b"/registry/gone"),
)
NEWEST = {
    b"/registry/a": (b"new", 6),
    b"/registry/c": (b"large" * 5000, 4),
    b"/registry/d": (b"again", 10),
    b"/registry/e": (b"v", 11),
    b"/registry/f": (b"v", 11),
}


def pairs_of(path: Path) -> dict[bytes, tuple[bytes, int]]:
    return {key: (pair.value, pair.revision) for key, pair in read_keyspace(path, b"/registry/").keys.items()}


def with_first_meta_broken() -> Bolt:
    bolt = Bolt().with_keys(PAIRS)
    bolt.pages[0] = b"\0" * bolt.page_size
    return bolt


def with_newer_second_meta() -> Bolt:
    bolt = Bolt().with_keys(PAIRS[:1])
    bolt.pages[0] = bolt.meta(0, 8)
    bolt.with_keys(PAIRS)
    bolt.pages[1] = bolt.meta(1, 9)
    return bolt


@cases(
    "make",
    {
        "leaf with overflow pages": lambda: Bolt().with_keys(PAIRS),
        "a branch": lambda: Bolt().with_keys(PAIRS, per_leaf=2),
        "large pages": lambda: Bolt(page_size=65536).with_keys(PAIRS, per_leaf=5),
        "small pages, of a machine with the other byte order": lambda: Bolt(page_size=1024, order=">").with_keys(PAIRS),
        "a bucket without a page": lambda: (bolt := Bolt()).with_bucket(bolt.inline(PAIRS)),
        "the first meta page is damaged": with_first_meta_broken,
        "the second meta page is newer": with_newer_second_meta,
    },
)
def test_newest_state_of_every_key(tmp_path: Path, make: Callable[[], Bolt]) -> None:
    path = make().write(tmp_path / "db")
    assert pairs_of(path) == NEWEST
    result = read_keyspace(path, b"/registry/")
    assert (result.revision, result.others, result.example) == (12, 1, b"compact_rev_key")


def test_empty_snapshot(tmp_path: Path) -> None:
    bolt = Bolt()
    assert pairs_of(bolt.with_bucket(bolt.inline([])).write(tmp_path / "db")) == {}


def patched(offset: int, layout: str, *values: int) -> Callable[[Path], Path]:
    """A file with other bytes somewhere, and a hash that fits. Its leaf with all pairs is page 3."""

    def make(path: Path) -> Path:
        content = bytearray(Bolt().with_keys(PAIRS).content())
        struct.pack_into(layout, content, offset, *values)
        return etcd_snapshots.write(path, bytes(content))

    return make


def of(make: Callable[[], Bolt]) -> Callable[[Path], Path]:
    return lambda path: make().write(path)


def of_pairs(*pairs: Pair) -> Callable[[Path], Path]:
    return of(lambda: Bolt().with_keys(pairs))


def cyclic() -> Bolt:
    bolt = Bolt()
    number = bolt.branch([(b"a", 3), (b"b", 3)])
    return bolt.with_bucket(bolt.bucket(number))


def without_metas() -> Bolt:
    bolt = Bolt().with_keys(PAIRS)
    bolt.pages[0] = bolt.pages[1] = b"\0" * bolt.page_size
    return bolt


def nested() -> Bolt:
    bolt = Bolt()
    return bolt.with_bucket(bolt.bucket(bolt.leaf([(b"x", bolt.bucket(3), etcd_snapshots.BUCKET)])))


def metas(**changed: int) -> Callable[[Path], Path]:
    def make() -> Bolt:
        bolt = Bolt().with_keys(PAIRS)
        bolt.pages[0], bolt.pages[1] = bolt.meta(0, 8, **changed), bolt.meta(1, 7, **changed)
        return bolt

    return of(make)


def deep() -> Bolt:
    bolt = Bolt(page_size=1024)
    number = bolt.leaf([(*put(2, b"/registry/a"), 0)])
    for _ in range(70):
        number = bolt.branch([(b"", number)])
    return bolt.with_bucket(bolt.bucket(number))


def cut(size: int) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        whole = Bolt().with_keys(PAIRS).write(path).read_bytes()
        path.write_bytes(whole[:size])
        return path

    return make


def flipped(path: Path) -> Path:
    content = bytearray(Bolt().with_keys(PAIRS).write(path).read_bytes())
    content[20000] ^= 1
    path.write_bytes(content)
    return path


def of_bytes(content: bytes) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.write_bytes(content)
        return path

    return make


P = 4096
LEAF_AT = 3 * P
DAMAGED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "empty": (of_bytes(b""), "it has 0 bytes, which is too short for a snapshot of etcd"),
    "something else": (of_bytes(b"x" * 9999), 'this is no snapshot of etcd, as "etcdctl snapshot save" writes it'),
    "something else of such a size": (of_bytes(b"x" * (8192 + 32)), "this is no snapshot of etcd"),
    "cut off": (
        cut(20001),
        "there is no SHA-256 hash at its end: the snapshot was cut off, or the file is the database",
    ),
    "cut off at a page, without the hash": (cut(4 * P), "there is no SHA-256 hash at its end"),
    "cut off, by chance where a hash may end": (
        cut(4 * P + 32),
        "the SHA-256 hash at its end is not that of its content",
    ),
    "one bit": (flipped, "the SHA-256 hash at its end is not that of its content"),
    "no meta page": (of(without_metas), "this is no snapshot of etcd|neither of the two meta pages"),
    "an impossible size of pages": (metas(page_size=3), "its pages are said to have 3 bytes"),
    "more pages than there are": (metas(pages=1 << 40), f"it has 11 pages of the {1 << 40} that are in use"),
    "a root beyond the end": (metas(root=1 << 50), f"it refers to page {1 << 50}, and its pages are 2 to 10"),
    "a root that is a meta page": (metas(root=1), "it refers to page 1, "),
    "a page of another number": (patched(LEAF_AT, "<Q", 7), "page 3 has the number 7"),
    "a page of another kind": (patched(LEAF_AT + 8, "<H", 16), "page 3 is neither a branch nor a leaf (flags 0x10)"),
    "a page that goes on beyond the end": (
        patched(LEAF_AT + 12, "<I", 0xFFFFFFFF),
        "page 3 goes on in 4294967295 more",
    ),
    "a huge count": (patched(LEAF_AT + 10, "<H", 65535), "page 3 is said to have 65535 elements, which don't fit"),
    "an element outside": (patched(LEAF_AT + 16 + 4, "<I", 0xFFFFFF00), "page 3 has an element outside of itself"),
    "a key over the others": (patched(LEAF_AT + 16 + 4, "<I", 0), "page 3 has an element outside of itself"),
    "a huge value": (patched(LEAF_AT + 16 + 12, "<I", 0xFFFFFFFF), "page 3 has an element outside of itself"),
    "elements that overlap": (patched(LEAF_AT + 16 + 12, "<I", 28000), "page 3 has an element outside of itself"),
    "pages in a circle": (of(cyclic), "page 3 is referred to twice"),
    "very deep": (of(deep), "is more than 64 levels deep"),
    "a branch without children": (
        of(lambda: (bolt := Bolt()).with_bucket(bolt.bucket(bolt.branch([])))),
        "page 3 is a branch without children",
    ),
    "the bucket is a value": (
        of(lambda: Bolt().with_bucket(b"short")),
        "'key' is no bucket",
    ),
    "an inline bucket that is cut off": (
        of(lambda: (bolt := Bolt()).with_bucket(bolt.bucket(0) + b"abc")),
        "the bucket 'key' has 3 bytes",
    ),
    "a bucket in the bucket": (of(nested), "there is a bucket in the bucket 'key'"),
    "out of order": (of_pairs(put(3, b"/registry/a"), put(2, b"/registry/b")), "the keys are not in order in page 3"),
    "no revision": (of_pairs((b"short", b"")), "73686f7274 is no revision of etcd"),
    "a negative revision": (of_pairs((b"\xff" + name(2)[1:], put(2, b"/registry/a")[1])), "is no revision of etcd"),
    "no KeyValue": (of_pairs((name(2), b"\x0a\xff\xff\xff\xff\x0fab")), "revision 2 is no KeyValue"),
    "a number without end": (of_pairs((name(2), b"\x18" + b"\xff" * 20)), "revision 2 is no KeyValue"),
    "a KeyValue that is cut off": (of_pairs((name(2), b"\x18")), "revision 2 is no KeyValue"),
    "of another revision": (of_pairs(put(2, b"/registry/a", modified=3)), "revision 2 has the key b'/registry/a' of"),
}


@pytest.mark.parametrize(("make", "reason"), DAMAGED.values(), ids=list(DAMAGED))
def test_corrupt_file_error(tmp_path: Path, make: Callable[[Path], Path], reason: str) -> None:
    path = make(tmp_path / "db")
    with pytest.raises(SnapshotFileError) as refused:
        read_keyspace(path, b"/registry/")
    assert str(refused.value).startswith(f"{path}: ")
    assert any(item in str(refused.value) for item in reason.split("|")), str(refused.value)


def test_non_snapshot_file_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SnapshotFileError, match="this is no file"):
        read_keyspace(tmp_path / "pipe", b"/")
    with pytest.raises(OSError):
        read_keyspace(tmp_path / "absent", b"/")


@cases(
    "bounds, reason",
    {
        "keys": ({"max_keys": 2}, "there are more than 2 keys"),
        "bytes": ({"max_bytes": 1000}, "the keys and values are of more than 1,000 bytes"),
    },
)
def test_memory_is_bounded(tmp_path: Path, bounds: dict[str, int], reason: str) -> None:
    path = Bolt().with_keys(PAIRS).write(tmp_path / "db")
    with pytest.raises(SnapshotFileError, match=reason):
        read_keyspace(path, b"/registry/", **bounds)


def test_any_corruption_gives_keys_or_an_error(tmp_path: Path) -> None:
    rng = random.Random(7)
    whole = Bolt(page_size=1024).with_keys(PAIRS, per_leaf=2).content()
    refused = 0
    began = time.process_time()
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            content[
                rng.randrange(len(content))
                if rng.random() < 0.3
                else rng.randrange(0, 40) + 1024 * rng.randrange(len(content) // 1024)
            ] = rng.randrange(256)
        path = etcd_snapshots.write(tmp_path / "db", bytes(content))
        try:
            read_keyspace(path, b"/registry/")
        except SnapshotFileError:
            refused += 1
    assert refused > 40
    assert time.process_time() - began < 20
