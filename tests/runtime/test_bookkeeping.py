"""Expectations, the consistency store, backoff and slow start."""

import asyncio

import pytest
from tests.runtime.scripted import ScriptedServer
from tests.tables import cases

from pilothouse.api.apps import REPLICA_SETS
from pilothouse.api.core import PODS
from pilothouse.client import Client
from pilothouse.env import Env
from pilothouse.runtime import (
    Backoff,
    ConsistencyStore,
    Expectations,
    Registry,
    SharedInformer,
    StaleCache,
    UidTrackingExpectations,
    read_versions,
    slow_start,
)
from pilothouse.runtime.batches import Futile

KEY = "default/web"


async def test_unfulfilled_creation_expectation_expires_after_five_minutes(env: Env) -> None:
    expectations = Expectations(env)
    assert expectations.satisfied(KEY), "nothing was ever expected"
    expectations.expect_creations(KEY, 2)
    expectations.creation_observed(KEY)
    assert not expectations.satisfied(KEY)
    await asyncio.sleep(300)
    assert not expectations.satisfied(KEY)
    assert expectations.expires_in(KEY) == pytest.approx(0.001)
    await asyncio.sleep(0.1)
    assert expectations.satisfied(KEY)
    assert expectations.expires_in(KEY) is None
    record = expectations.get(KEY)
    assert record is not None, "expired is not forgotten"
    assert record.adds == 1


async def test_set_raise_and_lower_expectations(env: Env) -> None:
    expectations = Expectations(env)
    expectations.lower(KEY, 5, 5)
    expectations.creation_observed(KEY)
    expectations.deletion_counted(KEY)
    expectations.raise_(KEY, 1, 1)
    assert expectations.get(KEY) is None
    expectations.expect_creations(KEY, 3)
    expectations.set(KEY, 0, 2)
    record = expectations.get(KEY)
    assert record is not None
    assert (record.adds, record.deletions) == (0, 2)
    expectations.raise_(KEY, 1, 0)
    expectations.lower(KEY, 1, 1)
    assert not expectations.satisfied(KEY)
    expectations.deletion_counted(KEY)
    expectations.deletion_counted(KEY)
    assert (record.adds, record.deletions) == (0, -1), "below zero is as good as zero"
    assert expectations.satisfied(KEY)
    expectations.expect_creations(KEY, 1)
    expectations.delete(KEY)
    assert expectations.satisfied(KEY)


async def test_deletion_is_observed_once_and_only_if_expected(env: Env) -> None:
    expectations = UidTrackingExpectations(env)
    expectations.expect_deletions(KEY, ["default/a", "default/b"])
    expectations.deletion_observed(KEY, "default/a")
    expectations.deletion_observed(KEY, "default/a")
    expectations.deletion_observed(KEY, "default/stranger")
    assert not expectations.satisfied(KEY)
    assert expectations.expected_deletions(KEY) == {"default/b"}
    expectations.deletion_observed(KEY, "default/b")
    assert expectations.satisfied(KEY)
    expectations.deletion_observed("default/other", "default/b")
    expectations.expect_deletions(KEY, ["default/c"])
    expectations.delete(KEY)
    assert expectations.expected_deletions(KEY) == frozenset()


async def test_expected_deletion_has_its_owner_until_observed_or_deleted(env: Env) -> None:
    expectations = UidTrackingExpectations(env)
    expectations.expect(KEY, 1, ["default/a", "default/b"])
    assert (expectations.awaited_by("default/a"), expectations.awaited_by("default/c")) == (KEY, None)
    expectations.deletion_observed(KEY, "default/a")
    assert expectations.awaited_by("default/a") is None
    expectations.expect_creations(KEY, 1)
    assert expectations.awaited_by("default/b") is None, "replaced"
    expectations.expect_deletions(KEY, ["default/b"])
    expectations.expect_deletions("default/other", ["default/b"])
    expectations.delete(KEY)
    assert expectations.awaited_by("default/b") == "default/other", "the last who asked"


@cases(
    "read, wrote, stale",
    {
        "behind: longer is newer": ("9", "10", True),
        "equal": ("10", "10", False),
        "ahead": ("11", "10", False),
        "no resourceVersion read yet": ("", "10", False),
        "incomparable resourceVersion read": ("09", "10", False),
        "incomparable resourceVersion written": ("9", "not-a-version", False),
    },
)
def test_cache_behind_an_own_write_is_stale(read: str, wrote: str, stale: bool) -> None:
    consistency_store = ConsistencyStore({"pods": lambda: read})
    consistency_store.wrote_at(KEY, "u1", "pods", wrote)
    if stale:
        with pytest.raises(StaleCache) as caught:
            consistency_store.ensure_ready(KEY)
        assert (
            str(caught.value)
            == f"read version: {read} is not as new as written version: {wrote} for group resource pods"
        )
    else:
        consistency_store.ensure_ready(KEY)


def test_consistency_store_keeps_the_newest_write_per_owner_and_resource() -> None:
    read = {"pods": "5", "replicasets.apps": "5"}
    metrics = Registry()
    consistency_store = ConsistencyStore(
        {name: (lambda name=name: read[name]) for name in read},  # type: ignore[misc]
        prefix="replicaset",
        metrics=metrics,
    )
    consistency_store.wrote_at(KEY, "u1", "pods", "8")
    consistency_store.wrote_at(KEY, "u1", "pods", "7")
    consistency_store.wrote_at(KEY, "u1", "replicasets.apps", "6")
    consistency_store.ensure_ready("default/other")
    for stale in ("pods", "pods"):
        with pytest.raises(StaleCache, match="written version: 8"):
            consistency_store.ensure_ready(KEY)
        read[stale] = "7"
    read["pods"] = "8"
    with pytest.raises(StaleCache, match="replicasets"):
        consistency_store.ensure_ready(KEY)
    read["replicasets.apps"] = "20"
    consistency_store.ensure_ready(KEY)
    read["pods"] = "1"
    consistency_store.ensure_ready(KEY)  # what was read once is forgotten
    assert metrics.value("replicaset_controller_stale_sync_skips_total", "", "pods") == 2
    assert metrics.value("replicaset_controller_stale_sync_skips_total", "apps", "replicasets") == 1


async def test_consistency_store_reads_the_resource_version_of_each_informer(env: Env) -> None:
    client = Client(ScriptedServer(env, []), env)
    pods, sets = SharedInformer(client, env, PODS), SharedInformer(client, env, REPLICA_SETS)
    consistency_store = ConsistencyStore(read_versions(pods, sets))
    for resource in ("pods", "replicasets.apps"):
        consistency_store.wrote_at(KEY, "u1", resource, "8")
    pods.cache.resource_version, sets.cache.resource_version = "8", "7"
    with pytest.raises(StaleCache, match="for group resource replicasets"):
        consistency_store.ensure_ready(KEY)
    pods.cache.resource_version, sets.cache.resource_version = "7", "8"
    consistency_store.wrote_at(KEY, "u1", "pods", "9")
    with pytest.raises(StaleCache, match="for group resource pods"):
        consistency_store.ensure_ready(KEY)
    pods.cache.resource_version = "9"
    consistency_store.ensure_ready(KEY)


def test_consistency_store_clears_an_owner_by_uid() -> None:
    consistency_store = ConsistencyStore({"pods": lambda: "1"})
    consistency_store.wrote_at(KEY, "u1", "pods", "8")
    consistency_store.clear(KEY, "u2")
    with pytest.raises(StaleCache):
        consistency_store.ensure_ready(KEY)
    consistency_store.wrote_at(KEY, "u2", "replicasets.apps", "3")
    consistency_store.ensure_ready(KEY)
    consistency_store.wrote_at(KEY, "u2", "pods", "9")
    consistency_store.clear(KEY)
    consistency_store.ensure_ready(KEY)


async def test_backoff_doubles_to_its_maximum_and_resets_after_twice_that(env: Env) -> None:
    backoff = Backoff(env, 1.0, 5.0)
    assert not backoff.is_in_backoff(KEY)
    waits = []
    for _ in range(4):
        backoff.next(KEY)
        waits.append(backoff.get(KEY))
    assert waits == [1.0, 2.0, 4.0, 5.0]
    assert backoff.is_in_backoff(KEY)
    await asyncio.sleep(2)
    assert backoff.remaining(KEY) == 3.0
    await asyncio.sleep(3.1)
    assert not backoff.is_in_backoff(KEY)
    backoff.collect()
    assert backoff.get(KEY) == 5.0
    await asyncio.sleep(5)
    backoff.collect()
    assert backoff.get(KEY) == 0.0
    backoff.next(KEY)
    backoff.next(KEY)
    await asyncio.sleep(10.1)
    backoff.next(KEY)
    assert backoff.get(KEY) == 1.0, "an entry not touched for more than twice the maximum starts over"
    backoff.reset(KEY)
    assert not backoff.is_in_backoff(KEY)


@cases(
    "count, initial, fails, batches, outcome",
    {
        "zero": (0, 1, set(), [], (0, None)),
        "one": (1, 1, set(), [1], (1, None)),
        "batches double": (10, 1, set(), [1, 2, 4, 3], (10, None)),
        "from a larger start": (10, 5, set(), [5, 5], (10, None)),
        "a failure ends it after its batch": (10, 1, {2}, [1, 2], (2, "2")),
        "failure in the first batch": (10, 1, {0}, [1], (0, "0")),
        "the first failure is the one reported": (10, 1, {4, 5}, [1, 2, 4], (5, "4")),
    },
)
async def test_slow_start(
    env: Env, count: int, initial: int, fails: set[int], batches: list[int], outcome: tuple[int, str | None]
) -> None:
    started: dict[float, int] = {}

    async def call(index: int) -> None:
        started[env.monotonic()] = started.get(env.monotonic(), 0) + 1
        await asyncio.sleep(1.0)
        if index in fails:
            raise ValueError(str(index))

    succeeded, error = await slow_start(count, initial, call)
    assert (list(started.values()), (succeeded, str(error) if error is not None else None)) == (batches, outcome)


@cases(
    "failing, outcome",
    {
        "futile: the rest is skipped": ({1: Futile()}, (10, None)),
        "futile and failed in one batch": ({1: ValueError("1"), 2: Futile()}, (2, "1")),
    },
)
async def test_slow_start_stops_after_a_failed_batch(
    failing: dict[int, Exception], outcome: tuple[int, str | None]
) -> None:
    called: list[int] = []

    async def call(index: int) -> None:
        called.append(index)
        if index in failing:
            raise failing[index]

    succeeded, error = await slow_start(10, 1, call)
    assert (called, (succeeded, str(error) if error is not None else None)) == ([0, 1, 2], outcome)


async def test_slow_start_batch_size_is_limited(env: Env) -> None:
    started: dict[float, int] = {}

    async def call(_index: int) -> None:
        started[env.monotonic()] = started.get(env.monotonic(), 0) + 1
        await asyncio.sleep(1.0)

    assert await slow_start(14, 1, call, max_size=5) == (14, None)
    assert list(started.values()) == [1, 2, 4, 5, 2]


async def test_cancelled_slow_start_cancels_its_batch(env: Env) -> None:
    running = 0

    async def call(_index: int) -> None:
        nonlocal running
        running += 1
        try:
            await asyncio.sleep(100)
        finally:
            running -= 1

    task = asyncio.create_task(slow_start(10, 4, call))
    await asyncio.sleep(1)
    assert running == 4
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0)
    assert running == 0
