"""The garbage collector under faults: objects with an existing owner are kept, others are deleted."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
from tests.scenarios.users import Doc, User

from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.sim import Invariant, Simulation, SimulationOptions, draw
from pilothouse.sim.invariants.garbage import Garbage

OPTIONS = SimulationOptions(nodes=1, controllers=("garbagecollector",))
RESOURCES = ("configmaps", "secrets", "clusterroles")
SECONDS = 60.0
FOREIGN = "example.com/hold"

KINDS: dict[tuple[str, str], tuple[str, bool]] = {
    ("v1", "ConfigMap"): ("configmaps", True),
    ("v1", "Secret"): ("secrets", True),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): ("clusterroles", False),
}
NAMESPACES = ("default", "kube-public")


def invariants() -> Sequence[Invariant]:
    return (Garbage(KINDS),)


def path_of(kind: tuple[str, str], namespace: str) -> str:
    api_version, _kind = kind
    resource, namespaced = KINDS[kind]
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{resource}" if namespaced else f"{root}/{resource}"


class GraphUser(User):
    """Creates objects that own each other, and deletes some."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        super().__init__(client)
        self._rng = rng
        self._made = 0
        self._known: list[tuple[tuple[str, str], Doc]] = []
        """All objects ever created, whether or not they still exist."""

    async def run_actions(self, count: int) -> None:
        """Perform ``count`` actions, then remove foreign finalizers."""
        await self.create()
        actions = [self.create] * 5 + [self.delete] * 4 + [self.change_owners] * 2 + [self.touch, self.create_cycle]
        for _ in range(count):
            await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.2, 2.0, 5.0)))
            try:
                await self._rng.choice(actions)()
            except ApiError:
                continue  # already deleted, by this or another client
        for kind, doc in self._known:
            try:
                obj = await self.get(self._path(kind, doc))
                if obj is not None and FOREIGN in obj["metadata"].get("finalizers", ()):
                    remaining = [finalizer for finalizer in obj["metadata"]["finalizers"] if finalizer != FOREIGN]
                    await self.merge(self._path(kind, doc), {"metadata": {"finalizers": remaining}})
            except ApiError:
                continue

    def _path(self, kind: tuple[str, str], doc: Doc) -> str:
        meta = doc["metadata"]
        return f"{path_of(kind, meta.get('namespace', ''))}/{meta['name']}"

    def _random_object(self) -> tuple[tuple[str, str], Doc]:
        return self._rng.choice(self._known[-25:])

    def _reference(self) -> Doc:
        """Usually to an existing object, sometimes with one wrong coordinate."""
        (api_version, kind), owner = self._random_object()
        reference: Doc = {
            "apiVersion": api_version,
            "kind": kind,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        if self._rng.random() < 0.5:
            reference["blockOwnerDeletion"] = True
        match self._rng.randrange(24):
            case 0:
                reference["name"] = "wrong"
            case 1:
                reference["apiVersion"], reference["kind"] = self._rng.choice(sorted(KINDS))
            case 2:
                reference["uid"] = f"00000000-0000-4000-8000-{self._rng.randrange(10**12):012}"
            case 3:
                reference["apiVersion"], reference["kind"] = "example.com/v1", "Widget"
            case _:
                pass
        return reference

    def _references(self) -> list[Doc]:
        if not self._known:
            return []
        result = [self._reference() for _ in range(self._rng.choice((0, 0, 1, 1, 1, 2, 3)))]
        return list({reference["uid"]: reference for reference in result}.values())

    async def create(self, **changes: Any) -> Doc:
        """Create an object with random owners."""
        kind = self._rng.choice(sorted(KINDS))
        self._made += 1
        finalizers = [FOREIGN] if self._rng.random() < 0.1 else []
        meta = {"name": f"o{self._made}", "ownerReferences": self._references(), "finalizers": finalizers, **changes}
        namespace = self._rng.choice((NAMESPACES[0], *NAMESPACES))
        created = await self.request("POST", path_of(kind, namespace), {"metadata": meta})
        self._known.append((kind, created))
        return created

    async def create_cycle(self) -> None:
        """Add a dependent as an owner of its owner."""
        kind, owner = self._random_object()
        api_version, name = kind
        uid = owner["metadata"]["uid"]
        reference = {"apiVersion": api_version, "kind": name, "name": owner["metadata"]["name"], "uid": uid}
        await self.create(ownerReferences=[{**reference, "blockOwnerDeletion": True}])
        other_kind, other = self._known[-1]
        back = {
            "apiVersion": other_kind[0],
            "kind": other_kind[1],
            "name": other["metadata"]["name"],
            "uid": other["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        await self.merge(self._path(kind, owner), {"metadata": {"ownerReferences": [back]}})

    async def delete(self) -> None:
        """Delete an object with a random propagation policy."""
        kind, doc = self._random_object()
        policy = self._rng.choice(("Background", "Background", "Foreground", "Foreground", "Orphan", ""))
        await self.request("DELETE", self._path(kind, doc), {"propagationPolicy": policy} if policy else None)

    async def change_owners(self) -> None:
        """Replace or remove owner references."""
        kind, doc = self._random_object()
        await self.merge(self._path(kind, doc), {"metadata": {"ownerReferences": self._references()}})

    async def touch(self) -> None:
        """Change a label."""
        kind, doc = self._random_object()
        await self.merge(self._path(kind, doc), {"metadata": {"labels": {"touched": str(self._rng.random())}}})


@pytest.mark.simulation(options=OPTIONS, invariants=invariants)
async def test_only_objects_without_an_existing_owner_are_deleted(simulation: Simulation, seed: int) -> None:
    env = simulation.env
    plan = draw(env.stream("plan"), SECONDS, count=10, resources=RESOURCES, restarts=True)
    user = GraphUser(simulation.user, env.stream("user"))
    await asyncio.gather(simulation.follow(plan), user.run_actions(60))
    await simulation.run_until_idle()
