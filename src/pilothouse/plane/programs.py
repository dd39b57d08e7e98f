"""``Programs``: the manager, the scheduler and the simulated nodes of a plane, with clients of one API server.

They run in the process of the API server (``Plane``), or in one of their own (``plane.processes``).
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from pilothouse import runtime
from pilothouse.api.core import PODS, Pod
from pilothouse.cel.limits import GetEvaluator, no_evaluator
from pilothouse.client.client import NOTHING_WIDER
from pilothouse.controllermanager.manager import Manager
from pilothouse.controllermanager.selection import Selection
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.tasks import first_of
from pilothouse.machinery.metrics import Registry
from pilothouse.nodes import NodeSimulator, Profile
from pilothouse.nodes.views import NodePod
from pilothouse.plane.clients import ADMIN, SCHEDULER_USER, NewClients, env_of
from pilothouse.plane.options import PlaneOptions
from pilothouse.runtime import InformerFactory
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.runtime.on_demand import OnDemand
from pilothouse.runtime.watches import Watch

if TYPE_CHECKING:
    from pilothouse.apiserver.metrics.requests import ClientMetrics
    from pilothouse.controllers.shared.cloud import CloudProvider
    from pilothouse.controllers.shared.simulated_cloud import SimulatedCloud
    from pilothouse.nodes.driver import SimulatedDriver
    from pilothouse.scheduler import Scheduler

with lazy_imports():
    from pilothouse import scheduler
    from pilothouse.controllers.cloud import cloud_node_lifecycle, service_lb
    from pilothouse.controllers.shared import simulated_cloud
    from pilothouse.nodes import driver
    from pilothouse.runtime import client_metrics

_log = Log("plane")
MANAGER, SCHEDULER = "kube-controller-manager", "kube-scheduler"
ATTACH_DETACH = "persistentvolume-attach-detach-controller"


class Programs:
    """The programs as tasks of one group. ``run`` until cancelled; ``wait_ready`` returns when they are ready."""

    def __init__(
        self,
        env: Env,
        options: PlaneOptions,
        new_clients: NewClients,
        *,
        descriptors: Sequence[Descriptor] = DESCRIPTORS,
        expressions: GetEvaluator = no_evaluator,
        counts_requests: bool = True,
    ) -> None:
        """``expressions``: as of ``Manager``. ``counts_requests``: whether the requests of the manager and the
        scheduler are in their metrics."""
        self.env = env
        self.options = options
        self._descriptors = descriptors
        self._expressions = expressions
        self.manager_metrics, self.scheduler_metrics = Registry(), Registry()
        # With nodes, all programs share the kubelets' decoded pods, which have more fields, instead of decoding them
        # twice.
        self.node_profiles = node_profiles(options)
        wider = {Pod: NodePod} if self.node_profiles else NOTHING_WIDER
        self.clients = new_clients(wider, self._client_metrics() if counts_requests else {})
        self.cloud = self._new_cloud()
        self.manager = self._new_manager(descriptors)
        self.scheduler_factory = InformerFactory(
            self.clients.client("scheduler", SCHEDULER_USER), env_of(env, "scheduler")
        )
        self.node_factory = InformerFactory(self.clients.client("nodes", *ADMIN), env_of(env, "nodes"))
        self.scheduler = self._new_scheduler()
        self.nodes = self._new_nodes()
        self.provisioner = self._new_provisioner()

    @property
    def metrics(self) -> dict[str, Registry]:
        """The metrics of the programs, by component."""
        registries = {MANAGER: self.manager_metrics, SCHEDULER: self.scheduler_metrics}
        return {component: registries[component] for component in components(self.options)}

    def _client_metrics(self) -> "dict[str, ClientMetrics]":
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
            expressions=self._expressions,
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
            expressions=self._expressions,
        )

    def _new_nodes(self) -> NodeSimulator | None:
        if not self.node_profiles:
            return None
        return NodeSimulator(
            env_of(self.env, "nodes"),
            names=list(self.node_profiles),
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
        """Return once the nodes have registered and the controllers run with filled caches."""
        if self.nodes is not None:
            await self.nodes.ready.wait()
        if self.provisioner is not None:
            await self.provisioner.ready.wait()
        if self.manager is not None:
            await self.manager.leading.wait()


def components(options: PlaneOptions) -> list[str]:
    """The programs that have metrics, by upstream's names."""
    return [*([MANAGER] if options.manager is not None else ()), *([SCHEDULER] if options.scheduler else ())]


def node_profiles(options: PlaneOptions) -> dict[str, Profile]:
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
