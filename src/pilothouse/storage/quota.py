"""Limits on the size of values and of all of them, as etcd has: ``--max-request-bytes`` and ``--quota-backend-bytes``.

All objects are in memory. Without a limit, a client that may create objects can use all memory of the machine.
"""

from collections.abc import Iterable

from pilothouse.storage.errors import BackendError
from pilothouse.storage.records import Record

DEFAULT_QUOTA_BYTES = 2 * 1024 * 1024 * 1024
"""etcd's ``DefaultQuotaBytes`` (v3.6 ``server/storage/quota.go``)."""
MAX_VALUE_BYTES = 3 * 1024 * 1024
"""etcd's ``--max-request-bytes`` is 1.5 MiB. There most objects are in protobuf, which takes half as much as JSON."""
_SMALL_BYTES = 1024
_RECORD_OVERHEAD = 200
"""Bytes of a record in memory without its key and its value."""


class DatabaseSpaceExceeded(BackendError):
    """The write would exceed the quota."""

    def __init__(self) -> None:
        super().__init__("etcdserver: mvcc: database space exceeded")


class RequestTooLarge(BackendError):
    """The value is too large."""

    def __init__(self) -> None:
        super().__init__("etcdserver: request is too large")


class Quota:
    """The size of the state, staged writes included, and its limit.

    Unlike etcd's, it needs no alarm to be disarmed: writes succeed again as soon as enough was deleted. A twentieth is
    reserved for updates that add little to an object: graceful deletion, finalizers, status and Leases go on.
    """

    __slots__ = ("_limit", "size")

    def __init__(self, limit: int, records: Iterable[Record]) -> None:
        self._limit = limit
        self.size = 0
        self.measure(records)

    def measure(self, records: Iterable[Record]) -> None:
        """Start over with these records."""
        self.size = sum(len(record.key) + record.size + _RECORD_OVERHEAD for record in records)

    def write(self, key: str, value: bytes, current: Record | None) -> None:
        """Add a value that is to be written. Raises ``RequestTooLarge`` or ``DatabaseSpaceExceeded``."""
        growth = len(value) - current.size if current is not None else len(key) + len(value) + _RECORD_OVERHEAD
        if growth > 0:
            if len(value) > MAX_VALUE_BYTES:
                raise RequestTooLarge
            limit = self._limit
            if current is not None and growth <= _SMALL_BYTES:
                limit += limit // 20
            if self.size + growth > limit:
                raise DatabaseSpaceExceeded
        self.size += growth

    def delete(self, current: Record) -> None:
        """Subtract a record that is to be deleted."""
        self.size -= len(current.key) + current.size + _RECORD_OVERHEAD
