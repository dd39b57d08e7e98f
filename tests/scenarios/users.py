"""Users of a simulated cluster whose actions are drawn from the seed."""

import asyncio
import contextlib
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any

from pilothouse.client import Client
from pilothouse.client.errors import ApiError
from pilothouse.sim import Simulation
from pilothouse.simulate.bugs.user import NAMESPACE as NAMESPACE
from pilothouse.simulate.bugs.user import SETS as SETS
from pilothouse.simulate.bugs.user import Doc as Doc
from pilothouse.simulate.bugs.user import User as User
from pilothouse.simulate.bugs.user import replica_set as replica_set


class RandomUser(User, ABC):
    """A user with a sequence of random actions, drawn from the seed."""

    PAUSES: tuple[float, ...] = (0.0, 0.05, 0.5, 3.0, 8.0)
    """Pauses between actions in seconds, equally likely."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.user)
        self._rng: random.Random = simulation.env.stream("user")

    @abstractmethod
    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        """Possible actions; likelier ones are repeated."""

    async def delete_any(self, path: str, body: Any = None) -> None:
        """Delete a random object of a collection."""
        items = await self.items(path)
        if items:
            await self.request("DELETE", f"{path}/{self._rng.choice(items)['metadata']['name']}", body)

    async def run_actions(self, count: int) -> None:
        """Perform ``count`` actions."""
        for _ in range(count):
            with contextlib.suppress(ApiError):  # rejected, or another client was faster
                await self._rng.choice(self.actions())()
            await asyncio.sleep(self._rng.choice(self.PAUSES))


class ReplicaSetUser(User):
    """Changes one or two ReplicaSets and their pods."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        super().__init__(client)
        self._rng = rng
        self._orphans = 0

    def actions(self) -> list[Callable[[], Awaitable[None]]]:
        """Possible actions; likelier ones are repeated."""
        return [
            self.scale,
            self.scale,
            self.scale,
            self.delete_pod,
            self.delete_pod,
            self.relabel_pod,
            self.restore_pod_label,
            self.orphan_pod,
            self.create_orphan_pod,
            self.change_template,
            self.fail_pod,
            self.recreate,
            self.create_overlapping,
            self.change_min_ready,
        ]

    async def run_actions(self, seconds: float, count: int) -> None:
        """Perform ``count`` actions within about ``seconds``."""
        for _ in range(count):
            await asyncio.sleep(self._rng.choice((0.0, 0.01, 0.5, 2.0)) * 2 * seconds / count * self._rng.random())
            try:
                await self._rng.choice(self.actions())()
            except ApiError:
                continue  # rejected, or deleted by another client

    async def _set(self) -> str:
        items = await self.items(SETS)
        return self._rng.choice(items)["metadata"]["name"] if items else "web"

    async def _pod(self) -> Doc | None:
        items = await self.items(f"{NAMESPACE}/pods")
        return self._rng.choice(items) if items else None

    async def scale(self) -> None:
        """Scale a ReplicaSet up or down."""
        replicas = self._rng.choice((0, 1, 2, 3, 5, 8, 12))
        await self.merge(f"{SETS}/{await self._set()}", {"spec": {"replicas": replicas}})

    async def delete_pod(self) -> None:
        """Delete a pod, with or without a grace period."""
        pod = await self._pod()
        if pod is not None:
            grace = self._rng.choice((None, None, 0, 5))
            body = None if grace is None else {"gracePeriodSeconds": grace}
            await self.request("DELETE", f"{NAMESPACE}/pods/{pod['metadata']['name']}", body)

    async def relabel_pod(self) -> None:
        """Change a pod's label so that it is released."""
        await self._label("other")

    async def restore_pod_label(self) -> None:
        """Restore a pod's label so that it is adopted."""
        await self._label("web")

    async def _label(self, app: str) -> None:
        pod = await self._pod()
        if pod is not None:
            await self.merge(f"{NAMESPACE}/pods/{pod['metadata']['name']}", {"metadata": {"labels": {"app": app}}})

    async def orphan_pod(self) -> None:
        """Remove a pod's owner reference, so that it is adopted again."""
        pod = await self._pod()
        if pod is not None:
            path = f"{NAMESPACE}/pods/{pod['metadata']['name']}"
            await self.merge(path, {"metadata": {"ownerReferences": None}})

    async def create_orphan_pod(self) -> None:
        """Create a matching pod without an owner."""
        self._orphans += 1
        spec = {"containers": [{"name": "main", "image": "pause:1"}]}
        meta = {"name": f"loose-{self._orphans}", "labels": {"app": "web"}}
        await self.request("POST", f"{NAMESPACE}/pods", {"metadata": meta, "spec": spec})

    async def change_template(self) -> None:
        """Change the image in the pod template."""
        image = f"pause:{self._rng.randrange(9)}"
        template = {"spec": {"containers": [{"name": "main", "image": image}]}}
        await self.merge(f"{SETS}/{await self._set()}", {"spec": {"template": template}})

    async def change_min_ready(self) -> None:
        """Change minReadySeconds."""
        await self.merge(f"{SETS}/{await self._set()}", {"spec": {"minReadySeconds": self._rng.choice((0, 3, 20))}})

    async def fail_pod(self) -> None:
        """Set a pod to Failed, as after an eviction by the kubelet."""
        pod = await self._pod()
        if pod is not None:
            path = f"{NAMESPACE}/pods/{pod['metadata']['name']}/status"
            await self.merge(path, {"status": {"phase": "Failed", "reason": "Evicted"}})

    async def recreate(self) -> None:
        """Delete a ReplicaSet with a random propagation policy, and recreate it."""
        name = await self._set()
        policy = self._rng.choice(("Background", "Foreground", "Orphan"))
        await self.request("DELETE", f"{SETS}/{name}", {"propagationPolicy": policy})
        await asyncio.sleep(self._rng.choice((0.0, 0.05, 3.0)))
        await self.create(name)

    async def create_overlapping(self) -> None:
        """Create a second ReplicaSet with an overlapping selector."""
        await self.create("rival")

    async def create(self, name: str) -> None:
        """Create a ReplicaSet."""
        labels = {"app": "web", "track": name}
        await self.request("POST", SETS, replica_set(name, self._rng.choice((1, 3, 7)), labels))


def user_of(simulation: Simulation) -> ReplicaSetUser:
    """The user of this simulation."""
    return ReplicaSetUser(simulation.user, simulation.env.stream("user"))
