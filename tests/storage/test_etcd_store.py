"""The state of an etcd store after events and failures that the suite of all stores does not have."""

import pytest
from tests.conformance.stores import PlainCodec, PlainKeys
from tests.etcd import shared_etcd

from pilothouse.env import Env
from pilothouse.storage.etcd import messages
from pilothouse.storage.etcd.options import EtcdOptions
from pilothouse.storage.etcd.store import EtcdStore
from pilothouse.storage.etcd.transactions import KnownPair, OwnEvent

pytestmark = [pytest.mark.real, pytest.mark.real_loop(timeout=60)]

POD, QUOTA, OTHER = "/pods/d/a", "/resourcequotas/d/quota", "/resourcequotas/d/other"


def opened(env: Env, root: str) -> EtcdStore:
    options = EtcdOptions(servers=(shared_etcd().url,), compaction_interval=0)
    return EtcdStore.open(env, options, PlainKeys(root), PlainCodec())


async def test_revision_of_several_keys_is_complete_after_an_earlier_change_of_one(env: Env) -> None:
    """Both revisions are received together, as by a server with many watchers."""
    store = opened(env, shared_etcd().root())
    at = store.revision

    def event(key: str, revision: int) -> OwnEvent:
        return OwnEvent(messages.PUT, KnownPair(store.keys.etcd_key(key).encode(), b"v@", revision))

    batches: list[list[tuple[str, int]]] = []
    store.on_commit.append(lambda changes: batches.append([(change.key, change.revision - at) for change in changes]))
    try:
        await store._receive([event(QUOTA, at + 1), event(POD, at + 2), event(QUOTA, at + 2), event(OTHER, at + 2)])
    finally:
        await store.close()
    assert {record.key: record.revision - at for record in store.list("").records} == {POD: 2, QUOTA: 2, OTHER: 2}
    assert batches == [[(QUOTA, 1)], [(POD, 2), (QUOTA, 2), (OTHER, 2)]], "each revision atomically"
