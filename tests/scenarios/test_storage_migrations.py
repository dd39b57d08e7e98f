"""Custom resources whose storage version alternates during migrations, under faults: no stored version in use is
removed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from tests.controllers.storage_version_migrator.widgets import (
    DEFINITION,
    MIGRATIONS,
    definition,
    migration,
    stored_version,
    versions,
    widget,
    widgets,
)
from tests.custom_resources import DEFINITIONS
from tests.scenarios.users import Restless
from tests.scenarios.variants import broken_without

from pilothouse.api.storagemigration import GroupResource
from pilothouse.client.interceptor import Rule, conflict, fail
from pilothouse.controllers.cleanup.storage_version_migrator import decide, migration_runner
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.migrations import Migrations

OPTIONS = SimulationOptions(nodes=1, controllers=("garbagecollector", "svm"), gates=("StorageVersionMigrator",))
RESOURCES = (
    "widgets.example.com",
    "storageversionmigrations.storagemigration.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
)
SECONDS = 240.0
MANY = 400.0
"""Until a migration is over, even if its resource is quiet and was asked for too early."""


def invariant() -> Migrations:
    return Migrations(GroupResource(group="example.com", resource="widgets"))


class Owner(Restless):
    """Somebody who cannot decide on a version."""

    PAUSES = (0.0, 0.01, 0.5, 5.0, 20.0)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._store = simulation.store

    async def begin(self) -> None:
        """A definition, and some widgets."""
        await self.request("POST", DEFINITIONS, definition())
        for number in range(4):
            await self.request("POST", widgets("v1"), widget(f"w{number}", number))

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.create, self.change, self.delete, self.migrate, self.migrate, self.decide]
        return [*often, *often, self.rename, self.give_up]

    async def create(self) -> None:
        """A widget of one of a few names, so that some come again."""
        version = self._version()
        await self.request("POST", widgets(version), widget(f"w{self._chance.randrange(6)}", 9, version))

    async def change(self) -> None:
        """A widget is another one."""
        path = f"{widgets(self._version())}/w{self._chance.randrange(6)}"
        await self.merge(path, {"spec": {"size": self._chance.randrange(100)}})

    async def delete(self) -> None:
        """A widget."""
        await self.request("DELETE", f"{widgets(self._version())}/w{self._chance.randrange(6)}")

    async def decide(self) -> None:
        """The other version is the one to store."""
        await self.merge(DEFINITION, {"spec": {"versions": versions(self._version())}})

    async def rename(self) -> None:
        """The definition changes, and its versions do not."""
        await self.merge(DEFINITION, {"spec": {"names": {"shortNames": [f"wd{self._chance.randrange(9)}"]}}})

    async def migrate(self) -> None:
        """Ask for it."""
        await self.request("POST", MIGRATIONS, migration(f"m{self._chance.randrange(8)}"))

    async def give_up(self) -> None:
        """A migration is no longer wanted."""
        await self.request("DELETE", f"{MIGRATIONS}/m{self._chance.randrange(8)}")

    def _version(self) -> str:
        return self._chance.choice(("v1", "v2"))

    def stored(self) -> set[str]:
        """Versions in which widgets are stored."""
        return {stored_version(record.value) for record in self._store.list("example.com/widgets/").records}

    async def outcome(self, name: str) -> set[str]:
        """Which conditions of a migration hold."""
        found = await self.get(f"{MIGRATIONS}/{name}")
        assert found is not None
        return {one["type"] for one in found["status"].get("conditions") or () if one["status"] == "True"}


async def end(simulation: Simulation, user: Owner) -> None:
    """The faults are over, and a version is decided on: then the other one can be taken away."""
    simulation.heal()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await user.request("POST", MIGRATIONS, migration("last"))
    await simulation.settle()
    assert await user.outcome("last") == {"Succeeded"}
    assert user.stored() <= {"v2"}
    found = await user.get(DEFINITION)
    assert found is not None
    assert found["status"]["storedVersions"] == ["v2"]
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2", served=("v2",))}})
    assert await user.items(widgets("v2")) is not None


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (invariant(),))
async def test_stored_versions_in_use_are_not_removed(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    await user.begin()
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.work(40))
    await end(simulation, user)


async def migrated(simulation: Simulation) -> None:
    """Everything goes well."""
    user = Owner(simulation)
    await user.begin()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    await user.request("POST", MIGRATIONS, migration("first"))
    await simulation.settle()
    await end(simulation, user)


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (invariant(),))
async def test_invariant_observed_migrations(simulation: Simulation) -> None:
    await migrated(simulation)
    (seen,) = simulation.invariants
    assert isinstance(seen, Migrations)
    assert (seen.rewritten, seen.removed) == (4, 1)


async def redefined(simulation: Simulation) -> None:
    """While widgets are migrated to v2 another one is stored in v1 again."""
    user = Owner(simulation)
    await user.begin()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    await user.request("POST", MIGRATIONS, migration("m"))
    await asyncio.sleep(0.1)
    await user.merge(DEFINITION, {"spec": {"versions": versions("v1")}})
    await user.request("POST", widgets("v2"), widget("late", version="v2"))
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    await simulation.settle()


async def failed(simulation: Simulation) -> None:
    """One of the widgets cannot be written."""
    user = Owner(simulation)
    await user.begin()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    simulation.add_rule(Rule(fail(403, "Forbidden"), verb="patch", resource="widgets", name="w2"))
    await user.request("POST", MIGRATIONS, migration("m"))
    await asyncio.sleep(MANY)
    await simulation.settle()


async def reported_again(simulation: Simulation) -> None:
    """As ``redefined``, and the first word about the end meets somebody else's write."""

    def is_the_end(_call: Any, request: Any) -> bool:
        return b"MigrationCompleted" in request.body

    rule = Rule(conflict(), verb="update", resource="storageversionmigrations", times=2, when=is_the_end)
    simulation.add_rule(rule)
    await redefined(simulation)


def said_again(definition: Any, *, succeeded: bool, now: Any) -> Any:
    """Whatever the status of the definition says: upstream's way."""
    begun = [msgspec.structs.replace(one, status="True") for one in definition.status.conditions]
    status = msgspec.structs.replace(definition.status, conditions=tuple(begun))
    return decide.migrated_configuration(
        msgspec.structs.replace(definition, status=status), succeeded=succeeded, now=now
    )


def forgetful(definition: Any, *, succeeded: bool, now: Any) -> dict[str, Any]:
    """Without the look at the generation, and after failures as well, which is upstream's way."""
    reported = decide.migrated_configuration(definition, succeeded=succeeded, now=now)
    assert reported is not None
    stored = [version.name for version in definition.spec.versions if version.storage]
    return {**reported, "status": {**reported["status"], "storedVersions": stored}}


@pytest.mark.parametrize(
    ("scenario", "instead"),
    [(redefined, forgetful), (failed, forgetful), (reported_again, said_again)],
    ids=["redefined", "failed", "reported again"],
)
@broken_without(
    lambda instead: [(migration_runner, "migrated_configuration", instead)],
    fails="was removed, in which",
    options=OPTIONS,
    invariants=lambda: (invariant(),),
)
async def test_unknown_stored_versions_are_not_removed(simulation: Simulation, scenario: Any, instead: Any) -> None:
    await scenario(simulation)
