"""Known bugs of EndpointSlices and Endpoints."""

import asyncio
from collections.abc import Sequence

from pilothouse.controllers.network.endpoints.controller import EndpointsController
from pilothouse.controllers.network.endpointslice import EndpointSliceOptions
from pilothouse.controllers.shared.slice_tracker import SliceTracker
from pilothouse.runtime import Requeue
from pilothouse.sim import Invariant, Simulation, SimulationOptions
from pilothouse.sim.invariants.endpoints import ServiceEndpoints
from pilothouse.simulate.bugs.declaration import Bug, Pattern, Unguarded, check, only_invariant
from pilothouse.simulate.bugs.user import NAMESPACE, PODS, SETS, Doc, User, replica_set

SERVICES = f"{NAMESPACE}/services"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
WEB = f"{SETS}/web"
CONTROLLER = "endpointslice-controller"
PER_SLICE = 4
OPTIONS = SimulationOptions(
    controllers=("endpoint", "endpointslice", "replicaset", "garbagecollector"),
    controller_options={CONTROLLER: EndpointSliceOptions(max_endpoints=PER_SLICE)},
)
SERVICE: Doc = {
    "metadata": {"name": "web"},
    "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
}
PROBE = "simulated.pilothouse.dev/readiness-probe"


def invariants() -> Sequence[Invariant]:
    """The invariants of these scenarios."""
    return (ServiceEndpoints("web", "web", per_slice=PER_SLICE),)


class Owner(User):
    """Has a Service and its pods."""

    async def scale(self, replicas: int) -> None:
        """More pods or fewer."""
        await self.merge(WEB, {"spec": {"replicas": replicas}})

    async def create(self, replicas: int) -> None:
        """The Service and its pods, and time for them to start."""
        await self.request("POST", SETS, replica_set("web", replicas, {"app": "web"}))
        await asyncio.sleep(5.0)

    async def make_service(self) -> None:
        """The Service."""
        await self.request("POST", SERVICES, SERVICE)

    async def probe(self, result: str) -> None:
        """All pods become ready (``pass``), or no longer are (``fail``)."""
        for pod in await self.items(PODS):
            await self.merge(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"annotations": {PROBE: result}}})


DUPLICATES = Bug(
    "kubernetes#93374 kubernetes#100033 kubernetes#99345 kubernetes#100103",
    "A Service has extra slices with the same endpoints",
    controller=CONTROLLER,
    patterns=(Pattern.STALE,),
    upstream="fixed",
    mechanism="The Service was synced before the cache had its first slice, or the latest updates of its slices, and "
    "endpoints that seemed to be missing were created again.",
    protection="The slice tracker: a sync is skipped while the cache is behind the controller's own writes of slices.",
)
NO_TRACKER = ((SliceTracker, "check", lambda _self, _key, _given: None),)


@DUPLICATES.scenario(
    "the first slice",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded("slices at once", NO_TRACKER),
)
async def first_slice(simulation: Simulation) -> None:
    """The Service changes before the event of its slice arrives."""
    user = Owner(simulation.user)
    await user.create(2)
    with simulation.held_watches("endpointslices"):
        await user.make_service()
        await asyncio.sleep(2.0)
        await user.merge(f"{SERVICES}/web", {"metadata": {"annotations": {"wake": "too early"}}})
        await asyncio.sleep(10.0)
    most = only_invariant(simulation, ServiceEndpoints).most_slices
    check(most <= 1, f"{most} slices at once")
    await simulation.run_until_idle()


@DUPLICATES.scenario(
    "slices that were extended",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded("slices at once", NO_TRACKER),
)
async def grown_slices(simulation: Simulation) -> None:
    """Two more pods than fit into a slice are added, while the watch of slices is stalled."""
    user = Owner(simulation.user)
    await user.make_service()
    await user.create(PER_SLICE)
    await asyncio.sleep(5.0)
    with simulation.held_watches("endpointslices"):
        await user.scale(PER_SLICE + 1)
        await asyncio.sleep(10.0)
        await user.scale(PER_SLICE + 2)
        await asyncio.sleep(10.0)
    most = only_invariant(simulation, ServiceEndpoints).most_slices
    check(most <= 2, f"{most} slices at once")
    await simulation.run_until_idle()


IGNORED_CHANGES = Bug(
    "kubernetes#85353",
    "Slices that others change or delete are not repaired",
    controller=CONTROLLER,
    patterns=(Pattern.UNOBSERVED,),
    upstream="fixed",
    mechanism="The controller did not watch its own slices.",
    protection="A change or deletion by others enqueues the Service.",
)


@IGNORED_CHANGES.scenario(
    "emptied and deleted manually",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "a minute later 0 endpoints of 6",
        (
            (SliceTracker, "is_foreign_change", lambda _self, _key, _seen: False),
            (SliceTracker, "handle_deletion", lambda _self, _key, _seen: False),
        ),
    ),
)
async def emptied_and_deleted(simulation: Simulation) -> None:
    """One slice of a Service with six pods is emptied manually, the other one is deleted."""
    user = Owner(simulation.user)
    await user.make_service()
    await user.create(6)
    await asyncio.sleep(10.0)
    one, other = await user.items(SLICES)
    await user.merge(f"{SLICES}/{one['metadata']['name']}", {"endpoints": []})
    await user.request("DELETE", f"{SLICES}/{other['metadata']['name']}", {})
    await asyncio.sleep(60.0)
    count = sum(len(endpoint_slice.get("endpoints") or []) for endpoint_slice in await user.items(SLICES))
    check(count == 6, f"a minute later {count} endpoints of 6 are in slices")
    await simulation.run_until_idle()


STALE_ENDPOINTS = Bug(
    "kubernetes#117193 kubernetes#125638 kubernetes#125675 kubernetes#127429",
    "Endpoints stay in notReadyAddresses although the pods are ready",
    controller="endpoints-controller",
    patterns=(Pattern.STALE,),
    upstream="closed; fixed for #125638",
    mechanism="A pod was not ready for a moment, and the Endpoints were updated. When the pod was ready again, the "
    "cache still had the earlier Endpoints, which matched, so nothing was written.",
    protection="The sync is retried while the cache has the version that the controller's own write replaced.",
)
reconcile = EndpointsController.reconcile


async def trust_the_cache(self: EndpointsController, key: str) -> Requeue | None:
    """Overwritten state is not remembered."""
    self._overwritten.clear()
    return await reconcile(self, key)


@STALE_ENDPOINTS.scenario(
    "not ready for a moment",
    options=OPTIONS,
    invariants=invariants,
    unguarded=Unguarded(
        "a minute later 0 of 1 addresses are ready", ((EndpointsController, "reconcile", trust_the_cache),)
    ),
)
async def not_ready_for_a_moment(simulation: Simulation) -> None:
    """The pod's probe fails and succeeds again, while the watch of Endpoints is stalled."""
    user = Owner(simulation.user)
    await user.make_service()
    await user.create(1)
    await asyncio.sleep(10.0)
    with simulation.held_watches("endpoints"):
        await user.probe("fail")
        await asyncio.sleep(5.0)
        await user.probe("pass")
        await asyncio.sleep(5.0)
    await asyncio.sleep(60.0)
    endpoints = await user.request("GET", f"{NAMESPACE}/endpoints/web")
    ready = sum(len(subset.get("addresses") or []) for subset in endpoints.get("subsets") or [])
    check(ready == 1, f"a minute later {ready} of 1 addresses are ready")
    await simulation.run_until_idle()


BUGS = (DUPLICATES, IGNORED_CHANGES, STALE_ENDPOINTS)
