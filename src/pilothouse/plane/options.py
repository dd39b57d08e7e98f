"""The components of a plane and their options."""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.nodes import Profile
from pilothouse.nodes.behaviour import DeriveBehaviour, behaviour_of

if TYPE_CHECKING:
    from pilothouse.nodes.stages import Stage

SERVICE_RANGE = "10.0.0.0/16"
"""Cluster IPs of a plane. kube-apiserver's default, 10.0.0.0/24, which it contains, has no more than 254. Simulated
nodes and pods have addresses beyond it (``nodes.addresses``)."""


class NodeGroup(msgspec.Struct, frozen=True):
    """Nodes that are alike: ``NAME-0`` to ``NAME-(count - 1)``."""

    name: str
    count: int
    profile: Profile = Profile()


class PlaneOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The components of a plane and their options."""

    nodes: int = 3
    node_prefix: str = "node-"
    profile: Profile = Profile()
    groups: tuple[NodeGroup, ...] = ()
    """Further nodes, with profiles of their own."""
    adopted_nodes: tuple[str, ...] = ()
    """Nodes that are in the store already, and are simulated as they are, with ``profile``."""
    derive_behaviour: DeriveBehaviour = behaviour_of
    """The behaviour of the pods on the nodes."""
    stages: "tuple[Stage, ...]" = ()
    """Override the built-in behaviour of nodes and pods (``pilothouse.nodes.stages``)."""
    resource_metrics: bool = True
    """Whether metrics.k8s.io is served, with the usage from the pods' annotations."""
    scheduler: bool = True
    scheduler_rate: tuple[float, int] = (0.0, 0)
    """Requests of the scheduler a second, and at once; 0: no limit."""
    on_demand: bool = False
    """Whether the scheduler, and the controllers that support it, are created with the first object that they have to
    process (``runtime.on_demand``)."""
    storage: bool = False
    """Create a default StorageClass, and a CSI driver that provisions its volumes (``pilothouse.nodes.driver``)."""
    attach: bool | None = None
    """Whether its volumes have to be attached; None: if the plane's manager runs the attach-detach controller."""
    cloud: bool = False
    """A simulated cloud, in which Services get load balancers (``pilothouse.controllers.shared.simulated_cloud``)."""
    gates: tuple[str, ...] = ()
    """Feature gates of the API server, as in ``ServerOptions``; the manager has its own. Only for a plane that creates
    its server."""
    service_range: str = SERVICE_RANGE
    """As ``--service-cluster-ip-range``. Only for a plane that creates its server."""
    manager: Options | None = Options(leader_election=LeaderElection(enabled=False))
    """None for a plane without a manager."""
    manager_identity: str = ""
