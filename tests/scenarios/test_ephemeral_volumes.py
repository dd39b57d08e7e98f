"""Pods with ephemeral volumes, under faults: claims are created and deleted with them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenarios.test_volumes import CLAIMS, PODS, VOLUMES, claim
from tests.scenarios.users import Restless
from tests.scenarios.variants import broken_without

from pilothouse.controllers.volumes.persistentvolumeclaim_protection.controller import ClaimProtectionController
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.ephemeral import EphemeralClaims
from pilothouse.sim.invariants.protection import Protection
from pilothouse.sim.invariants.volumes import Volumes

CONTROLLERS = ("persistentvolume-binder", "pvc-protection", "pv-protection", "ephemeral-volume", "garbagecollector")
OPTIONS = SimulationOptions(controllers=CONTROLLERS, storage=True)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (EphemeralClaims(),))
RESOURCES = ("persistentvolumeclaims", "persistentvolumes", "pods")
SECONDS = 90.0


def pod(name: str, *volumes: str) -> dict[str, Any]:
    template = {"spec": claim("x", 1, "standard")["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "pause:1"}],
            "volumes": [{"name": volume, "ephemeral": {"volumeClaimTemplate": template}} for volume in volumes],
        },
    }


class Owner(Restless):
    """Somebody with pods that need room for a while, and who tidies up where nothing is to be tidied."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [self.start, self.start, self.start, self.stop, self.stop, self.tidy, self.claim]

    async def start(self) -> None:
        """A pod of one of a few names, so that some come again."""
        volumes = ("scratch", "more")[: self._chance.choice((1, 1, 2))]
        await self.request("POST", PODS, pod(f"p{self._chance.randrange(4)}", *volumes))

    async def stop(self) -> None:
        """Delete a pod, some by force."""
        items = await self.items(PODS)
        if items:
            body = self._chance.choice((None, {"gracePeriodSeconds": 0}))
            await self.request("DELETE", f"{PODS}/{self._chance.choice(items)['metadata']['name']}", body)

    async def tidy(self) -> None:
        """Delete a claim, whosever it is."""
        await self.delete_any(CLAIMS)

    async def claim(self) -> None:
        """A claim that has the name which one of the pods needs, or will."""
        await self.request("POST", CLAIMS, claim(f"p{self._chance.randrange(4)}-scratch", 1, "standard"))


async def end(user: Owner, simulation: Simulation) -> None:
    """The pods are deleted; what was theirs goes by itself."""
    await user.delete_all(PODS)
    await asyncio.sleep(120.0)
    for found in await user.items(CLAIMS):
        assert "ownerReferences" not in found["metadata"], "it has outlived its pod"
    await user.delete_all(CLAIMS)
    await asyncio.sleep(120.0)
    await simulation.settle()
    for path in (PODS, CLAIMS, VOLUMES):
        assert await user.items(path) == [], path


@pytest.mark.simulation(invariants=lambda: (EphemeralClaims(), Protection(), Volumes()))
async def test_claims_are_created_and_deleted_with_their_pods(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.work(30))
    simulation.heal()
    # Whose names are taken must wait, and get events forever.
    await user.delete_all(CLAIMS, lambda found: "ownerReferences" not in found["metadata"])
    await asyncio.sleep(300.0)
    await simulation.settle()
    for found in await user.items(PODS):
        assert found["status"]["phase"] == "Running"
    await end(user, simulation)


async def taken(simulation: Simulation) -> None:
    """A claim of the name is there, and is somebody's."""
    user = Owner(simulation)
    await user.request("POST", CLAIMS, claim("p-scratch", 1, "standard"))
    await asyncio.sleep(20.0)
    await user.request("POST", PODS, pod("p", "scratch"))
    await asyncio.sleep(60.0)
    found = await user.get(f"{PODS}/p")
    assert found is not None
    assert found["status"]["phase"] == "Pending"
    assert "nodeName" not in found["spec"]


async def test_pod_does_not_use_the_claim_of_another_owner(simulation: Simulation) -> None:
    await taken(simulation)


async def nobody(*_args: object) -> bool:
    return False


@broken_without(
    (ClaimProtectionController, "is_being_used", nobody),
    fails="was released while",
    invariants=lambda: (EphemeralClaims(), Protection(), Volumes()),
)
async def test_claim_is_kept_for_its_pod(simulation: Simulation) -> None:
    user = Owner(simulation)
    await user.request("POST", PODS, pod("p", "scratch"))
    await asyncio.sleep(20.0)
    await user.request("DELETE", f"{CLAIMS}/p-scratch")
    await asyncio.sleep(60.0)
    await simulation.settle()
    assert await user.get(f"{CLAIMS}/p-scratch") is not None
    await end(user, simulation)


@pytest.mark.simulation(
    fails="has no claim for its volume",
    options=SimulationOptions(controllers=("persistentvolume-binder",), storage=True),
)
async def test_invariant_detects_a_volume_without_a_claim(simulation: Simulation) -> None:
    user = Owner(simulation)
    body = pod("p", "scratch")
    body["spec"]["nodeName"] = "node-0"  # the scheduler would wait for the claim, and say so forever
    await user.request("POST", PODS, body)
    await asyncio.sleep(20.0)
    await simulation.settle()


@pytest.mark.simulation(
    fails="has outlived its pod",
    options=SimulationOptions(controllers=("persistentvolume-binder", "ephemeral-volume"), storage=True),
)
async def test_invariant_detects_a_claim_outliving_its_pod(simulation: Simulation) -> None:
    user = Owner(simulation)
    await user.request("POST", PODS, pod("p", "scratch"))
    await asyncio.sleep(20.0)
    await user.request("DELETE", f"{PODS}/p")
    await asyncio.sleep(20.0)
    await simulation.settle()
