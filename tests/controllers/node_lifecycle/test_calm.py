"""Which nodes a pass skips. What a look finds is in ``test_controller``."""

import asyncio
import datetime

import msgspec
import pytest
from tests.controllers.node_world import HEALTHY, World

from pilothouse.api.coordination import Lease, LeaseSpec
from pilothouse.api.core import Node, NodeCondition, NodeStatus
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.node.node_lifecycle import DESCRIPTOR
from pilothouse.controllers.node.node_lifecycle.calm import UnchangedNodes
from pilothouse.controllers.node.node_lifecycle.health import ClockReading, Health, observe_heartbeat
from pilothouse.runtime import Cache
from pilothouse.runtime.metrics import Histogram

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
GRACE = 50.0


def instant(seconds: float) -> ClockReading:
    return ClockReading(seconds, EPOCH + datetime.timedelta(seconds=seconds))


def lease(renewed: float) -> Lease:
    return Lease(
        metadata=ObjectMeta(name="n", namespace="kube-node-lease"),
        spec=LeaseSpec(renew_time=EPOCH + datetime.timedelta(seconds=renewed)),
    )


class ObservedNode:
    """A node that was observed in second 0, with a Lease of that second."""

    def __init__(self, zone: str | None = "z", *, bounded_cache: bool = True) -> None:
        ready = NodeCondition(type="Ready", status="True", last_heartbeat_time=EPOCH)
        self.node = Node(metadata=ObjectMeta(name="n", uid="u"), status=NodeStatus(conditions=(ready,)))
        self.leases: Cache[Lease] = Cache()
        self.renew(0)
        self.healths: dict[str, Health] = {}
        obj = self.leases.get("kube-node-lease/n")
        self.healths["n"] = observe_heartbeat(None, self.node, obj if bounded_cache else None, instant(0))
        self.calm = UnchangedNodes(self.leases, self.healths, GRACE)
        self.calm.add(self.node, obj, zone)

    def renew(self, seconds: float) -> None:
        self.leases.put("kube-node-lease/n", lease(seconds))

    def is_calm(self, seconds: float) -> bool:
        restless, ready = self.calm.partition([self.node], instant(seconds))
        assert bool(restless) != bool(ready), "it counts as ready or is looked at"
        return not restless


def test_node_is_skipped_within_the_grace_period() -> None:
    memory = ObservedNode()
    assert memory.is_calm(GRACE)
    assert not memory.is_calm(GRACE + 1)


def test_renewed_lease_keeps_the_node_skipped() -> None:
    memory = ObservedNode()
    memory.renew(40)
    assert memory.is_calm(45)
    assert memory.healths["n"].probed == 45, "silence counts from when the renewal was seen"
    assert memory.is_calm(45 + GRACE)
    assert not memory.is_calm(46 + GRACE)


def test_lease_with_an_older_renew_time_is_not_a_heartbeat() -> None:
    memory = ObservedNode()
    memory.renew(-10)
    assert memory.is_calm(GRACE)
    assert not memory.is_calm(GRACE + 1)


def test_changed_node_is_processed() -> None:
    memory = ObservedNode()
    memory.node = msgspec.structs.replace(memory.node, metadata=ObjectMeta(name="n", uid="u", resource_version="2"))
    assert not memory.is_calm(1)


def test_lease_counting_as_new_again_is_processed() -> None:
    """After a new heartbeat upstream discards the Lease, and an unchanged one counts in the next pass."""
    assert not ObservedNode(bounded_cache=False).is_calm(1)


def test_dropped_node_is_processed() -> None:
    memory = ObservedNode()
    memory.calm.drop("n")
    assert not memory.is_calm(1)


def test_excluded_node_is_skipped_and_not_counted() -> None:
    memory = ObservedNode(zone=None)
    assert memory.calm.partition([memory.node], instant(1)) == ([], {})


@pytest.mark.parametrize("count", [1, 7])
async def test_every_pass_observes_every_node_in_the_metrics(world: World, count: int) -> None:
    for number in range(count):
        await world.node(f"n{number}", conditions=HEALTHY)
        await world.renew(f"n{number}")
    await world.start(DESCRIPTOR)
    await asyncio.sleep(26)
    family = world.metrics.histogram("node_collector_update_node_health_duration_seconds", "", buckets=())
    labels = family.labels()
    assert isinstance(labels, Histogram)
    assert labels.count == 6 * count
    assert world.metrics.value("node_collector_zone_size", "") == count
