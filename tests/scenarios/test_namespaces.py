"""Namespaces under faults: deletion completes, and nothing outside is deleted."""

import asyncio
import random
from collections.abc import Sequence

import pytest
from tests.scenarios.users import Doc, User, replica_set

from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.sim import Invariant, Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.garbage import Garbage
from pilothouse.sim.invariants.namespaces import Namespaces

OPTIONS = SimulationOptions(nodes=1, controllers=("namespace", "replicaset", "garbagecollector"))
RESOURCES = ("namespaces", "pods", "configmaps")
SECONDS = 60.0
NAMES = ("a", "b", "c")
FOREIGN = "example.com/hold"
KINDS = {
    ("v1", "ConfigMap"): ("configmaps", True),
    ("v1", "Pod"): ("pods", True),
    ("apps/v1", "ReplicaSet"): ("replicasets", True),
}


def invariants() -> Sequence[Invariant]:
    return (Namespaces(), Garbage(KINDS))


class NamespaceUser(User):
    """Creates objects in namespaces, and deletes namespaces."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        super().__init__(client)
        self._rng = rng
        self._made = 0

    async def run_actions(self, count: int) -> None:
        """Perform ``count`` actions, then remove foreign finalizers."""
        actions = [self.create_namespace] * 2 + [self.fill] * 5 + [self.delete_namespace] * 2
        for _ in range(count):
            await asyncio.sleep(self._rng.choice((0.0, 0.2, 1.0, 5.0)))
            try:
                await self._rng.choice(actions)(self._rng.choice(NAMES))
            except ApiError:
                continue  # exists already, was deleted, or is terminating
        for item in await self.items("/api/v1/configmaps"):
            meta: Doc = item["metadata"]
            if FOREIGN in meta.get("finalizers", ()):
                await self.merge(
                    f"/api/v1/namespaces/{meta['namespace']}/configmaps/{meta['name']}",
                    {"metadata": {"finalizers": None}},
                )

    async def create_namespace(self, name: str) -> None:
        """Create a namespace, possibly with a name that existed before."""
        await self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})

    async def delete_namespace(self, name: str) -> None:
        """Delete a namespace with its content."""
        await self.request("DELETE", f"/api/v1/namespaces/{name}")

    async def fill(self, name: str) -> None:
        """Create ConfigMaps, pods and ReplicaSets, some with finalizers."""
        self._made += 1
        called = f"o{self._made}"
        root = f"/api/v1/namespaces/{self._rng.choice((name, name, 'default'))}"
        match self._rng.randrange(4):
            case 0:
                finalizers = [FOREIGN] if self._rng.random() < 0.3 else []
                await self.request(
                    "POST", f"{root}/configmaps", {"metadata": {"name": called, "finalizers": finalizers}}
                )
            case 1:
                spec = {"containers": [{"name": "main", "image": "pause"}]}
                await self.request("POST", f"{root}/pods", {"metadata": {"name": called}, "spec": spec})
            case 2:
                sets = root.replace("/api/v1", "/apis/apps/v1") + "/replicasets"
                await self.request("POST", sets, replica_set(called, 3, {"app": called}))
            case _:
                await self.request("POST", f"{root}/configmaps", {"metadata": {"name": called}})


@pytest.mark.simulation(options=OPTIONS, invariants=invariants)
async def test_namespace_deletion_removes_only_its_content(simulation: Simulation, seed: int) -> None:
    env = simulation.env
    plan = draw(env.stream("plan"), SECONDS, count=10, resources=RESOURCES, restarts=True)
    user = NamespaceUser(simulation.user, env.stream("user"))
    await asyncio.gather(simulation.follow(plan), user.run_actions(45))
    await simulation.run_until_idle()
