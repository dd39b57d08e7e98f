"""What the cloud controllers need of a cloud. ``cloud_providers`` finds a provider by its name.

Whoever has a cloud writes a class with these attributes and methods, and an entry point of the group
``pilothouse.cloud_providers`` that names a function which makes one::

    [project.entry-points."pilothouse.cloud_providers"]
    acme = "acme_cloud:provider"

    def provider(env: Env) -> CloudProvider: ...

``pilothouse manager --cloud-loops=acme`` then runs the controllers for which the provider has something. Mirrors
k8s.io/cloud-provider v0.36 ``cloud.go``; what no controller here asks is left out.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pilothouse.api.core import LoadBalancerStatus, Node, NodeAddress, Service
from pilothouse.env import Log


class ImplementedElsewhere(Exception):
    """Somebody else makes the load balancer of this service. Nothing is done then, and nothing is wrong."""


class TryAgainAfter(Exception):
    """It is not ready yet: ask again after so many seconds, instead of ever more seldom."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class LoadBalancers(Protocol):
    """Load balancers, one for each service. Calls about one service never overlap, but for ``update``.

    Every method may raise: what is raised is shown to users in an event, and the call is made again.
    """

    async def get(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """Where the service's load balancer is found; None if there is none."""
        ...

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Make the load balancer, or bring the one that there is to what the service says. Returns where it is found.

        May raise ``TryAgainAfter`` while it is being made, or ``ImplementedElsewhere``.
        """
        ...

    async def update(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Have the load balancer send to these nodes. It must not be made anew if there is none."""
        ...

    async def delete(self, cluster: str, service: Service) -> None:
        """Delete the load balancer with all its parts; return also if there is none."""
        ...


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where packets for a range go."""

    name: str = ""
    node: str = ""
    destination: str = ""
    """A range in CIDR notation."""
    blackhole: bool = False
    addresses: tuple[NodeAddress, ...] | None = None
    """The node's addresses, for providers whose routes depend on them; None: they do not."""


class Routes(Protocol):
    """The routes of the cluster's network."""

    async def list(self, cluster: str) -> Sequence[Route]:
        """All routes of the cluster."""
        ...

    async def create(self, cluster: str, name_hint: str, route: Route) -> None:
        """Make a route. What is in ``name_hint`` may become part of its name."""
        ...

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route, as ``list`` has it."""
        ...


class Instances(Protocol):
    """The machines behind nodes."""

    async def exists(self, node: Node) -> bool:
        """Whether there is a machine for the node, running or not. If not, the node is deleted."""
        ...

    async def is_shut_down(self, node: Node) -> bool:
        """Whether the machine is there, and switched off."""
        ...


class CloudProvider(Protocol):
    """A cloud. What it does not have is None."""

    name: str
    load_balancers: LoadBalancers | None
    routes: Routes | None
    instances: Instances | None


class NothingToDo:
    """Stands for a controller for which the provider has nothing. It says so, and does nothing."""

    def __init__(self, name: str, log: Log, why: str) -> None:
        self.name = name
        self._log = log
        self._why = why

    async def run(self) -> None:
        """Nothing, until cancelled."""
        self._log.info("Skipping controller", controller=self.name, reason=self._why)
        await asyncio.get_running_loop().create_future()
