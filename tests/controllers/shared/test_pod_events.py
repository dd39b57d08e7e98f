"""What wakes the owners of pods: who is woken at once, and who is held back."""

from typing import Any

from pilothouse.api.apps import REPLICA_SETS, ReplicaSet
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.shared.ending import GATHER_SECONDS
from pilothouse.controllers.shared.pod_events import PodEvents
from pilothouse.env import Env, Log
from pilothouse.runtime import Cache, UidTrackingExpectations


class Enqueuer:
    """A queue that only notes what it is given."""

    def __init__(self) -> None:
        self.given: list[tuple[str, float]] = []

    def add(self, key: str) -> None:
        self.given.append((key, 0.0))

    def add_after(self, key: str, delay: float) -> None:
        self.given.append((key, delay))


def owner(uid: str) -> ReplicaSet:
    return ReplicaSet(metadata=ObjectMeta(namespace="default", name="web", uid=uid))


def events(env: Env, owners: Cache[ReplicaSet], queue: Enqueuer) -> PodEvents[ReplicaSet]:
    made: PodEvents[Any] = PodEvents(
        REPLICA_SETS,
        owners=owners,
        queue=queue,
        expectations=UidTrackingExpectations(env),
        consistency_store=None,
        selector_of=lambda _owner: None,
        ready_delay=lambda _owner: 0.0,
        log=Log("test"),
    )
    return made


async def test_an_owner_whose_pods_are_refused_is_held_back_and_its_successor_is_not(env: Env) -> None:
    """The refusal may be heard of after the owner has gone, and its namespace, and another one has its name."""
    owners, queue = Cache[ReplicaSet]("owners"), Enqueuer()
    told = events(env, owners, queue)
    first, second = owner("1"), owner("2")
    owners.put("default/web", first)
    told.refused(first.metadata)
    told.owner_changed(first, first)
    assert queue.given.pop() == ("default/web", GATHER_SECONDS)
    owners.drop("default/web")
    told.owner_gone(first, False)
    told.refused(first.metadata)
    owners.put("default/web", second)
    told.refused(first.metadata)
    told.owner_added(second, False)
    assert queue.given.pop() == ("default/web", 0.0)
