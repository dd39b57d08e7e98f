"""Immediate and delayed enqueueing of pod owners."""

from tests.controllers.gates import gate

from pilothouse.api.apps import REPLICA_SETS, ReplicaSet
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.pod_events import GATHER_SECONDS, PodEvents
from pilothouse.env import Env, Log
from pilothouse.runtime import Cache


class Enqueuer:
    """A queue that only records its keys."""

    def __init__(self) -> None:
        self.given: list[tuple[str, float]] = []

    def add(self, key: str) -> None:
        self.given.append((key, 0.0))

    def add_after(self, key: str, delay: float) -> None:
        self.given.append((key, delay))


def owner(uid: str) -> ReplicaSet:
    return ReplicaSet(metadata=ObjectMeta(namespace="default", name="web", uid=uid))


async def test_owner_in_a_terminating_namespace_is_delayed_and_its_successor_is_not(env: Env) -> None:
    """The rejected create may return after the owner and its namespace were deleted and recreated."""
    owners, queue = Cache[ReplicaSet]("owners"), Enqueuer()
    events: PodEvents[ReplicaSet] = PodEvents(gate(env, REPLICA_SETS, owners), queue, Log("test"))
    first, second = owner("1"), owner("2")
    owners.put("default/web", first)
    events.namespace_terminating(first.metadata)
    events.update_owner(first, first)
    assert queue.given.pop() == ("default/web", GATHER_SECONDS)
    owners.drop("default/web")
    events.delete_owner(first, False)
    events.namespace_terminating(first.metadata)
    owners.put("default/web", second)
    events.namespace_terminating(first.metadata)
    events.add_owner(second, False)
    assert queue.given.pop() == ("default/web", 0.0)
