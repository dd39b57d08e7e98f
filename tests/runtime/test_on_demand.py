"""Programs that are built with the first object they have work for."""

import asyncio

import pytest
from tests.runtime.cluster import Cluster
from tests.tables import cases

from pilothouse.api.core import CONFIG_MAPS, SECRETS
from pilothouse.client import merge_patch
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import InformerFactory
from pilothouse.runtime.on_demand import OnDemand, keep_raw_for, supports_on_demand
from pilothouse.runtime.watches import Watch, any_object

MARKED = Watch(kind=CONFIG_MAPS, predicate=lambda found: found.metadata.labels.get("wakes") == "yes")
SLEEP = 1.0


class OnDemandFixture:
    """A server with one program that waits for objects, and the program's events."""

    def __init__(self, env: Env, *watches: Watch, error: Exception | None = None) -> None:
        self.cluster = Cluster(env)
        self.informers = InformerFactory(self.cluster.client(), env)
        self.events: list[str] = []
        self._error = error
        self.program = OnDemand("sleeper", watches, self.informers, self._build)

    async def _build(self) -> "OnDemandFixture":
        if self._error is not None:
            raise self._error
        self.events.append("built")
        return self

    async def run(self) -> None:
        self.events.append("runs")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.events.append("ends")

    def start(self, group: TaskGroup) -> None:
        self.informers.start(group)
        group.start(self.program.run())

    async def both(self) -> None:
        """Until one of them fails."""
        async with TaskGroup("test") as group:
            self.start(group)

    async def put(self, name: str, *, wakes: str = "") -> None:
        body = {"metadata": {"name": name, "labels": {"wakes": wakes}}}
        await self.cluster.admin().create(CONFIG_MAPS.raw, body, "default")
        await asyncio.sleep(SLEEP)

    async def relabel(self, name: str) -> None:
        labels = merge_patch({"metadata": {"labels": {"wakes": "yes"}}})
        await self.cluster.admin().patch(CONFIG_MAPS.raw, name, labels, "default")
        await asyncio.sleep(SLEEP)


async def test_program_is_built_with_the_first_matching_object(
    env: Env,
) -> None:
    world = OnDemandFixture(env, MARKED)
    async with TaskGroup("test") as group:
        world.start(group)
        await world.put("other")
        assert world.events == []
        await world.put("first", wakes="yes")
        await world.put("second", wakes="yes")
        assert world.events == ["built", "runs"]
        group.cancel()
    assert world.events == ["built", "runs", "ends"]


async def test_updated_object_builds_the_program(env: Env) -> None:
    world = OnDemandFixture(env, MARKED)
    async with TaskGroup("test") as group:
        world.start(group)
        await world.put("one")
        await world.relabel("one")
        assert world.events == ["built", "runs"]
        group.cancel()


@cases(
    "wakes, expected",
    {
        "started with objects": ("yes", ["built"]),
        "not waited for without objects": ("no", []),
    },
)
async def test_wait_built_returns_after_the_initial_list(env: Env, wakes: str, expected: list[str]) -> None:
    world = OnDemandFixture(env, MARKED)
    await world.put("there", wakes=wakes)
    async with TaskGroup("test") as group:
        world.start(group)
        await world.program.wait_built()
        assert world.events[:1] == expected
        group.cancel()


async def test_failed_build_is_raised(env: Env) -> None:
    world = OnDemandFixture(env, MARKED, error=ArithmeticError("a bug"))
    await world.put("there", wakes="yes")
    with pytest.raises(BaseExceptionGroup) as raised:
        await world.both()
    assert raised.group_contains(ArithmeticError)


async def test_raw_objects_are_added_to_a_running_informer(env: Env) -> None:
    world = OnDemandFixture(env, MARKED, Watch(kind=SECRETS, keep_raw=True))
    keep_raw_for((MARKED, Watch(kind=SECRETS, keep_raw=True)), world.informers)
    early = world.informers.informer(SECRETS)
    async with TaskGroup("test") as group:
        world.start(group)
        await early.wait_synced()
        late = world.informers.informer(SECRETS, keep_raw=True)
        assert late is early
        assert late.cache.keep_raw
        assert not world.informers.informer(CONFIG_MAPS).cache.keep_raw
        group.cancel()


def test_program_without_predicates_cannot_be_on_demand() -> None:
    assert supports_on_demand([Watch(kind=SECRETS), MARKED])
    assert supports_on_demand([Watch(kind=SECRETS, predicate=any_object)])
    assert not supports_on_demand([Watch(kind=SECRETS)])
    assert not supports_on_demand([])
