"""Claims and volumes deleted while in use, under faults: kept exactly that long."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.test_volumes import CLAIMS, PODS, VOLUMES, claim
from tests.scenarios.users import RandomUser
from tests.scenarios.variants import broken_without

from pilothouse.controllers.volumes.persistentvolumeclaim_protection.controller import ClaimProtectionController
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.protection import CLAIM, Protection
from pilothouse.sim.invariants.volumes import Volumes

CONTROLLERS = ("persistentvolume-binder", "pvc-protection", "pv-protection")
OPTIONS = SimulationOptions(controllers=CONTROLLERS, storage=True)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (Protection(),))
RESOURCES = ("persistentvolumeclaims", "persistentvolumes", "pods")
SECONDS = 90.0


class Owner(RandomUser):
    """Creates and deletes claims and pods in any order."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.claim,
            self.claim,
            self.pod,
            self.pod,
            self.pod,
            self.delete_claim,
            self.delete_pod,
            self.remove_finalizer,
            self.delete_volume,
        ]

    async def claim(self) -> None:
        """Create a claim with one of a few names, so that names are reused."""
        await self.request("POST", CLAIMS, claim(f"c{self._rng.randrange(4)}", 1, "standard"))

    async def pod(self) -> None:
        """Create a pod with one of a few names and one or two claims; some complete by themselves."""
        names = self._rng.sample([f"c{number}" for number in range(4)], self._rng.choice((1, 1, 2)))
        annotations = self._rng.choice(({}, {"simulated.pilothouse.dev/run-time": "5s"}))
        spec = {
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "pause:1"}],
            "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names],
        }
        meta = {"name": f"p{self._rng.randrange(5)}", "annotations": annotations}
        await self.request("POST", PODS, {"metadata": meta, "spec": spec})

    async def delete_claim(self) -> None:
        """Delete a claim."""
        await self._delete(CLAIMS)

    async def delete_pod(self) -> None:
        """Delete a pod, sometimes without grace period."""
        await self._delete(PODS, self._rng.choice((None, {"gracePeriodSeconds": 0})))

    async def delete_volume(self) -> None:
        """Delete a volume, even a bound one."""
        await self._delete(VOLUMES)

    async def remove_finalizer(self) -> None:
        """Remove the finalizer of a claim that is not terminating."""
        active = [item["metadata"] for item in await self.items(CLAIMS) if "deletionTimestamp" not in item["metadata"]]
        if active:
            meta = self._rng.choice(active)
            changes = {"finalizers": None, "resourceVersion": meta["resourceVersion"]}
            await self.merge(f"{CLAIMS}/{meta['name']}", {"metadata": changes})

    async def _delete(self, path: str, body: dict[str, int] | None = None) -> None:
        await self.delete_any(path, body)


async def delete_everything(simulation: Simulation, user: Owner) -> None:
    """Delete everything, the pods last; nothing may remain."""
    for path in (CLAIMS, VOLUMES, PODS):
        await user.delete_all(path)
    await asyncio.sleep(120.0)
    await simulation.run_until_idle()
    for path in (PODS, CLAIMS, VOLUMES):
        assert await user.items(path) == [], path


async def test_claims_and_volumes_in_use_are_kept_and_deleted_afterwards(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(30))
    simulation.end_faults()
    await delete_everything(simulation, user)


async def pod_unobserved(simulation: Simulation) -> None:
    """A claim is deleted whose pod the manager has not observed."""
    user = Owner(simulation)
    await user.request("POST", CLAIMS, claim("c0", 1, "standard"))
    await asyncio.sleep(20.0)
    with simulation.held_watches("pods"):
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c0"}}]
        spec = {"containers": [{"name": "main", "image": "pause:1"}], "volumes": volumes}
        await user.request("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
        await asyncio.sleep(20.0)
        await user.request("DELETE", f"{CLAIMS}/c0")
        await asyncio.sleep(60.0)
    await delete_everything(simulation, user)


async def no_user(*_args: object) -> bool:
    return False


@broken_without(
    (ClaimProtectionController, "is_being_used", no_user),
    fails="was released while",
    invariants=lambda: (Protection(), Volumes()),
)
async def test_pods_are_listed_live_before_a_claim_is_released(simulation: Simulation) -> None:
    """Upstream's ``askAPIServer``: pods may be missing in the cache."""
    await pod_unobserved(simulation)


@pytest.mark.simulation(
    fails="being deleted and unused, and still exists",
    options=SimulationOptions(controllers=("persistentvolume-binder",), storage=True),
)
async def test_invariant_detects_a_leaked_finalizer(simulation: Simulation) -> None:
    user = Owner(simulation)
    await user.request("POST", CLAIMS, claim("c0", 1, "standard"))
    await asyncio.sleep(20.0)
    await user.request("DELETE", f"{CLAIMS}/c0")
    await asyncio.sleep(20.0)
    await simulation.run_until_idle()


@pytest.mark.simulation(
    fails="has no finalizer", options=SimulationOptions(controllers=("persistentvolume-binder",), storage=True)
)
async def test_invariant_detects_a_missing_finalizer(simulation: Simulation) -> None:
    user = Owner(simulation)
    await user.request("POST", CLAIMS, claim("c0", 1, "standard"))
    await user.merge(f"{CLAIMS}/c0", {"metadata": {"finalizers": None}})
    assert CLAIM not in str(await user.get(f"{CLAIMS}/c0"))
    await asyncio.sleep(20.0)
    await simulation.run_until_idle()
