"""Reads a bbolt database: the pairs of a bucket, in their order. Nothing else of bbolt is needed for a snapshot.

The format is that of go.etcd.io/bbolt (``internal/common/{meta,page,bucket}.go``, v1.4; the same since v1.3), in the
byte order of the machine that wrote it. A file consists of pages of one size. Pages 0 and 1 are meta pages, of which
the one with the later transaction is used; it has the root of a B+ tree whose leaves refer to the buckets, which are
such trees themselves, or, if they are small, a single leaf within the value. The content of a page may continue in the
following pages (overflow).

All values of the file are checked before they are used. Every page is read once, no byte belongs to two pages, and the
parts of a page do not overlap: so no file takes more time than its size justifies, nor more memory than its largest
page, which is bounded.
"""

import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

_MAGIC, _VERSION = 0xED0CDAED, 2
_BRANCH, _LEAF = 0x01, 0x02
_IS_BUCKET = 0x01
_PAGE_HEADER = 16
_ELEMENT = 16
_META_SIZE = 64
_CHECKSUMMED = 56
"""The bytes of a meta page's content that its checksum is of."""
_PAGE_SIZES = tuple(1024 << power for power in range(15))
"""The page sizes with which bbolt searches the second meta page (``db.go``)."""
_MAX_DEPTH = 64
"""A branch has at least two children, so that no tree of 2^64 bytes is deeper."""
MAX_PAGE = 64 * 1024 * 1024
"""Maximum bytes of one page with its overflow. A leaf exceeds a page by at most one request of a client, which etcd
limits to 1.5 MiB unless ``--max-request-bytes`` is larger."""
_TRAILER = hashlib.sha256().digest_size
_CHUNK = 1 << 20


class SnapshotFileError(ValueError):
    """A file that cannot be read as a snapshot of etcd. The message has the file and the reason."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason


class _Damaged(Exception):
    """The reason, without the name of the file."""


class _Meta(msgspec.Struct, frozen=True):
    order: str
    page_size: int
    root: int
    pages: int
    """The first page that is not in use (the high water mark)."""
    transaction: int


class BoltSnapshot:
    """An open snapshot, whose trailing hash was verified. Use it as a context manager.

    Raises ``SnapshotFileError``, and ``OSError`` when the file can't be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        # Without O_NONBLOCK, opening a named pipe blocks until somebody writes.
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        self._file: BinaryIO = os.fdopen(descriptor, "rb", buffering=0)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self.error("this is no file")
            self._size = status.st_size - _TRAILER
            self._left = self._size
            self._seen: set[int] = set()
            self._verify_hash()
            self._meta = self._newest_meta()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def error(self, reason: str) -> SnapshotFileError:
        """An error about this file."""
        return SnapshotFileError(self.path, reason)

    def pairs(self, bucket: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The keys and values of a top-level bucket, in the order of the keys; none if it does not exist. Can be called
        once. Raises ``SnapshotFileError``."""
        try:
            for name, value, flags in self._tree(self._meta.root):
                if name == bucket:
                    yield from self._bucket(bucket.decode(), value, flags)
                    return
        except _Damaged as damaged:
            raise self.error(f"the database is damaged: {damaged}") from None

    # The file

    def _verify_hash(self) -> None:
        if self._size < 2 * _PAGE_SIZES[0]:
            raise self.error(
                f"it has {self._size + _TRAILER} bytes, which is too short for a snapshot of etcd: it was cut off, or "
                "is something else"
            )
        # etcdutl decides by the size as well (``etcdutl/snapshot/v3_snapshot.go``, hasChecksum, v3.6).
        if self._size % 512:
            start = self._read_at(0, _PAGE_HEADER + _META_SIZE)
            if self._parse_meta(start[_PAGE_HEADER:]) is None:
                raise self.error('this is no snapshot of etcd, as "etcdctl snapshot save" writes it')
            raise self.error(
                "there is no SHA-256 hash at its end: the snapshot was cut off, or the file is the database of a "
                'member and not one that "etcdctl snapshot save" has written'
            )
        digest, remaining = hashlib.sha256(), self._size
        self._file.seek(0)
        while remaining:
            chunk = self._file.read(min(remaining, _CHUNK))
            if not chunk:
                raise self.error("it became shorter while it was read")
            digest.update(chunk)
            remaining -= len(chunk)
        if self._read_at(self._size, _TRAILER) != digest.digest():
            start = self._read_at(0, _PAGE_HEADER + _META_SIZE)
            if self._parse_meta(start[_PAGE_HEADER:]) is None:
                raise self.error('this is no snapshot of etcd, as "etcdctl snapshot save" writes it')
            raise self.error("the SHA-256 hash at its end is not that of its content: the file was cut off or changed")

    def _read_at(self, offset: int, size: int) -> bytes:
        """Bytes of the file."""
        self._file.seek(offset)
        chunks = []
        while size:
            chunk = self._file.read(size)
            if not chunk:
                raise self.error(f"it ends before byte {offset + size}: the snapshot was cut off")
            chunks.append(chunk)
            size -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    # Meta pages

    def _newest_meta(self) -> _Meta:
        first = self._read_meta(0)
        # Without the first one, the position of the second one is unknown.
        sizes = _PAGE_SIZES if first is None else (first.page_size,)
        metas = [
            meta
            for meta in (first, *(self._read_meta(size, size) for size in sizes if size + _META_SIZE < self._size))
            if meta is not None
        ]
        if not metas:
            raise self.error("neither of the two meta pages of the database is valid: the file is damaged")
        meta = max(metas, key=lambda candidate: candidate.transaction)
        if meta.page_size not in _PAGE_SIZES:
            raise self.error(f"the database is damaged: its pages are said to have {meta.page_size} bytes")
        if self._size % meta.page_size:
            raise self.error(f"the database is damaged: it is no whole number of pages of {meta.page_size} bytes")
        if meta.pages > self._size // meta.page_size:
            complete = self._size // meta.page_size
            raise self.error(f"the database is damaged: it has {complete} pages of the {meta.pages} that are in use")
        return meta

    def _read_meta(self, offset: int, page_size: int = 0) -> _Meta | None:
        """The meta page there, None if there is none."""
        meta = self._parse_meta(self._read_at(offset, _PAGE_HEADER + _META_SIZE)[_PAGE_HEADER:])
        return meta if meta is not None and page_size in (0, meta.page_size) else None

    def _parse_meta(self, content: bytes) -> _Meta | None:
        for order in "<", ">":
            magic, version, page_size, _flags, root, _sequence, _freelist, pages, transaction, checksum = struct.unpack(
                f"{order}4I6Q", content
            )
            if (magic, version) == (_MAGIC, _VERSION) and checksum == fnv64a(content[:_CHECKSUMMED]):
                return _Meta(order, page_size, root, pages, transaction)
        return None

    # Pages

    def _bucket(self, name: str, value: bytes, flags: int) -> Iterator[tuple[bytes, bytes]]:
        if not flags & _IS_BUCKET or len(value) < _PAGE_HEADER:
            raise _Damaged(f"{name!r} is no bucket")
        (root,) = struct.unpack_from(f"{self._meta.order}Q", value)
        entries = self._tree(root) if root else self._leaf(value[_PAGE_HEADER:], f"the bucket {name!r}")
        for key, value_in_bucket, element_flags in entries:
            if element_flags & _IS_BUCKET:
                raise _Damaged(f"there is a bucket in the bucket {name!r}")
            yield key, value_in_bucket

    def _tree(self, root: int) -> Iterator[tuple[bytes, bytes, int]]:
        """The elements of the leaves below a page, in order: keys, values, flags."""
        previous_key = b""
        stack = [iter((root,))]
        while stack:
            number = next(stack[-1], None)
            if number is None:
                stack.pop()
                continue
            page, kind = self._page(number)
            page_name = f"page {number}"
            if kind == _BRANCH:
                if len(stack) >= _MAX_DEPTH:
                    raise _Damaged(f"{page_name} is more than {_MAX_DEPTH} levels deep")
                stack.append(iter(self._children(page, page_name)))
                continue
            for element in self._leaf(page, page_name):
                if element[0] <= previous_key:
                    raise _Damaged(f"the keys are not in order in {page_name}")
                previous_key = element[0]
                yield element

    def _page(self, number: int) -> tuple[bytes, int]:
        """A page with its overflow, and whether it is a branch or a leaf."""
        size, pages = self._meta.page_size, self._meta.pages
        if not 2 <= number < pages:
            raise _Damaged(f"it refers to page {number}, and its pages are 2 to {pages - 1}")
        if number in self._seen:
            raise _Damaged(f"page {number} is referred to twice")
        self._seen.add(number)
        header = self._read_at(number * size, _PAGE_HEADER)
        page_id, kind, _count, overflow = struct.unpack(f"{self._meta.order}QHHI", header)
        if page_id != number:
            raise _Damaged(f"page {number} has the number {page_id}")
        if kind not in (_BRANCH, _LEAF):
            raise _Damaged(f"page {number} is neither a branch nor a leaf (flags {kind:#x})")
        total_size = (overflow + 1) * size
        if number + overflow >= pages:
            raise _Damaged(f"page {number} goes on in {overflow} more pages, beyond the end")
        if total_size > MAX_PAGE:
            raise _Damaged(f"page {number} has {total_size:,} bytes, and at most {MAX_PAGE:,} are read")
        self._left -= total_size
        if self._left < 0:
            raise _Damaged(f"page {number} overlaps with others")
        return self._read_at(number * size, total_size), kind

    def _children(self, page: bytes, page_name: str) -> list[int]:
        count = self._count(page, page_name)
        if not count:
            raise _Damaged(f"{page_name} is a branch without children")
        elements = struct.iter_unpack(f"{self._meta.order}IIQ", page[_PAGE_HEADER : _PAGE_HEADER + count * _ELEMENT])
        return [child for _position, _key_size, child in elements]

    def _leaf(self, page: bytes, page_name: str) -> list[tuple[bytes, bytes, int]]:
        if len(page) < _PAGE_HEADER:
            raise _Damaged(f"{page_name} has {len(page)} bytes")
        (kind,) = struct.unpack_from(f"{self._meta.order}H", page, 8)
        if kind != _LEAF:
            raise _Damaged(f"{page_name} is no leaf (flags {kind:#x})")
        end = _PAGE_HEADER + self._count(page, page_name) * _ELEMENT
        used = offset = _PAGE_HEADER
        leaf_elements = []
        for flags, position, key_size, value_size in struct.iter_unpack(
            f"{self._meta.order}4I", page[_PAGE_HEADER:end]
        ):
            start = offset + position
            middle = start + key_size
            used += _ELEMENT + key_size + value_size
            if start < end or middle + value_size > len(page) or used > len(page):
                raise _Damaged(f"{page_name} has an element outside of itself")
            leaf_elements.append((page[start:middle], page[middle : middle + value_size], flags))
            offset += _ELEMENT
        return leaf_elements

    def _count(self, page: bytes, page_name: str) -> int:
        count: int = struct.unpack_from(f"{self._meta.order}H", page, 10)[0]
        if _PAGE_HEADER + count * _ELEMENT > len(page):
            raise _Damaged(f"{page_name} is said to have {count} elements, which don't fit into it")
        return count


def fnv64a(data: bytes) -> int:
    """The FNV-1a hash that meta pages have."""
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest
