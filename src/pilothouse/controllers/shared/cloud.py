"""The interface of cloud providers. ``cloud_providers`` finds one by its name.

A provider is a class with these attributes and methods, and an entry point of the group ``pilothouse.cloud_providers``
that names its factory::

    [project.entry-points."pilothouse.cloud_providers"]
    acme = "acme_cloud:provider"

    def provider(env: Env) -> CloudProvider: ...

``pilothouse manager --cloud-loops=acme`` then runs the controllers that the provider supports. Mirrors
k8s.io/cloud-provider v0.36 ``cloud.go``, without the parts that no controller here uses.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

import msgspec

from pilothouse.api.core import LoadBalancerStatus, Node, NodeAddress, Service
from pilothouse.env import Log


class ImplementedElsewhere(Exception):
    """Another controller manages the load balancer of this service. Nothing is done then."""


class TryAgainAfter(Exception):
    """It is not ready yet: retry after this many seconds, without backoff."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class LoadBalancers(Protocol):
    """Load balancers, one for each service. Calls about one service never overlap, but for ``update``.

    Every method may raise: the error is shown to users in an event, and the call is retried.
    """

    async def get(self, cluster: str, service: Service) -> LoadBalancerStatus | None:
        """The status of the service's load balancer; None if there is none."""
        ...

    async def ensure(self, cluster: str, service: Service, nodes: Sequence[Node]) -> LoadBalancerStatus:
        """Create or update the load balancer, and return its status. May raise ``TryAgainAfter`` while it is being
        created, or ``ImplementedElsewhere``."""
        ...

    async def update(self, cluster: str, service: Service, nodes: Sequence[Node]) -> None:
        """Set the nodes of the load balancer. Must not create one."""
        ...

    async def delete(self, cluster: str, service: Service) -> None:
        """Delete the load balancer with all its parts, if it exists."""
        ...


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """The route of a range."""

    name: str = ""
    node: str = ""
    destination: str = ""
    """A range in CIDR notation."""
    blackhole: bool = False
    addresses: tuple[NodeAddress, ...] | None = None
    """The node's addresses, for providers whose routes depend on them; None if they do not."""


class Routes(Protocol):
    """The routes of the cluster's network."""

    async def list(self, cluster: str) -> Sequence[Route]:
        """All routes of the cluster."""
        ...

    async def create(self, cluster: str, name_hint: str, route: Route) -> None:
        """Create a route. ``name_hint`` may become part of its name."""
        ...

    async def delete(self, cluster: str, route: Route) -> None:
        """Delete a route, as ``list`` has it."""
        ...


class Instances(Protocol):
    """The machines of nodes."""

    async def exists(self, node: Node) -> bool:
        """Whether the node's machine exists, running or not. If not, the node is deleted."""
        ...

    async def is_shut_down(self, node: Node) -> bool:
        """Whether the machine exists and is switched off."""
        ...


class CloudProvider(Protocol):
    """A cloud provider. Interfaces that it does not support are None."""

    name: str
    load_balancers: LoadBalancers | None
    routes: Routes | None
    instances: Instances | None


class DisabledController:
    """Replaces a controller that the provider does not support. It logs why, and does nothing."""

    def __init__(self, name: str, log: Log, reason: str) -> None:
        self.name = name
        self._log = log
        self._why = reason

    async def run(self) -> None:
        """Nothing, until cancelled."""
        self._log.info("Skipping controller", controller=self.name, reason=self._why)
        await asyncio.get_running_loop().create_future()
