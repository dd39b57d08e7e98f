"""Device claims under faults: kept while in use, released afterwards."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from tests.scenarios.users import NAMESPACE, Doc, RandomUser, User
from tests.scenarios.variants import broken_without

from pilothouse.client.errors import ApiError
from pilothouse.controllers.devices.resourceclaim import controller, decide
from pilothouse.controllers.devices.resourceclaim.decide import Reservation
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.devices import DeviceAllocations, DeviceClaims

RESOURCE_GROUP = "/apis/resource.k8s.io/v1"
GROUP = f"{RESOURCE_GROUP}/namespaces/default"
CLAIMS, TEMPLATES, PODS = f"{GROUP}/resourceclaims", f"{GROUP}/resourceclaimtemplates", f"{NAMESPACE}/pods"
FINALIZER = "resource.kubernetes.io/delete-protection"
SCHEDULER = "devices"
OPTIONS = SimulationOptions(controllers=("resourceclaim-controller", "garbage-collector-controller"))
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (DeviceClaims(),))
RESOURCES = ("resourceclaims", "pods")
SECONDS = 90.0
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpus"}}]}}


class DeviceScheduler(User):
    """Schedules pods with claims as kube-scheduler does: finalizer, allocation with reservation, then binding. There is
    always a free device."""

    async def run(self) -> None:
        """Schedule all schedulable pods, repeatedly."""
        while True:
            for pod in await self.items(PODS):
                if not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]:
                    with contextlib.suppress(ApiError):  # somebody was faster
                        await self._schedule(pod)
            await asyncio.sleep(0.5)

    async def _schedule(self, pod: Doc) -> None:
        meta, claim_statuses = pod["metadata"], pod["status"].get("resourceClaimStatuses") or []
        created = {status["name"]: status.get("resourceClaimName") for status in claim_statuses}
        for entry in pod["spec"].get("resourceClaims") or []:
            name = entry.get("resourceClaimName") or created.get(entry["name"])
            claim = await self.get(f"{CLAIMS}/{name}") if name else None
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                return
            await self._reserve(claim, {"resource": "pods", "name": meta["name"], "uid": meta["uid"]})
        target = {"target": {"kind": "Node", "name": "node-1"}, "metadata": {"name": meta["name"], "uid": meta["uid"]}}
        await self.request("POST", f"{PODS}/{meta['name']}/binding", target)

    async def _reserve(self, claim: Doc, user: Doc) -> None:
        path = f"{CLAIMS}/{claim['metadata']['name']}"
        status = claim.setdefault("status", {})
        if status.get("allocation") is None:
            if FINALIZER not in claim["metadata"].get("finalizers", ()):
                claim["metadata"].setdefault("finalizers", []).append(FINALIZER)
                claim = await self.request("PUT", path, claim)
                status = claim.setdefault("status", {})
            status["allocation"] = {"devices": {"results": []}}
        users = status.setdefault("reservedFor", [])
        if user not in users:
            users.append(user)
            await self.request("PUT", f"{path}/status", claim)


class Owner(RandomUser):
    """Creates and deletes pods with claims, and claims, in any order."""

    scheduler_name = SCHEDULER

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [self.claim, self.pod, self.pod, self.pod, self.delete_claim, self.delete_pod]

    async def run_actions(self, count: int) -> None:
        """Create the claim templates, then perform ``count`` actions."""
        for name in ("one", "two"):
            await self.request("POST", TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": SPEC}})
        await super().run_actions(count)

    async def claim(self) -> None:
        """Create a claim with one of a few names, so that names are reused."""
        await self.request("POST", CLAIMS, {"metadata": {"name": f"own-{self._rng.randrange(2)}"}, "spec": SPEC})

    async def pod(self) -> None:
        """Create a pod with one of a few names and claims of all kinds; some complete by themselves."""
        sources = self._rng.sample(
            [
                {"resourceClaimTemplateName": "one"},
                {"resourceClaimTemplateName": "two"},
                {"resourceClaimName": "own-0"},
                {"resourceClaimName": "own-1"},
            ],
            self._rng.choice((1, 1, 2, 3)),
        )
        entries = [{"name": f"entry-{number}", **source} for number, source in enumerate(sources)]
        uses = {"claims": [{"name": entry["name"]} for entry in entries]}
        spec = {
            "schedulerName": self.scheduler_name,
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "pause:1", "resources": uses}],
            "resourceClaims": entries,
        }
        annotations = self._rng.choice(({}, {"simulated.pilothouse.dev/run-time": "5s"}))
        meta = {"name": f"p{self._rng.randrange(4)}", "annotations": annotations}
        await self.request("POST", PODS, {"metadata": meta, "spec": spec})

    async def delete_claim(self) -> None:
        """Delete a claim, whoever owns it."""
        await self.delete_any(CLAIMS)

    async def delete_pod(self) -> None:
        """Delete a pod, sometimes without grace period."""
        await self.delete_any(PODS, self._rng.choice((None, {"gracePeriodSeconds": 0})))


async def run_with_scheduler(simulation: Simulation, steps: Callable[[], Awaitable[None]]) -> None:
    scheduler = asyncio.ensure_future(DeviceScheduler(simulation.user).run())
    try:
        await steps()
    finally:
        scheduler.cancel()


async def check_and_delete_everything(simulation: Simulation, user: Owner) -> None:
    """Check the claims, then delete everything, the pods last; nothing may remain."""
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()
    for path in (CLAIMS, PODS):
        await user.delete_all(path)
    await asyncio.sleep(120.0)
    await simulation.run_until_idle()
    for path in (PODS, CLAIMS):
        assert await user.items(path) == [], path


async def test_claims_are_kept_while_in_use_and_released_afterwards(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)

    async def steps() -> None:
        await asyncio.gather(simulation.follow(plan), user.run_actions(30))
        simulation.end_faults()
        await asyncio.sleep(60.0)

    await run_with_scheduler(simulation, steps)
    await check_and_delete_everything(simulation, user)
    (invariant,) = simulation.invariants
    assert isinstance(invariant, DeviceClaims)
    assert invariant.created
    assert invariant.cleared


async def recreated_unobserved(simulation: Simulation) -> None:
    """A pod is recreated and gets the claim before the manager observes either change."""
    user = Owner(simulation)
    entries = [{"name": "gpu", "resourceClaimName": "own-0"}]
    spec = {
        "schedulerName": SCHEDULER,
        "containers": [{"name": "main", "image": "pause:1"}],
        "resourceClaims": entries,
    }
    await user.request("POST", CLAIMS, {"metadata": {"name": "own-0"}, "spec": SPEC})

    async def steps() -> None:
        await user.request("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
        await asyncio.sleep(20.0)
        with simulation.held_watches("pods"):
            await user.request("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
            await user.request("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
            await asyncio.sleep(60.0)
        await asyncio.sleep(60.0)

    await run_with_scheduler(simulation, steps)
    await check_and_delete_everything(simulation, user)


class SchedulerOwner(Owner):
    """The same with the built-in scheduler, and just as many devices as pods may need."""

    scheduler_name = "default-scheduler"

    async def run_actions(self, count: int) -> None:
        await self.request("POST", f"{RESOURCE_GROUP}/deviceclasses", {"metadata": {"name": "gpus"}, "spec": {}})
        pool = {"name": "gpus", "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"d{number}"} for number in range(12)]
        spec = {"driver": "gpus.com", "allNodes": True, "pool": pool, "devices": devices}
        await self.request("POST", f"{RESOURCE_GROUP}/resourceslices", {"metadata": {"name": "gpus"}, "spec": spec})
        await super().run_actions(count)


@pytest.mark.simulation(
    options=OPTIONS,
    invariants=lambda: (DeviceClaims(), DeviceAllocations()),
)
async def test_devices_are_allocated_once_and_before_pods_are_bound(simulation: Simulation, seed: int) -> None:
    user = SchedulerOwner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(30))
    simulation.end_faults()
    await asyncio.sleep(60.0)
    await check_and_delete_everything(simulation, user)
    _claims, allocations = simulation.invariants
    assert isinstance(allocations, DeviceAllocations)
    assert allocations.allocated


decide_reservation = decide.decide_reservation


def as_upstream(user: object, pod: object, *, observed_deleted: bool) -> Reservation:
    result = decide_reservation(user, pod, observed_deleted=observed_deleted)  # type: ignore[arg-type]  # passed through
    return Reservation.DROP if result is Reservation.READ_LIVE and pod is not None else result


@broken_without((controller, "decide_reservation", as_upstream), fails="uses it")
async def test_pod_missing_in_the_cache_keeps_its_claim(simulation: Simulation) -> None:
    """Upstream removes the reservation of a pod if its cache has another one of that name, even an older one."""
    await recreated_unobserved(simulation)


@pytest.mark.simulation(
    fails="is reserved for gone, which does not need it",
    options=SimulationOptions(controllers=("garbage-collector-controller",)),
)
async def test_invariant_detects_a_leaked_reservation(simulation: Simulation) -> None:
    user = Owner(simulation)
    await user.request("POST", CLAIMS, {"metadata": {"name": "own-0"}, "spec": SPEC})
    deleted_pod = {"resource": "pods", "name": "gone", "uid": "gone"}
    await user.merge(f"{CLAIMS}/own-0/status", {"status": {"allocation": {}, "reservedFor": [deleted_pod]}})
    await asyncio.sleep(20.0)
    await simulation.run_until_idle()
