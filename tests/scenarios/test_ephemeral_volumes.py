"""Pods with ephemeral volumes, under faults: claims are created and deleted with them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenarios.test_volumes import CLAIMS, PODS, VOLUMES, claim
from tests.scenarios.users import RandomUser
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


class Owner(RandomUser):
    """Creates and deletes pods with ephemeral volumes, and claims."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.create_pod,
            self.create_pod,
            self.create_pod,
            self.delete_pod,
            self.delete_pod,
            self.delete_claim,
            self.claim,
        ]

    async def create_pod(self) -> None:
        """Create a pod with one of a few names, so that names are reused."""
        volumes = ("scratch", "more")[: self._rng.choice((1, 1, 2))]
        await self.request("POST", PODS, pod(f"p{self._rng.randrange(4)}", *volumes))

    async def delete_pod(self) -> None:
        """Delete a pod, sometimes without grace period."""
        items = await self.items(PODS)
        if items:
            body = self._rng.choice((None, {"gracePeriodSeconds": 0}))
            await self.request("DELETE", f"{PODS}/{self._rng.choice(items)['metadata']['name']}", body)

    async def delete_claim(self) -> None:
        """Delete a claim, whoever owns it."""
        await self.delete_any(CLAIMS)

    async def claim(self) -> None:
        """Create a claim with the name that a pod's ephemeral volume needs."""
        await self.request("POST", CLAIMS, claim(f"p{self._rng.randrange(4)}-scratch", 1, "standard"))


async def delete_everything(user: Owner, simulation: Simulation) -> None:
    """Delete the pods; their claims must be garbage collected."""
    await user.delete_all(PODS)
    await asyncio.sleep(120.0)
    for item in await user.items(CLAIMS):
        assert "ownerReferences" not in item["metadata"], "it has outlived its pod"
    await user.delete_all(CLAIMS)
    await asyncio.sleep(120.0)
    await simulation.run_until_idle()
    for path in (PODS, CLAIMS, VOLUMES):
        assert await user.items(path) == [], path


@pytest.mark.simulation(invariants=lambda: (EphemeralClaims(), Protection(), Volumes()))
async def test_claims_are_created_and_deleted_with_their_pods(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(30))
    simulation.end_faults()
    # Pods whose claim name is in use must wait, and get events forever.
    await user.delete_all(CLAIMS, lambda found: "ownerReferences" not in found["metadata"])
    await asyncio.sleep(300.0)
    await simulation.run_until_idle()
    for item in await user.items(PODS):
        assert item["status"]["phase"] == "Running"
    await delete_everything(user, simulation)


async def name_taken(simulation: Simulation) -> None:
    """A claim of the required name exists and has another owner."""
    user = Owner(simulation)
    await user.request("POST", CLAIMS, claim("p-scratch", 1, "standard"))
    await asyncio.sleep(20.0)
    await user.request("POST", PODS, pod("p", "scratch"))
    await asyncio.sleep(60.0)
    obj = await user.get(f"{PODS}/p")
    assert obj is not None
    assert obj["status"]["phase"] == "Pending"
    assert "nodeName" not in obj["spec"]


async def test_pod_does_not_use_the_claim_of_another_owner(simulation: Simulation) -> None:
    await name_taken(simulation)


async def no_owner(*_args: object) -> bool:
    return False


@broken_without(
    (ClaimProtectionController, "is_being_used", no_owner),
    fails="was released while",
    invariants=lambda: (EphemeralClaims(), Protection(), Volumes()),
)
async def test_claim_is_kept_for_its_pod(simulation: Simulation) -> None:
    user = Owner(simulation)
    await user.request("POST", PODS, pod("p", "scratch"))
    await asyncio.sleep(20.0)
    await user.request("DELETE", f"{CLAIMS}/p-scratch")
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    assert await user.get(f"{CLAIMS}/p-scratch") is not None
    await delete_everything(user, simulation)


@pytest.mark.simulation(
    fails="has no claim for its volume",
    options=SimulationOptions(controllers=("persistentvolume-binder",), storage=True),
)
async def test_invariant_detects_a_volume_without_a_claim(simulation: Simulation) -> None:
    user = Owner(simulation)
    body = pod("p", "scratch")
    body["spec"]["nodeName"] = "node-0"  # the scheduler would wait for the claim, and record events forever
    await user.request("POST", PODS, body)
    await asyncio.sleep(20.0)
    await simulation.run_until_idle()


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
    await simulation.run_until_idle()
