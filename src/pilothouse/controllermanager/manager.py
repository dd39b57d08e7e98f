"""The manager: waits for the API server, acquires the lease, syncs the shared informers, runs the controllers, and
stops them in order.

It uses no sockets, flags or files: a ``ClientFactory`` creates its clients (``app`` has one for a kubeconfig, ``plane``
one for the embedded server), so that it also runs in simulations. Source of the start order and of the conditions for
starting a controller: kube-controller-manager v1.36 ``cmd/kube-controller-manager/app/controllermanager.go``.
"""

import asyncio
import functools
import socket  # noqa: TID251  # the name of the host
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import pilothouse
from pilothouse.cel.limits import GetEvaluator, no_evaluator
from pilothouse.client import Client
from pilothouse.client.discovery import RestMapper
from pilothouse.controllermanager.health import Health
from pilothouse.controllermanager.leader_migration import LeaderMigration
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.selection import Selection
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.periodic import repeat
from pilothouse.machinery.api_resources import Discovery
from pilothouse.machinery.metrics import Registry
from pilothouse.runtime import EventRecorder, InformerFactory
from pilothouse.runtime.api_server import wait_for_api_server
from pilothouse.runtime.context import ControllerContext
from pilothouse.runtime.descriptor import Descriptor, RunnableController
from pilothouse.runtime.errors import CannotRun
from pilothouse.runtime.on_demand import OnDemand, keep_raw_for, supports_on_demand

if TYPE_CHECKING:
    from pilothouse.runtime import LeaderElector, LeadershipLost

with lazy_imports():
    from pilothouse.runtime import election

MAPPER_RESET_SECONDS = 30.0
LAST_EVENTS_SECONDS = 1.0
HEALTH_TOLERANCE_SECONDS = 20.0
"""A leader whose last observed renewal is older than the lease duration plus this is unhealthy (v1.36)."""


BUILT_FIRST = "serviceaccount-token-controller"
"""Built before the other controllers, whatever ``--controllers`` is, with the manager's own identity and under the main
lease, because the other controllers may depend on its tokens (``requiresSpecialHandling``, v1.36)."""


class ClientFactory(Protocol):
    """Creates the clients of the manager and its controllers."""

    def shared(self, suffix: str, *, qps: float, burst: int, fence: Callable[[], None] | None = None) -> Client:
        """A client with the manager's own identity and its own rate limit; ``suffix`` is the end of its User-Agent."""
        ...

    async def for_controller(self, name: str, *, qps: float, burst: int, fence: Callable[[], None] | None) -> Client:
        """A controller's client: its service account's identity, or the manager's own, depending on the options. A
        missing account is created."""
        ...


class Manager:
    """A controller manager. ``run`` returns when cancelled, or raises ``runtime.LeadershipLost``: then the process must
    end."""

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
        server: str = "",
        on_lost: "Callable[[LeadershipLost], object] | None" = None,
        expressions: GetEvaluator = no_evaluator,
    ) -> None:
        """``expressions`` compiles large CEL expressions for controllers. ``on_lost`` is called as soon as a lease is
        lost, before the controllers are stopped. ``server`` is the address of the API server, for errors."""
        self._env = env
        self._options = options
        self._clients = clients
        self._descriptors = descriptors
        self.metrics = metrics or Registry()
        self.health = health or Health()
        self.readiness = readiness or Health()
        self._identity = identity or f"{socket.gethostname()}_{env.uid()}"
        self._server = server
        self._on_lost = on_lost
        self._expressions = expressions
        self._log = Log("controllermanager")
        self.leading = asyncio.Event()
        """Set while the controllers of this process are running with synced caches."""
        self.controllers: dict[str, RunnableController] = {}
        """The controllers that were built, by name."""
        self.readiness.add("controllers", self._not_ready_reason)
        self._standby = False

    def _not_ready_reason(self) -> str | None:
        if self.leading.is_set() or self._standby:
            return None
        return "controllers have not started yet"

    async def run(self) -> None:
        """Run the manager until cancelled."""
        await wait_for_api_server(self._client("shared-informers"), self._env, self._server)
        # Not earlier: an invalid flag is reported without any other output.
        default_version = f"{pilothouse.KUBERNETES_VERSION}+pilothouse.{pilothouse.__version__}"
        self._log.info("Starting", version=self._options.version or default_version)
        if self._options.leader_election.enabled:
            await self._elect()
        else:
            await self._start_controllers(None, self._descriptors)

    def _client(self, suffix: str, fence: Callable[[], None] | None = None) -> Client:
        return self._clients.shared(suffix, qps=self._options.qps, burst=self._options.burst, fence=fence)

    # Leader election

    async def _elect(self) -> None:
        settings, migration = self._options.leader_election, self._options.leader_migration
        recorder = EventRecorder(self._client("kube-controller-manager"), self._env, "kube-controller-manager")
        main = self._elector(settings.resource_name, recorder)
        electors = [main]
        self.health.add("leaderElection", lambda: _first_leader_election_error(electors))
        self._standby = True
        async with TaskGroup("leader election") as group:
            group.start(recorder.run(), name="leader election events")
            try:
                if migration is None:
                    await main.run(lambda: self._start_controllers(main.fence.check, self._descriptors))
                else:
                    electors.append(self._elector(migration.leader_name, recorder))
                    await self._elect_with_migration(main, electors[1], migration)
            finally:
                # Wait briefly for the event "stopped leading".
                await recorder.flush(LAST_EVENTS_SECONDS)
            group.cancel()

    def _elector(self, name: str, recorder: EventRecorder) -> "LeaderElector":
        settings = self._options.leader_election
        return election.LeaderElector(
            self._client("leader-election"),
            self._env,
            identity=self._identity,
            namespace=settings.resource_namespace,
            name=name,
            lease_duration_seconds=settings.lease_duration,
            renew_deadline_seconds=settings.renew_deadline,
            retry_period_seconds=settings.retry_period,
            release_on_stop=settings.release_on_stop,
            fence=election.Fence(self._env),
            recorder=recorder,
            metrics=self.metrics,
            on_lost=self._on_lost,
        )

    async def _elect_with_migration(
        self, main: "LeaderElector", second: "LeaderElector", migration: LeaderMigration
    ) -> None:
        """Controllers that migrate between managers run under a lease that these share, the others under the main one.

        The main lease is acquired first, and held all the time: otherwise two processes could hold one lease each, and
        neither would run all controllers (KEP-2436; ``controllermanager.go`` and ``leadermigration``, v1.36).
        """
        staying = [d for d in self._descriptors if d.name == BUILT_FIRST or migration.component_of(d.name) is None]
        moving = [d for d in self._descriptors if d.name != BUILT_FIRST and migration.runs_here(d.name)]
        for name in [d.name for d in self._descriptors if d not in staying and d not in moving]:
            self._log.info("Controller runs in another manager", controller=name)
        ready = asyncio.Event()
        async with TaskGroup("leader migration") as group:
            self._log.info("leader migration: starting main controllers.")
            group.start(main.run(lambda: self._start_controllers(main.fence.check, staying, ready)), name="main lease")
            await ready.wait()
            await second.run(lambda: self._start_migrated_controllers(second.fence.check, moving))

    async def _start_migrated_controllers(self, fence: Callable[[], None], moving: Sequence[Descriptor]) -> None:
        self._log.info("leader migration: starting migrated controllers.")
        await self._start_controllers(fence, moving)

    # Controllers

    async def _start_controllers(
        self, fence: Callable[[], None] | None, descriptors: Sequence[Descriptor], ready: asyncio.Event | None = None
    ) -> None:
        """Run these controllers until cancelled. ``ready`` is set once they were built."""
        # The suffixes of the User-Agents are upstream's, because logs and metrics of API servers contain them.
        self._standby = False
        # Many requests at once, but rarely (client_builder.go ``DiscoveryClient``, v1.36).
        discoverer = self._clients.shared("controller-discovery", qps=20.0, burst=200, fence=fence)
        discovery = await discoverer.discover()
        mapper = RestMapper(discoverer)
        resync = self._options.min_resync_period * (1 + self._env.stream("resync").random())
        shared = self._client("shared-informers", fence)
        streams = self._options.gates.enabled("WatchListClient")
        informers = InformerFactory(
            shared, self._env, resync_seconds=resync, metrics=self.metrics, stream_first=streams
        )
        metadata = InformerFactory(
            self._client("metadata-informers", fence),
            self._env,
            resync_seconds=resync,
            metrics=self.metrics,
            stream_first=streams,
        )
        desired = [
            descriptor
            for descriptor in sorted(descriptors, key=lambda descriptor: descriptor.name != BUILT_FIRST)
            if self._is_enabled(descriptor, discovery)
        ]
        if self._options.on_demand:
            keep_raw_for((watch for descriptor in desired for watch in descriptor.watches), informers)
        controllers: list[RunnableController] = []
        for descriptor in desired:
            build = functools.partial(self._build, descriptor, fence, informers, metadata, mapper)
            if self._options.on_demand and supports_on_demand(descriptor.watches):
                controllers.append(OnDemand(descriptor.name, descriptor.watches, informers, build))
            else:
                controllers.append(await build())
        if ready is not None:
            ready.set()
        async with TaskGroup("informers") as outer:
            outer.start(repeat(self._env, MAPPER_RESET_SECONDS, mapper.reset), name="REST mapper")
            informers.start(outer)
            metadata.start(outer)
            await self._run_controllers(controllers, informers)
            outer.cancel()

    async def _run_controllers(self, controllers: Sequence[RunnableController], informers: InformerFactory) -> None:
        """Run the controllers until cancelled. Then they have ``--controller-shutdown-timeout`` to finish their
        syncs."""
        timeout = self._options.shutdown_timeout
        timer: asyncio.TimerHandle | None = None
        try:
            async with TaskGroup("controllers") as group:
                for controller in controllers:
                    group.start(self._run_controller(controller), name=controller.name)
                try:
                    await self._wait_for_cache_sync(controllers, informers)
                    self.leading.set()
                    await asyncio.get_running_loop().create_future()
                finally:
                    self.leading.clear()
                    if timeout > 0:
                        timer = asyncio.get_running_loop().call_later(timeout, self._cancel_after_timeout, group)
        finally:
            if timer is not None:
                timer.cancel()

    async def _wait_for_cache_sync(self, controllers: Sequence[RunnableController], informers: InformerFactory) -> None:
        """Wait until all caches have synced, including those of controllers that are built on demand."""
        await informers.wait_synced()
        for controller in controllers:
            if isinstance(controller, OnDemand):
                await controller.wait_built()
        await informers.wait_synced()

    def _cancel_after_timeout(self, group: TaskGroup) -> None:
        # The second cancellation also cancels operations that the first one allowed to finish.
        if len(group):
            self._log.warning("Controllers did not stop in time, cancelling their operations", running=len(group))
            group.cancel()

    def _is_enabled(self, descriptor: Descriptor, discovery: Discovery) -> bool:
        if descriptor.name != BUILT_FIRST and not Selection(self._options.controllers).enables(descriptor):
            self._log.info("Controller is disabled", v=1, controller=descriptor.name)
            return False
        off = [gate for gate in descriptor.gates if not self._options.gates.enabled(gate)]
        if off:
            self._log.info("Controller is disabled by a feature gate", controller=descriptor.name, gate=off[0])
            return False
        chosen = self._options.controller_options.get(descriptor.name) or descriptor.default_options()
        if descriptor.switch and not getattr(chosen, descriptor.switch):
            self._log.info("Skipping controller: it is disabled", controller=descriptor.name)
            return False
        for watch in descriptor.watches:
            if not watch.option and not discovery.serves(watch.kind):
                self._log.warning(
                    "Skipping controller: the API server does not serve a resource that it watches",
                    controller=descriptor.name,
                    missing=f"{watch.kind.resource}.{watch.kind.api_version}",
                )
                return False
        return True

    async def _build(
        self,
        descriptor: Descriptor,
        fence: Callable[[], None] | None,
        informers: InformerFactory,
        metadata: InformerFactory,
        mapper: RestMapper,
    ) -> RunnableController:
        qps, burst = self._options.qps * descriptor.qps_factor, self._options.burst * descriptor.burst_factor
        if descriptor.name == BUILT_FIRST:
            # The token controller cannot wait for a token of its own.
            client = self._clients.shared(descriptor.client_name, qps=qps, burst=burst, fence=fence)
        else:
            client = await self._clients.for_controller(descriptor.client_name, qps=qps, burst=burst, fence=fence)
        context = ControllerContext(
            env=self._env,
            client=client,
            informers=informers,
            metadata_informers=metadata,
            metrics=self.metrics,
            options=self._options.controller_options.get(descriptor.name),
            rest_mapper=mapper,
            expressions=self._expressions,
            log=Log(descriptor.name),
        )
        controller = self.controllers[descriptor.name] = descriptor.build(context)
        self.health.add(descriptor.name, lambda: None)
        self._log.info("Started controller", controller=descriptor.name)
        return controller

    async def _run_controller(self, controller: RunnableController) -> None:
        interval = self._options.start_interval
        if interval > 0:
            await asyncio.sleep(interval * (1 + self._env.stream("start interval").random()))
        running = self.metrics.gauge(
            "running_managed_controllers", "Indicates where instances of a controller are currently running",
            ("name", "manager"),
        ).labels(controller.name, "kube-controller-manager")  # fmt: skip
        running.set(1)
        try:
            await controller.run()
            self._log.info("Controller terminated", controller=controller.name)
        except CannotRun:
            raise
        except Exception as error:
            # Exceptions of reconciles and handlers are handled; any other is fatal. Upstream's process crashes, and
            # another one takes over; so does this one, because not all controllers are running any more.
            self._log.exception("Controller failed, the process ends", error, controller=controller.name)
            raise
        finally:
            running.set(0)


def _first_leader_election_error(electors: "Sequence[LeaderElector]") -> str | None:
    errors = (elector.check(HEALTH_TOLERANCE_SECONDS) for elector in electors)
    return next((error for error in errors if error is not None), None)
