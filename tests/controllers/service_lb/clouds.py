"""A simulated cloud with injected failures that records its calls."""

import asyncio
from collections.abc import Callable, Sequence

from pilothouse.api.core import LoadBalancerStatus, Node, Service
from pilothouse.controllers.shared.simulated_cloud import SimulatedBalancers, SimulatedCloud
from pilothouse.env import Env

Fault = Callable[[], None]


class FaultyBalancers(SimulatedBalancers):
    """``before`` and ``after`` are called around each operation and may raise. ``seconds`` is its duration."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        super().__init__(cloud.balancers)
        self.requests: list[str] = []
        self.before: dict[str, Fault] = {}
        self.after: dict[str, Fault] = {}
        self.seconds: dict[str, float] = {}

    async def _begin(self, operation: str, service: Service) -> None:
        self.requests.append(f"{operation} {service.metadata.name}")
        await asyncio.sleep(self.seconds.get(operation, 0.0))
        self.before.get(operation, _nothing)()

    async def get(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        await self._begin("get", service)
        return await super().get(cluster, service)

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        await self._begin("ensure", service)
        status = await super().ensure(cluster, service, nodes)
        self.after.get("ensure", _nothing)()
        return status

    async def update(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        await self._begin("update", service)
        await super().update(cluster, service, nodes)
        self.after.get("update", _nothing)()

    async def delete(self, cluster: str, service: Service) -> None:
        await self._begin("delete", service)
        await super().delete(cluster, service)
        self.after.get("delete", _nothing)()


class FaultyCloud(SimulatedCloud):
    """A simulated cloud with ``FaultyBalancers``."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.faulty = FaultyBalancers(self)
        self.load_balancers = self.faulty


def times(count: int, error: Exception) -> Fault:
    """Raise the error this many times."""
    left = count

    def fault() -> None:
        nonlocal left
        if left > 0:
            left -= 1
            raise error

    return fault


def _nothing() -> None:
    pass
