"""The scheduler's families: names, labels and buckets as upstream's, and values after a few decisions."""

import asyncio
from pathlib import Path

import pytest
from tests.controllermanager.metric_table import families, read_table, total
from tests.nodes.world import world

from pilothouse.api.core import PODS
from pilothouse.env import Env

TABLE = read_table(Path(__file__).parent / "upstream_metrics.txt")
PROFILE = "default-scheduler"


async def played(env: Env) -> str:
    """The page after: a pod that fits, one that never does, one that waits for another to go, one that preempts, one
    with a gate."""
    async with world(env, scheduler=True) as w:
        await w.create_node("n0", cpu="2")
        await w.create_node("n1", cpu="2")
        await asyncio.sleep(1)
        await w.create_pod("a", cpu="2")
        await w.create_pod("b", cpu="2")
        await w.create_pod("huge", cpu="9")
        await w.create_pod("gated", cpu="1", schedulingGates=[{"name": "example.com/wait"}])
        await asyncio.sleep(2)
        await w.create_pod("waits", cpu="2")
        await asyncio.sleep(2)
        await w.client.delete(PODS, "a", "default", grace_period_seconds=0)
        await asyncio.sleep(30)
        return w.scheduler_metrics.exposition()


@pytest.fixture
async def page(env: Env) -> str:
    return await played(env)


async def test_families_are_as_upstreams(page: str) -> None:
    shown = {name: metric for name, metric in families(page).items() if name.startswith("scheduler_")}
    known = {metric.name: metric for metric in TABLE}
    assert set(shown) <= set(known)
    assert {name: known[name] for name in shown} == shown
    sometimes = {"scheduler_pod_scheduled_after_flush_total"}
    assert set(known) - set(shown) <= sometimes


async def test_attempts_are_counted_by_result(page: str) -> None:
    attempts, seconds = "scheduler_schedule_attempts_total", "scheduler_scheduling_attempt_duration_seconds_count"
    for name in (attempts, seconds):
        assert total(page, name, result="scheduled", profile=PROFILE) == 3
        assert total(page, name, result="unschedulable", profile=PROFILE) >= 2
        assert total(page, name, result="error") == 0
    assert total(page, "scheduler_pod_scheduling_attempts_count") == 3
    assert total(page, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 2
    assert total(page, "scheduler_pod_scheduling_sli_duration_seconds_sum", attempts="2") >= 1.0
    assert total(page, "scheduler_preemption_attempts_total") >= 2


async def test_pending_pods_are_shown_by_queue(page: str) -> None:
    result = {
        queue: total(page, "scheduler_pending_pods", queue=queue) for queue in ("active", "backoff", "unschedulable")
    }
    assert result == {"active": 0, "backoff": 0, "unschedulable": 1}
    assert total(page, "scheduler_pending_pods", queue="gated") == 1
    assert total(page, "scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile=PROFILE) == 1
    assert total(page, "scheduler_cache_size", type="nodes") == 2
    assert total(page, "scheduler_goroutines", operation="binding") == 0


async def test_pods_come_into_queues_by_events(page: str) -> None:
    incoming = "scheduler_queue_incoming_pods_total"
    assert total(page, incoming, queue="active", event="UnschedulablePodAdd") == 4
    assert total(page, incoming, queue="unschedulable", event="ScheduleAttemptFailure") >= 2
    assert total(page, incoming, event="AssignedPodDelete") >= 1


async def test_extension_points_have_latencies(page: str) -> None:
    point = "scheduler_framework_extension_point_duration_seconds_count"
    assert total(page, point, extension_point="Filter", status="Success", profile=PROFILE) == 3
    assert total(page, point, extension_point="Filter", status="Unschedulable", profile=PROFILE) >= 2
    assert total(page, point, extension_point="Bind", status="Success", profile=PROFILE) == 3
    assert total(page, point, extension_point="PostFilter", status="Unschedulable") >= 2
