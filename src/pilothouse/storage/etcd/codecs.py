"""The interface by which a store on etcd encodes keys and values, which it does not interpret itself."""

from typing import Protocol


class Keys(Protocol):
    """Between the keys of the store and those in etcd. Each maps to one of the other side."""

    root: str
    """The prefix of all keys in etcd; it ends in a slash."""

    def etcd_key(self, key: str) -> str:
        """The key in etcd of a key of the store."""
        ...

    def key(self, etcd_key: str) -> str | None:
        """The store's key of a key in etcd; None if it does not belong to the store."""
        ...


class Codec(Protocol):
    """Between values of the store, which may contain their revision, and those in etcd, which don't."""

    def encode(self, key: str, value: bytes) -> bytes:
        """The value in etcd."""
        ...

    def decode(self, key: str, data: bytes, revision: int) -> bytes:
        """The value of the store. Raises ``ValueError`` if it is invalid."""
        ...

    def with_revision(self, value: bytes, old: int, new: int) -> bytes:
        """A value of the store that was created for one revision, with another revision."""
        ...
