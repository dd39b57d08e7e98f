"""What a store on etcd has to know about keys and values, which it doesn't read itself."""

from typing import Protocol


class Keys(Protocol):
    """Between the keys of the store and those in etcd. Each maps to one of the other side."""

    root: str
    """What every key in etcd begins with; it ends in a slash."""

    def etcd_key(self, key: str) -> str:
        """Where etcd has what the store has under that key."""
        ...

    def key(self, etcd_key: str) -> str | None:
        """The store's key of what etcd has there; None for what is none of the store's."""
        ...


class Codec(Protocol):
    """Between values of the store, which may contain their revision, and those in etcd, which don't."""

    def encode(self, key: str, value: bytes) -> bytes:
        """The value in etcd."""
        ...

    def decode(self, key: str, data: bytes, revision: int) -> bytes:
        """The value of the store. Raises ``ValueError`` for what is none."""
        ...

    def with_revision(self, value: bytes, old: int, new: int) -> bytes:
        """A value of the store that was made for one revision, for another."""
        ...
