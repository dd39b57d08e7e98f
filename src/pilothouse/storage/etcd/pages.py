"""Reads the keys under a prefix in etcd, in pages: the current state, or an earlier revision."""

from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.env import Env
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.client import EtcdClient
from pilothouse.storage.etcd.codecs import Keys
from pilothouse.storage.memory import MemoryStore
from pilothouse.storage.records import Page, Record

_PAGE = 1000
"""Maximum number of keys per request."""


class PastStore(MemoryStore):
    """A page of an earlier revision as a store, so that lists read it as they read any other; ``remaining`` keys follow
    the page."""

    def __init__(self, env: Env, records: list[Record], revision: int, remaining: int, *, has_unreadable: bool) -> None:
        super().__init__(env, records=records, revision=revision)
        self._has_unreadable = has_unreadable
        self._remaining = remaining

    @property
    def has_unreadable(self) -> bool:
        return self._has_unreadable

    def list(self, prefix: str, *, after: str = "", limit: int = 0, revision: int = 0) -> Page:
        page = super().list(prefix, after=after, limit=limit, revision=revision)
        return msgspec.structs.replace(page, more=True, remaining=self._remaining) if self._remaining else page


def key_of(keys: Keys, pair: Any) -> str | None:
    """The store's key of a pair; None if it does not belong to the store."""
    try:
        return keys.key(pair.key.decode())
    except UnicodeDecodeError:
        return None  # no server of Kubernetes writes such keys


def page_request(root: bytes, after: bytes | None, revision: int) -> Any:
    """The request for the keys after a key, or for the first ones; revision 0 is the latest one."""
    key = root if after is None else after + b"\0"
    return messages.RangeRequest(key=key, range_end=messages.range_end(root), limit=_PAGE, revision=revision)


def read_all(send: Callable[[Any], Any], root: bytes) -> tuple[list[Any], int]:
    """All pairs, at one revision. ``send`` sends a request without an event loop."""
    pairs: list[Any] = []
    revision, after = 0, None
    while True:
        response = send(page_request(root, after, revision))
        revision = revision or response.header.revision
        pairs += response.kvs
        if not response.more:
            return pairs, revision
        after = response.kvs[-1].key


async def read_all_async(
    client: EtcdClient, root: bytes, revision: int = 0, after: bytes | None = None
) -> tuple[list[Any], int]:
    """``read_all`` on the event loop, at a revision, from after a key."""
    pairs: list[Any] = []
    while True:
        response = await client.range(page_request(root, after, revision))
        revision = revision or response.header.revision
        pairs += response.kvs
        if not response.more:
            return pairs, revision
        after = response.kvs[-1].key
