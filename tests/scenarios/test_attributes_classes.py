"""VolumeAttributesClasses deleted while claims reference them, under faults: kept until unreferenced."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace
from tests.scenarios.test_volumes import CLAIMS, VOLUMES, claim
from tests.scenarios.users import RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.controllers.volumes.volumeattributesclass_protection.controller import (
    AttributesClassProtectionController,
)
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.faults import Crash, FaultPlan
from pilothouse.sim.invariants.attributes_classes import AttributesClasses

CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
CONTROLLERS = (
    "persistentvolume-binder",
    "pvc-protection",
    "pv-protection",
    "volumeattributesclass-protection-controller",
)
OPTIONS = SimulationOptions(controllers=CONTROLLERS, storage=True)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (AttributesClasses(),))
RESOURCES = ("volumeattributesclasses.storage.k8s.io",)
"""The faulty resources. Claims and volumes are observed immediately: nothing is guaranteed for stale caches of them."""
SECONDS = 90.0


class Owner(RandomUser):
    """Creates and deletes VolumeAttributesClasses and claims that reference them."""

    # Long enough for the caches to show it.
    PAUSES = (0.5, 3.0, 8.0)

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.create,
            self.create,
            self.claim,
            self.claim,
            self.delete,
            self.delete,
            self.delete_claim,
            self.remove_finalizer,
        ]

    async def create(self) -> None:
        """Create a class."""
        name = f"a{self._rng.randrange(3)}"
        await self.request(
            "POST",
            CLASSES,
            {"metadata": {"name": name}, "driverName": "simulated.pilothouse.dev", "parameters": {"a": "b"}},
        )

    async def claim(self) -> None:
        """Create a claim with one of the classes."""
        body = claim(f"c{self._rng.randrange(4)}", 1, "standard")
        body["spec"]["volumeAttributesClassName"] = f"a{self._rng.randrange(3)}"
        await self.request("POST", CLAIMS, body)

    async def delete(self) -> None:
        """Delete a class."""
        await self.delete_any(CLASSES)

    async def delete_claim(self) -> None:
        """Delete a claim."""
        await self.delete_any(CLAIMS)

    async def remove_finalizer(self) -> None:
        """Remove the finalizer of a class that is not terminating."""
        active = [item["metadata"] for item in await self.items(CLASSES) if "deletionTimestamp" not in item["metadata"]]
        if active:
            meta = self._rng.choice(active)
            changes = {"finalizers": None, "resourceVersion": meta["resourceVersion"]}
            await self.merge(f"{CLASSES}/{meta['name']}", {"metadata": changes})


async def delete_everything(simulation: Simulation, user: Owner) -> None:
    """Delete everything, the classes first; nothing may remain."""
    for path in (CLASSES, CLAIMS):
        await user.delete_all(path)
    await asyncio.sleep(120.0)
    await simulation.run_until_idle()
    for path in (CLAIMS, VOLUMES, CLASSES):
        assert await user.items(path) == [], path


async def test_class_is_kept_while_referenced_and_deleted_afterwards(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    # A process that starts with old lists does not have the newest claims. Upstream reads only its caches.
    faults = tuple(replace(fault, stale=False) if isinstance(fault, Crash) else fault for fault in plan.faults)
    await asyncio.gather(simulation.follow(FaultPlan(faults)), user.run_actions(30))
    simulation.end_faults()
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    await delete_everything(simulation, user)


async def delete_class_in_use(simulation: Simulation) -> None:
    """A class is deleted while a claim references it."""
    user = Owner(simulation)
    await user.request(
        "POST",
        CLASSES,
        {"metadata": {"name": "a0"}, "driverName": "simulated.pilothouse.dev", "parameters": {"a": "b"}},
    )
    body = claim("c0", 1, "standard")
    body["spec"]["volumeAttributesClassName"] = "a0"
    await user.request("POST", CLAIMS, body)
    await asyncio.sleep(20.0)
    await user.request("DELETE", f"{CLASSES}/a0")
    await asyncio.sleep(60.0)
    assert await user.get(f"{CLASSES}/a0") is not None
    await delete_everything(simulation, user)


async def no_user(*_args: object) -> bool:
    return False


@broken_without((AttributesClassProtectionController, "is_being_used", no_user), fails="was released while")
async def test_invariant_detects_a_class_released_too_early(simulation: Simulation) -> None:
    await delete_class_in_use(simulation)
