"""``Plane``: a whole control plane on the running event loop."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from pilothouse import runtime
from pilothouse.api.core import PODS, Pod
from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.client import Client
from pilothouse.client.client import NOTHING_WIDER
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.options import LeaderElection, Options
from pilothouse.controllermanager.selection import Selection
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.tasks import first_of
from pilothouse.machinery.metrics import Registry
from pilothouse.nodes import NodeSimulator, Profile
from pilothouse.nodes.behaviour import DeriveBehaviour, behaviour_of
from pilothouse.nodes.views import NodePod
from pilothouse.plane.clients import SCHEDULER_USER, LocalClients, Wrap, as_it_is, env_of
from pilothouse.runtime import InformerFactory
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.on_demand import OnDemand
from pilothouse.runtime.watches import Watch
from pilothouse.storage import Store

if TYPE_CHECKING:
    from pilothouse.apiserver.metrics.requests import ClientMetrics
    from pilothouse.client.decision_log import DecisionLog
    from pilothouse.controllers.shared.cloud import CloudProvider
    from pilothouse.controllers.shared.simulated_cloud import SimulatedCloud
    from pilothouse.nodes.driver import SimulatedDriver
    from pilothouse.nodes.stages import Stage
    from pilothouse.scheduler import Scheduler

with lazy_imports():
    from pilothouse import scheduler
    from pilothouse.controllers.cloud import cloud_node_lifecycle, service_lb
    from pilothouse.controllers.shared import simulated_cloud
    from pilothouse.nodes import driver
    from pilothouse.runtime import client_metrics

_log = Log("plane")
ADMIN = ("kubernetes-admin", ("system:masters",))
ATTACH_DETACH = "persistentvolume-attach-detach-controller"
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


class Plane:
    """API server, manager, scheduler and nodes as tasks of one group. ``run`` until cancelled; ``wait_ready`` returns
    when they are ready.

    Programs start in the order in which they depend on each other and stop in the opposite one.
    """

    def __init__(
        self,
        env: Env,
        store: Store,
        options: PlaneOptions | None = None,
        *,
        server: ApiServer | None = None,
        descriptors: Sequence[Descriptor] = DESCRIPTORS,
        wrap: Wrap = as_it_is,
        decisions: "DecisionLog | None" = None,
    ) -> None:
        """``decisions`` records the writes of the plane's programs."""
        self.env = env
        self.options = options or PlaneOptions()
        self._descriptors = descriptors
        self.server = server or ApiServer(env, store, options=_server_options(self.options))
        # With nodes, all programs share the kubelets' decoded pods, which have more fields, instead of decoding them
        # twice.
        self.node_profiles = _profiles(self.options)
        self.node_names = list(self.node_profiles)
        wider = {Pod: NodePod} if self.node_names else NOTHING_WIDER
        self.manager_metrics, self.scheduler_metrics = Registry(), Registry()
        self.clients = LocalClients(env, self.server, wrap, wider, decisions, self._client_metrics())
        self._outside = LocalClients(env, self.server)
        self.cloud = self._new_cloud()
        self.manager = self._new_manager(descriptors)
        if self.manager is not None:
            self.server.component_metrics["kube-controller-manager"] = [self.manager.metrics.exposition]
        self.scheduler_factory = InformerFactory(
            self.clients.client("scheduler", SCHEDULER_USER), env_of(env, "scheduler")
        )
        if self.options.scheduler:
            self.server.component_metrics["kube-scheduler"] = [self.scheduler_metrics.exposition]
        self.node_factory = InformerFactory(self.clients.client("nodes", *ADMIN), env_of(env, "nodes"))
        self.scheduler = self._new_scheduler()
        self.nodes = self._new_nodes()
        self.provisioner = self._new_provisioner()
        if self.nodes is not None:
            self.server.core.pod_logs = self.nodes.log
            if self.options.resource_metrics:
                self.server.serve_resource_metrics(self.nodes)

    def client(self, user: str = ADMIN[0], groups: tuple[str, ...] = ADMIN[1], *, agent: str = "") -> Client:
        """A client from outside the plane, by default an administrator; never wrapped."""
        return self._outside.client("client", user, groups, agent=agent)

    def _client_metrics(self) -> "dict[str, ClientMetrics]":
        """Counts the requests of the programs that serve metrics; None if there is none."""
        if self.server.core.metrics is None:
            return {}
        registries = {"manager": self.manager_metrics, "scheduler": self.scheduler_metrics}
        return {
            program: client_metrics.RestClientMetrics(families, self.env.now)
            for program, families in registries.items()
        }

    def _new_manager(self, descriptors: Sequence[Descriptor]) -> Manager | None:
        options = self.options.manager
        if options is None:
            return None
        if self.cloud is not None:
            detail = {**with_cloud(self.cloud), **options.controller_options}
            options = msgspec.structs.replace(options, controller_options=detail)
        if self.options.on_demand:
            options = msgspec.structs.replace(options, on_demand=True)
        return Manager(
            env_of(self.env, "manager"),
            options,
            self.clients.manager(use_service_accounts=options.use_service_account_credentials),
            descriptors,
            metrics=self.manager_metrics,
            identity=self.options.manager_identity,
            expressions=lambda: self.server.core.long_work.sandbox,
        )

    def _new_cloud(self) -> "SimulatedCloud | None":
        if not self.options.cloud:
            return None
        return simulated_cloud.SimulatedCloud(self.env)

    def _new_scheduler(self) -> "Scheduler | OnDemand | None":
        if not self.options.scheduler:
            return None
        if not self.options.on_demand:
            return self._scheduler()
        unbound = Watch(kind=PODS, predicate=lambda pod: not pod.spec.node_name)

        async def build() -> "Scheduler":
            return self._scheduler()

        return OnDemand("scheduler", (unbound,), self.scheduler_factory, build)

    def _scheduler(self) -> "Scheduler":
        qps, burst = self.options.scheduler_rate
        client = self.clients.client("scheduler", SCHEDULER_USER, qps=qps, burst=burst)
        return scheduler.Scheduler(
            env_of(self.env, "scheduler"),
            client=client,
            informers=self.scheduler_factory,
            metrics=self.scheduler_metrics,
            expressions=lambda: self.server.core.long_work.sandbox,
        )

    def _new_nodes(self) -> NodeSimulator | None:
        if not self.node_names:
            return None
        return NodeSimulator(
            env_of(self.env, "nodes"),
            names=self.node_names,
            informers=self.node_factory,
            client_for=lambda name: self.clients.client("nodes", f"system:node:{name}", ("system:nodes",)),
            administrator=self.clients.client("nodes", *ADMIN),
            profile=self.options.profile,
            profiles=self.node_profiles,
            derive_behaviour=self.options.derive_behaviour,
            stages=self.options.stages,
            storage=self.options.storage,
        )

    def _new_provisioner(self) -> "SimulatedDriver | None":
        if not self.options.storage:
            return None
        client = self.clients.client("nodes", *ADMIN)
        return driver.SimulatedDriver(
            env_of(self.env, "nodes"), client=client, informers=self.node_factory, attach=self._attaches()
        )

    def _attaches(self) -> bool:
        """Whether there is a manager that attaches volumes: otherwise pods would wait forever."""
        if self.options.attach is not None:
            return self.options.attach
        manager = self.options.manager
        return manager is not None and any(
            descriptor.name == ATTACH_DETACH and Selection(manager.controllers).enables(descriptor)
            for descriptor in self._descriptors
        )

    async def run(self) -> None:
        """Run all programs until cancelled, or until one of them fails."""
        async with TaskGroup("plane: API server") as outer:
            outer.start(self.server.run(), name="API server")
            async with TaskGroup("plane: programs") as group:
                if self.nodes is not None or self.provisioner is not None:
                    self.node_factory.start(group)
                if self.nodes is not None:
                    group.start(self.nodes.run(), name="nodes")
                if self.provisioner is not None:
                    group.start(self.provisioner.run(), name="driver")
                if self.scheduler is not None:
                    self.scheduler_factory.start(group)
                    group.start(self.scheduler.run(), name="scheduler")
                if self.manager is not None:
                    group.start(_manage(self.manager), name="manager")
                await asyncio.get_running_loop().create_future()

    async def wait_ready(self) -> None:
        """Return once the first objects are there, nodes have registered and the controllers run with filled caches."""
        await self.server.commit_bootstrap_objects()
        if self.nodes is not None:
            await self.nodes.ready.wait()
        if self.provisioner is not None:
            await self.provisioner.ready.wait()
        if self.manager is not None:
            await self.manager.leading.wait()


def _profiles(options: PlaneOptions) -> dict[str, Profile]:
    """The nodes by name. Raises ``ValueError`` for two of the same name."""
    profiles = {f"{options.node_prefix}{index}": options.profile for index in range(options.nodes)}
    for group in options.groups:
        for index in range(group.count):
            name = f"{group.name}-{index}"
            if name in profiles:
                raise ValueError(f"two nodes are called {name}: give the groups other names")
            profiles[name] = group.profile
    # The controllers observe the taints of nodes that existed before.
    adopted = msgspec.structs.replace(options.profile, adopts=True, clears_start_taint=False)
    for name in options.adopted_nodes:
        if name in profiles:
            raise ValueError(f"there is a node {name} already: give the new nodes another prefix")
        profiles[name] = adopted
    return profiles


def _server_options(options: PlaneOptions) -> ServerOptions:
    return ServerOptions(gates=options.gates, service_range=options.service_range)


async def _manage(manager: Manager) -> None:
    """Run the manager until cancelled, and restart it when it has lost its lease.

    A separate process would exit then, be restarted, and wait for the lease. Here the exit of the process would also
    end the API server, and lose a cluster in memory.
    """
    while True:
        try:
            await manager.run()
        except* (runtime.LeadershipLost, runtime.LostLease) as lost:
            _log.warning("The manager has lost its lease and restarts", reason=first_of(lost))


def with_cloud(provider: "CloudProvider") -> dict[str, msgspec.Struct]:
    """The options with which the cloud controllers use that provider."""
    return {
        cloud_node_lifecycle.DESCRIPTOR.name: cloud_node_lifecycle.CloudNodeLifecycleOptions(provider=provider),
        service_lb.DESCRIPTOR.name: service_lb.ServiceLBOptions(provider=provider),
    }
