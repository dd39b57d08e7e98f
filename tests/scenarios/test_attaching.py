"""Volumes that follow their pods between nodes, under faults: never attached twice, never detached in use."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.scenarios.test_volumes import CLAIMS, PODS, SETS, VOLUMES, claim, web
from tests.scenarios.users import RandomUser
from tests.scenarios.variants import broken_without
from tests.tables import cases

from pilothouse.controllers.volumes.persistentvolume_attach_detach import controller as attaching
from pilothouse.controllers.volumes.persistentvolume_attach_detach.actual_state_of_world import ActualStateOfWorld
from pilothouse.controllers.volumes.persistentvolume_attach_detach.actual_state_populator import ActualStatePopulator
from pilothouse.controllers.volumes.persistentvolume_attach_detach.decide import Detach
from pilothouse.sim import Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.attachments import Attachments
from pilothouse.sim.invariants.protection import Protection
from pilothouse.sim.invariants.volumes import Volumes

ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
NODES = "/api/v1/nodes"
CONTROLLERS = (
    "persistentvolume-binder",
    "pvc-protection",
    "pv-protection",
    "attachdetach",
    "persistentvolume-expander",
)
OPTIONS = SimulationOptions(controllers=CONTROLLERS, storage=True, nodes=3)
pytestmark = pytest.mark.simulation(options=OPTIONS, invariants=lambda: (Attachments(),))
WITH_SETS = SimulationOptions(
    controllers=(*CONTROLLERS, "statefulset", "node-lifecycle-controller", "taint-eviction-controller", "podgc"),
    storage=True,
    nodes=3,
)
RESOURCES = ("persistentvolumeclaims", "persistentvolumes", "pods", "nodes", "volumeattachments.storage.k8s.io")
SECONDS = 90.0


class Owner(RandomUser):
    """Creates, expands and deletes claims, and pods that use them on different nodes."""

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        return [
            self.claim,
            self.create_pod,
            self.create_pod,
            self.create_pod,
            self.delete_pod,
            self.delete_pod,
            self.delete_claim,
            self.expand_claim,
        ]

    async def claim(self) -> None:
        """Create a claim with one of a few names, ReadWriteOnce or ReadWriteMany."""
        body = claim(f"c{self._rng.randrange(3)}", 1, "standard")
        body["spec"]["accessModes"] = [self._rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany"))]
        await self.request("POST", CLAIMS, body)

    async def create_pod(self) -> None:
        """Create a pod for one of the nodes."""
        name, node = f"c{self._rng.randrange(3)}", f"node-{self._rng.randrange(3)}"
        spec = {
            "terminationGracePeriodSeconds": 1,
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{"name": "main", "image": "pause:1"}],
            "volumes": [{"name": name, "persistentVolumeClaim": {"claimName": name}}],
        }
        await self.request("POST", PODS, {"metadata": {"name": f"p{self._rng.randrange(5)}"}, "spec": spec})

    async def delete_pod(self) -> None:
        """Delete a pod gracefully."""
        await self.delete_any(PODS)

    async def delete_claim(self) -> None:
        """Delete a claim."""
        await self.delete_any(CLAIMS)

    async def expand_claim(self) -> None:
        """Increase the requested storage of a claim."""
        items = await self.items(CLAIMS)
        if items:
            size = f"{self._rng.randrange(2, 9)}Gi"
            changes = {"spec": {"resources": {"requests": {"storage": size}}}}
            await self.merge(f"{CLAIMS}/{self._rng.choice(items)['metadata']['name']}", changes)

    async def delete_everything(self, simulation: Simulation) -> None:
        """Delete all claims and pods; no volume and no attachment may remain."""
        for path in (CLAIMS, PODS):
            await self.delete_all(path)
        await asyncio.sleep(300.0)
        await simulation.run_until_idle()
        for path in (PODS, CLAIMS, VOLUMES, ATTACHMENTS):
            assert await self.items(path) == [], path
        for node in await self.items(NODES):
            assert not node["status"].get("volumesAttached")
            assert not node["status"].get("volumesInUse")

    async def wait_for(self, description: str, check: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Wait until the check succeeds."""
        for _ in range(int(seconds)):
            if await check():
                return
            await asyncio.sleep(1.0)
        raise AssertionError(description)


@pytest.mark.simulation(invariants=lambda: (Attachments(), Protection(), Volumes()))
async def test_volumes_are_attached_to_the_nodes_of_their_pods(simulation: Simulation, seed: int) -> None:
    user = Owner(simulation)
    plan = draw(simulation.env.stream("plan"), SECONDS, count=8, resources=RESOURCES, restarts=True)
    await asyncio.gather(simulation.follow(plan), user.run_actions(30))
    simulation.end_faults()
    # With deleted claims, or claims used on two nodes, pods would wait forever.
    await user.delete_all(PODS, lambda found: bool(found["status"]["phase"] == "Pending"))
    await asyncio.sleep(300.0)
    for item in await user.items(CLAIMS):
        if "deletionTimestamp" not in item["metadata"]:
            assert item["status"]["capacity"] == item["spec"]["resources"]["requests"], "it has what it asks for"
    await simulation.run_until_idle()
    await user.delete_everything(simulation)


def running(user: Owner, *nodes: str) -> Callable[[], Awaitable[bool]]:
    """Whether web-0 runs, on none of these nodes."""

    async def check() -> bool:
        pod = await user.get(f"{PODS}/web-0")
        return pod is not None and pod["status"]["phase"] == "Running" and pod["spec"]["nodeName"] not in nodes

    return check


async def running_stateful_set(simulation: Simulation) -> tuple[Owner, str]:
    """A StatefulSet with one running pod, and the pod's node."""
    user = Owner(simulation)
    body: dict[str, Any] = web("standard")
    body["spec"]["replicas"] = 1
    await user.request("POST", SETS, body)
    await user.wait_for("web-0 runs", running(user), 60)
    pod = await user.get(f"{PODS}/web-0")
    assert pod is not None
    return user, pod["spec"]["nodeName"]


@pytest.mark.simulation(options=WITH_SETS, invariants=lambda: (Attachments(), Volumes()))
@cases(
    "fault, seconds",
    {
        "drained: at once": ("cordoned", (0, 60)),
        "out of service: at once": ("out-of-service", (0, 120)),
        "deleted node: after six minutes": ("gone", (300, 600)),
    },
)
async def test_volume_follows_a_rescheduled_pod(
    simulation: Simulation, seed: int, fault: str, seconds: tuple[int, int]
) -> None:
    user, old = await running_stateful_set(simulation)
    assert simulation.plane.nodes is not None
    begun = simulation.env.monotonic()
    if fault == "cordoned":
        await user.merge(f"{NODES}/{old}", {"spec": {"unschedulable": True}})
        await user.request("DELETE", f"{PODS}/web-0")
    elif fault == "out-of-service":
        simulation.plane.nodes.take_out_of_service(old)
        await user.request("DELETE", f"{PODS}/web-0")
    else:
        simulation.plane.nodes.vanish(old)
    await user.wait_for("web-0 runs elsewhere", running(user, old), seconds[1])
    assert simulation.env.monotonic() - begun >= seconds[0]
    simulation.plane.nodes.revive(old, pods=False)
    if fault == "cordoned":
        await user.merge(f"{NODES}/{old}", {"spec": {"unschedulable": None}})
    await asyncio.sleep(60.0)
    await simulation.run_until_idle()


def pod_on_node(number: int) -> dict[str, Any]:
    """A pod that uses ``c0``, on the node of its number."""
    spec = {
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": f"node-{number}"},
        "containers": [{"name": "main", "image": "pause:1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c0"}}],
    }
    return {"metadata": {"name": f"p{number}"}, "spec": spec}


async def two_pods_on_two_nodes(simulation: Simulation) -> None:
    """Two pods on two nodes use a ReadWriteOnce volume."""
    user = Owner(simulation)
    await user.request("POST", CLAIMS, claim("c0", 1, "standard"))
    await asyncio.sleep(20.0)
    for number in range(2):
        await user.request("POST", PODS, pod_on_node(number))
    await asyncio.sleep(60.0)


async def from_caches(populator: ActualStatePopulator) -> None:
    populator.is_populated = True  # nor does their cache have the write of the node


@pytest.mark.parametrize("moves", [False, True], ids=["succeeds", "rescheduled"])
@broken_without(
    (ActualStatePopulator, "populate_actual_state_of_world", from_caches),
    fails=lambda moves: "is attached to node-1, and to" if moves else "is attached and unused",
    invariants=lambda: (Attachments(), Volumes()),
)
async def test_manager_with_stale_lists_takes_over_during_a_pod_deletion(simulation: Simulation, moves: bool) -> None:
    """Its lists do not show that the volume is attached."""
    user = Owner(simulation)
    await user.request("POST", CLAIMS, claim("c0", 1, "standard"))
    await asyncio.sleep(20.0)
    simulation.replica.set_lag(None)
    await user.request("POST", PODS, pod_on_node(0))
    await asyncio.sleep(20.0)
    simulation.kill(stale=True)
    await user.request("DELETE", f"{PODS}/p0")
    if moves:
        await user.request("POST", PODS, pod_on_node(1))
    await asyncio.sleep(120.0)
    await simulation.run_until_idle()


@broken_without(
    (ActualStateOfWorld, "get_nodes_for_attached_volume", lambda _self, _volume: []), fails="is attached to node-"
)
async def test_invariant_detects_a_volume_attached_twice(simulation: Simulation) -> None:
    await two_pods_on_two_nodes(simulation)


async def terminating_slowly(simulation: Simulation) -> None:
    """A pod is deleted with a long grace period."""
    user, _node = await running_stateful_set(simulation)
    annotations = {"simulated.pilothouse.dev/stop-delay": "20s"}
    await user.merge(f"{PODS}/web-0", {"metadata": {"annotations": annotations}})
    await user.request("DELETE", f"{PODS}/web-0", {"gracePeriodSeconds": 30})
    await asyncio.sleep(60.0)


@broken_without(
    (attaching, "has_ended", lambda pod: pod.metadata.deletion_timestamp is not None),
    (attaching, "decide_detach", lambda _seen: Detach("timeout")),
    fails="where default/web-0 runs",
    options=WITH_SETS,
)
async def test_invariant_detects_a_volume_detached_in_use(simulation: Simulation) -> None:
    await terminating_slowly(simulation)


@pytest.mark.simulation(invariants=lambda: (Attachments(), Protection(), Volumes()))
@pytest.mark.parametrize("past_seed", [3000, 3006])
async def test_regression_seeds(simulation: Simulation, past_seed: int) -> None:
    """A manager that starts with stale lists does not detach an unused volume."""
    await test_volumes_are_attached_to_the_nodes_of_their_pods(simulation, past_seed)
