"""Snapshots of etcd: saved from a real one, as by ``etcdctl snapshot save``, or built page by page."""

import hashlib
import struct
from collections.abc import Sequence
from pathlib import Path

from pilothouse.storage.etcd_snapshot.bolt import fnv64a
from pilothouse.storage.etcd_snapshot.key_values import _fields

Pair = tuple[bytes, bytes]
BRANCH, LEAF, META, FREELIST = 1, 2, 4, 16
BUCKET = 1


def save(url: str, path: Path) -> Path:
    """Save a snapshot of the etcd at a URL: the blobs that ``Maintenance.Snapshot`` streams."""
    import grpc  # an extra

    with grpc.insecure_channel(url.removeprefix("http://")) as channel, path.open("wb") as file:
        snapshot = channel.unary_stream("/etcdserverpb.Maintenance/Snapshot")
        for response in snapshot(b"", timeout=60):
            blob = dict(_fields(response)).get(3, b"")
            assert isinstance(blob, bytes)
            file.write(blob)
    return path


def _varint(number: int) -> bytes:
    encoded = b""
    while number > 0x7F:
        encoded, number = encoded + bytes([number & 0x7F | 0x80]), number >> 7
    return encoded + bytes([number])


def put(revision: int, key: bytes, value: bytes = b"v", *, modified: int | None = None, sub: int = 0) -> Pair:
    """A put, as an entry of the bucket ``key``."""
    parts = b"\x0a" + _varint(len(key)) + key + b"\x10\x01\x18" + _varint(revision if modified is None else modified)
    return name(revision, sub), parts + b"\x20\x01\x2a" + _varint(len(value)) + value


def deletion(revision: int, key: bytes) -> Pair:
    """A deletion (tombstone), as an entry of the bucket ``key``."""
    return name(revision) + b"t", b"\x0a" + _varint(len(key)) + key


def name(revision: int, sub: int = 0) -> bytes:
    """The key of a revision."""
    return revision.to_bytes(8, "big") + b"_" + sub.to_bytes(8, "big")


class Bolt:
    """The pages of a bbolt database. ``write`` creates the file with its SHA-256."""

    def __init__(self, *, page_size: int = 4096, order: str = "<") -> None:
        self.page_size = page_size
        self.order = order
        self.pages: list[bytes] = [b"", b"", self._page(2, FREELIST, 0, b"")]
        self.root = 0

    def leaf(self, elements: Sequence[tuple[bytes, bytes, int]]) -> int:
        """Add a leaf with its overflow pages. Returns its page number."""
        return self._add(LEAF, len(elements), self._elements(elements))

    def branch(self, children: Sequence[tuple[bytes, int]]) -> int:
        """Add a branch. Returns its page number."""
        heads, tail = b"", b""
        for at, (key, child) in enumerate(children):
            heads += struct.pack(f"{self.order}IIQ", 16 * (len(children) - at) + len(tail), len(key), child)
            tail += key
        return self._add(BRANCH, len(children), heads + tail)

    def inline(self, pairs: Sequence[Pair]) -> bytes:
        """The value of an inline bucket."""
        elements = [(*pair, 0) for pair in pairs]
        header = struct.pack(f"{self.order}QHHI", 0, LEAF, len(elements), 0)
        return self.bucket(0) + header + self._elements(elements)

    def bucket(self, root: int) -> bytes:
        """The value of a bucket."""
        return struct.pack(f"{self.order}QQ", root, 0)

    def with_keys(self, pairs: Sequence[Pair], *, per_leaf: int = 0) -> "Bolt":
        """A database whose bucket ``key`` has these pairs, in leaves below a branch."""
        per_leaf = per_leaf or len(pairs) or 1
        leaves = []
        for at in range(0, len(pairs), per_leaf):
            some = pairs[at : at + per_leaf]
            leaves.append((some[0][0], self.leaf([(*pair, 0) for pair in some])))
        top = leaves[0][1] if len(leaves) == 1 else self.branch(leaves)
        return self.with_bucket(self.bucket(top))

    def with_bucket(self, value: bytes) -> "Bolt":
        """A database whose bucket ``key`` is that value."""
        others = [(b"alarm", self.inline([]), BUCKET), (b"key", value, BUCKET), (b"meta", self.inline([]), BUCKET)]
        self.root = self.leaf(others)
        return self

    def meta(self, number: int, transaction: int, *, pages: int = 0, root: int = 0, page_size: int = 0) -> bytes:
        """A meta page."""
        content = struct.pack(
            f"{self.order}4I5Q",
            0xED0CDAED,
            2,
            page_size or self.page_size,
            0,
            root or self.root,
            0,
            2,
            pages or sum(len(page) for page in self.pages[2:]) // self.page_size + 2,
            transaction,
        )
        return self._page(number, META, 0, content + struct.pack(f"{self.order}Q", fnv64a(content)))

    def content(self) -> bytes:
        """The file without its hash."""
        first = self.pages[0] or self.meta(0, 8)
        second = self.pages[1] or self.meta(1, 7)
        return b"".join((first, second, *self.pages[2:]))

    def write(self, path: Path) -> Path:
        """Create the file."""
        return write(path, self.content())

    def _add(self, kind: int, count: int, body: bytes) -> int:
        number = sum(len(page) for page in self.pages[2:]) // self.page_size + 2
        self.pages.append(self._page(number, kind, count, body))
        return number

    def _page(self, number: int, kind: int, count: int, body: bytes) -> bytes:
        overflow = (16 + len(body) - 1) // self.page_size
        head = struct.pack(f"{self.order}QHHI", number, kind, count, overflow)
        return (head + body).ljust((overflow + 1) * self.page_size, b"\0")

    def _elements(self, elements: Sequence[tuple[bytes, bytes, int]]) -> bytes:
        heads, tail, used = [], [], 0
        for at, (key, value, flags) in enumerate(elements):
            heads.append(struct.pack(f"{self.order}4I", flags, 16 * (len(elements) - at) + used, len(key), len(value)))
            tail += [key, value]
            used += len(key) + len(value)
        return b"".join((*heads, *tail))


def write(path: Path, content: bytes) -> Path:
    """Create a file with a valid hash."""
    path.write_bytes(content + hashlib.sha256(content).digest())
    return path
