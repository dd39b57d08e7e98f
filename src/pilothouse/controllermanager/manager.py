"""The manager: waits for the API server, gains leadership, fills the shared caches, runs the controllers, stops in
order.

Knows nothing of sockets, flags or files: clients come from a ``ClientFactory`` (``app`` makes one for a kubeconfig,
``plane`` one for the embedded server), so the same code runs in simulation. Start order and skipping rules:
kube-controller-manager v1.36 ``cmd/kube-controller-manager/app/controllermanager.go``.
"""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Protocol

from pilothouse.client import Client
from pilothouse.client.discovery import Discovery, RestMapper
from pilothouse.controllermanager.health import Health
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.selection import Selection
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.runtime import EventRecorder, Fence, InformerFactory, LeaderElector
from pilothouse.runtime.api_server import wait_for_api_server
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.descriptor import Descriptor, RunnableController
from pilothouse.runtime.metrics import Registry

MAPPER_RESET_SECONDS = 30.0
LAST_EVENTS_SECONDS = 1.0
HEALTH_TOLERANCE_SECONDS = 20.0
"""A leader that has not seen a renewal for lease duration plus this is unhealthy (v1.36)."""


class ClientFactory(Protocol):
    """How the manager and its controllers reach the API server."""

    def shared(self, suffix: str, *, qps: float, burst: int, fence: Callable[[], None] | None = None) -> Client:
        """A client with the manager's own identity and rate limit of its own; ``suffix`` ends its User-Agent."""
        ...

    def for_controller(self, name: str, *, qps: float, burst: int, fence: Callable[[], None] | None) -> Client:
        """A controller's client: its service account's identity, or the manager's own, as the factory was told."""
        ...


class Manager:
    """One controller manager.

    ``run`` ends by being cancelled, or raises ``runtime.LeadershipLost``: end the process.
    """

    def __init__(
        self,
        env: Env,
        options: Options,
        clients: ClientFactory,
        descriptors: Sequence[Descriptor],
        *,
        metrics: Registry | None = None,
        health: Health | None = None,
        readiness: Health | None = None,
        identity: str = "",
    ) -> None:
        self._env = env
        self._options = options
        self._clients = clients
        self._descriptors = descriptors
        self.metrics = metrics or Registry()
        self.health = health or Health()
        self.readiness = readiness or Health()
        self._identity = identity or f"{socket.gethostname()}_{env.uid()}"
        self._log = Log("controllermanager")
        self.leading = asyncio.Event()
        """Set while the controllers of this process are running with filled caches."""
        self.controllers: dict[str, RunnableController] = {}
        """Those that were built, by name."""
        self.readiness.add("controllers", self._why_not_ready)
        self._standby = False

    def _why_not_ready(self) -> str | None:
        if self.leading.is_set() or self._standby:
            return None
        return "controllers have not started yet"

    async def run(self) -> None:
        """Manage until cancelled."""
        await wait_for_api_server(self._client("shared-informers"), self._env)
        if self._options.leader_election.enabled:
            await self._elect()
        else:
            await self._lead(None)

    def _client(self, suffix: str, fence: Callable[[], None] | None = None) -> Client:
        return self._clients.shared(suffix, qps=self._options.qps, burst=self._options.burst, fence=fence)

    # Leadership

    async def _elect(self) -> None:
        settings = self._options.leader_election
        fence = Fence(self._env)
        client = self._client("leader-election")
        recorder = EventRecorder(self._client("kube-controller-manager"), self._env, "kube-controller-manager")
        elector = LeaderElector(
            client,
            self._env,
            identity=self._identity,
            namespace=settings.resource_namespace,
            name=settings.resource_name,
            lease_duration_seconds=settings.lease_duration,
            renew_deadline_seconds=settings.renew_deadline,
            retry_period_seconds=settings.retry_period,
            fence=fence,
            recorder=recorder,
            metrics=self.metrics,
        )
        self.health.add("leaderElection", lambda: elector.check(HEALTH_TOLERANCE_SECONDS))
        self._standby = True
        async with TaskGroup("leader election") as group:
            group.start(recorder.run(), name="leader election events")
            try:
                await elector.run(lambda: self._lead(fence.check))
            finally:
                # "stopped leading" is worth a moment; more than that it is not.
                await recorder.flush(LAST_EVENTS_SECONDS)
            group.cancel()

    # The controllers

    async def _lead(self, fence: Callable[[], None] | None) -> None:
        # The last parts of the User-Agents are upstream's: logs and metrics of API servers are read by them.
        self._standby = False
        discoverer = self._client("controller-discovery", fence)
        discovery = await discoverer.discover()
        mapper = RestMapper(discoverer)
        resync = self._options.min_resync_period * (1 + self._env.stream("resync").random())
        shared = self._client("shared-informers", fence)
        informers = InformerFactory(shared, self._env, resync_seconds=resync, metrics=self.metrics)
        metadata = InformerFactory(
            self._client("metadata-informers", fence), self._env, resync_seconds=resync, metrics=self.metrics
        )
        controllers = [
            self._build(descriptor, fence, informers, metadata, mapper)
            for descriptor in self._descriptors
            if self._wanted(descriptor, discovery)
        ]
        async with TaskGroup("informers") as outer:
            outer.start(self._reset_mapper(mapper), name="REST mapper")
            informers.start(outer)
            metadata.start(outer)
            await self._work(controllers, informers)
            outer.cancel()

    async def _work(self, controllers: Sequence[RunnableController], informers: InformerFactory) -> None:
        """Run the controllers until cancelled. They get ``--controller-shutdown-timeout`` to finish what they do."""
        timeout = self._options.shutdown_timeout
        timer: asyncio.TimerHandle | None = None
        try:
            async with TaskGroup("controllers") as group:
                for controller in controllers:
                    group.start(self._run(controller), name=controller.name)
                try:
                    await informers.wait_synced()
                    self.leading.set()
                    await asyncio.get_running_loop().create_future()
                finally:
                    self.leading.clear()
                    if timeout > 0:
                        timer = asyncio.get_running_loop().call_later(timeout, self._give_up, group)
        finally:
            if timer is not None:
                timer.cancel()

    def _give_up(self, group: TaskGroup) -> None:
        # A second cancellation ends also what the first one allowed to finish.
        if len(group):
            self._log.warning("Controllers did not stop in time, cancelling what they do", running=len(group))
            group.cancel()

    def _wanted(self, descriptor: Descriptor, discovery: Discovery) -> bool:
        if not Selection(self._options.controllers).enables(descriptor):
            self._log.info("Controller is disabled", v=1, controller=descriptor.name)
            return False
        off = [gate for gate in descriptor.gates if not self._options.gates.enabled(gate)]
        if off:
            self._log.info("Controller is disabled by a feature gate", controller=descriptor.name, gate=off[0])
            return False
        chosen = self._options.controller_options.get(descriptor.name) or descriptor.default_options()
        if descriptor.switch and not getattr(chosen, descriptor.switch):
            self._log.info("Skipping controller: it is switched off", controller=descriptor.name)
            return False
        for watch in descriptor.watches:
            if not discovery.serves(watch.kind):
                self._log.warning(
                    "Controller is left out: the API server does not serve what it watches",
                    controller=descriptor.name,
                    missing=f"{watch.kind.resource}.{watch.kind.api_version}",
                )
                return False
        return True

    def _build(
        self,
        descriptor: Descriptor,
        fence: Callable[[], None] | None,
        informers: InformerFactory,
        metadata: InformerFactory,
        mapper: RestMapper,
    ) -> RunnableController:
        qps, burst = self._options.qps * descriptor.qps_factor, self._options.burst * descriptor.burst_factor
        context = ControllerContext(
            env=self._env,
            client=self._clients.for_controller(descriptor.client_name, qps=qps, burst=burst, fence=fence),
            informers=informers,
            metadata_informers=metadata,
            metrics=self.metrics,
            options=self._options.controller_options.get(descriptor.name),
            rest_mapper=mapper,
            log=Log(descriptor.name),
        )
        controller = self.controllers[descriptor.name] = descriptor.build(context)
        self.health.add(descriptor.name, lambda: None)
        self._log.info("Started controller", controller=descriptor.name)
        return controller

    async def _run(self, controller: RunnableController) -> None:
        interval = self._options.start_interval
        if interval > 0:
            await asyncio.sleep(interval * (1 + self._env.stream("start interval").random()))
        running = self.metrics.gauge(
            "running_managed_controllers", "Indicates where instances of a controller are currently running",
            ("name", "manager"),
        ).labels_of(controller.name, "kube-controller-manager")  # fmt: skip
        running.set(1)
        try:
            await controller.run()
        finally:
            running.set(0)

    async def _reset_mapper(self, mapper: RestMapper) -> None:
        """The next lookup after each period sees what is served by then."""
        while True:
            await asyncio.sleep(MAPPER_RESET_SECONDS)
            mapper.reset()
