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
from tests.scenarios.users import RandomUser
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
"""Until a migration has finished, even if its resource does not change and was requested too early."""


def invariant() -> Migrations:
    return Migrations(GroupResource(group="example.com", resource="widgets"))


class Owner(RandomUser):
    """Creates widgets and migrations while the storage version changes."""

    PAUSES = (0.0, 0.01, 0.5, 5.0, 20.0)

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation)
        self._store = simulation.store

    async def prepare(self) -> None:
        """Create the definition and some widgets."""
        await self.request("POST", DEFINITIONS, definition())
        for number in range(4):
            await self.request("POST", widgets("v1"), widget(f"w{number}", number))

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        often = [self.create, self.change, self.delete, self.migrate, self.migrate, self.change_storage_version]
        return [*often, *often, self.change_definition, self.delete_migration]

    async def create(self) -> None:
        """Create a widget with one of a few names, so that names are reused."""
        version = self._version()
        await self.request("POST", widgets(version), widget(f"w{self._rng.randrange(6)}", 9, version))

    async def change(self) -> None:
        """Update a widget."""
        path = f"{widgets(self._version())}/w{self._rng.randrange(6)}"
        await self.merge(path, {"spec": {"size": self._rng.randrange(100)}})

    async def delete(self) -> None:
        """Delete a widget."""
        await self.request("DELETE", f"{widgets(self._version())}/w{self._rng.randrange(6)}")

    async def change_storage_version(self) -> None:
        """Switch the storage version."""
        await self.merge(DEFINITION, {"spec": {"versions": versions(self._version())}})

    async def change_definition(self) -> None:
        """Change the definition without changing versions."""
        await self.merge(DEFINITION, {"spec": {"names": {"shortNames": [f"wd{self._rng.randrange(9)}"]}}})

    async def migrate(self) -> None:
        """Create a migration."""
        await self.request("POST", MIGRATIONS, migration(f"m{self._rng.randrange(8)}"))

    async def delete_migration(self) -> None:
        """Delete a migration."""
        await self.request("DELETE", f"{MIGRATIONS}/m{self._rng.randrange(8)}")

    def _version(self) -> str:
        return self._rng.choice(("v1", "v2"))

    def stored(self) -> set[str]:
        """The versions in which widgets are stored."""
        return {stored_version(record.value) for record in self._store.list("example.com/widgets/").records}

    async def outcome(self, name: str) -> set[str]:
        """The conditions of a migration that are True."""
        obj = await self.get(f"{MIGRATIONS}/{name}")
        assert obj is not None
        return {item["type"] for item in obj["status"].get("conditions") or () if item["status"] == "True"}


async def check_final_state(simulation: Simulation, user: Owner) -> None:
    """After the faults and a final migration the other version can be removed from storedVersions."""
    simulation.end_faults()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await user.request("POST", MIGRATIONS, migration("last"))
    await simulation.run_until_idle()
    assert await user.outcome("last") == {"Succeeded"}
    assert user.stored() <= {"v2"}
    crd = await user.get(DEFINITION)
    assert crd is not None
    assert crd["status"]["storedVersions"] == ["v2"]
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2", served=("v2",))}})
    assert await user.items(widgets("v2")) is not None


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (invariant(),))
async def test_stored_versions_in_use_are_not_removed(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    await user.prepare()
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(40))
    await check_final_state(simulation, user)


async def migrated(simulation: Simulation) -> None:
    """A migration that succeeds."""
    user = Owner(simulation)
    await user.prepare()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    await user.request("POST", MIGRATIONS, migration("first"))
    await simulation.run_until_idle()
    await check_final_state(simulation, user)


@pytest.mark.simulation(options=OPTIONS, invariants=lambda: (invariant(),))
async def test_invariant_observed_migrations(simulation: Simulation) -> None:
    await migrated(simulation)
    (observed_migrations,) = simulation.invariants
    assert isinstance(observed_migrations, Migrations)
    assert (observed_migrations.rewritten, observed_migrations.removed) == (4, 1)


async def redefined(simulation: Simulation) -> None:
    """During a migration to v2 another widget is stored in v1."""
    user = Owner(simulation)
    await user.prepare()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    await user.request("POST", MIGRATIONS, migration("m"))
    await asyncio.sleep(0.1)
    await user.merge(DEFINITION, {"spec": {"versions": versions("v1")}})
    await user.request("POST", widgets("v2"), widget("late", version="v2"))
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    await simulation.run_until_idle()


async def failed(simulation: Simulation) -> None:
    """A widget cannot be updated."""
    user = Owner(simulation)
    await user.prepare()
    await user.merge(DEFINITION, {"spec": {"versions": versions("v2")}})
    await asyncio.sleep(MANY)
    simulation.add_rule(Rule(fail(403, "Forbidden"), verb="patch", resource="widgets", name="w2"))
    await user.request("POST", MIGRATIONS, migration("m"))
    await asyncio.sleep(MANY)
    await simulation.run_until_idle()


async def reported_again(simulation: Simulation) -> None:
    """As ``redefined``, and the first status update at the end is a conflict."""

    def is_the_end(_call: Any, request: Any) -> bool:
        return b"MigrationCompleted" in request.body

    rule = Rule(conflict(), verb="update", resource="storageversionmigrations", times=2, when=is_the_end)
    simulation.add_rule(rule)
    await redefined(simulation)


def without_stored_versions(definition: Any, *, succeeded: bool, now: Any) -> Any:
    """Upstream's condition: regardless of the definition's status."""
    begun = [msgspec.structs.replace(item, status="True") for item in definition.status.conditions]
    status = msgspec.structs.replace(definition.status, conditions=tuple(begun))
    return decide.migrated_configuration(
        msgspec.structs.replace(definition, status=status), succeeded=succeeded, now=now
    )


def without_generation(definition: Any, *, succeeded: bool, now: Any) -> dict[str, Any]:
    """Upstream's condition: without comparing the generation, and also after failures."""
    reported = decide.migrated_configuration(definition, succeeded=succeeded, now=now)
    assert reported is not None
    stored = [version.name for version in definition.spec.versions if version.storage]
    return {**reported, "status": {**reported["status"], "storedVersions": stored}}


@pytest.mark.parametrize(
    ("scenario", "instead"),
    [(redefined, without_generation), (failed, without_generation), (reported_again, without_stored_versions)],
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
