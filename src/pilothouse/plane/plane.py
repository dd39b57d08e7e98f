"""``Plane``: a whole control plane on the running event loop."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pilothouse.apiserver import ApiServer, ServerOptions
from pilothouse.client import Client
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, TaskGroup
from pilothouse.plane.clients import ADMIN, LocalClients, Wrap, as_it_is
from pilothouse.plane.options import PlaneOptions
from pilothouse.plane.programs import Programs
from pilothouse.runtime.descriptor import Descriptor
from pilothouse.storage import Store

if TYPE_CHECKING:
    from pilothouse.apiserver.metrics.requests import ClientMetrics
    from pilothouse.client.decision_log import DecisionLog
    from pilothouse.nodes.kubelet_api import KubeletApi


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
        self.server = server or ApiServer(env, store, options=_server_options(self.options))
        self._outside = LocalClients(env, self.server.transport)

        def new_clients(wider: Mapping[type[Any], type[Any]], metrics: "Mapping[str, ClientMetrics]") -> LocalClients:
            return LocalClients(env, self.server.transport, wrap, wider, decisions, metrics)

        self._programs = Programs(
            env,
            self.options,
            new_clients,
            descriptors=descriptors,
            expressions=lambda: self.server.core.long_work.sandbox,
            counts_requests=self.server.core.metrics is not None,
        )
        self.clients = self._programs.clients
        self.cloud = self._programs.cloud
        self.manager = self._programs.manager
        self.scheduler = self._programs.scheduler
        self.nodes = self._programs.nodes
        self.node_profiles = self._programs.node_profiles
        for component, registry in self._programs.metrics.items():
            self.server.component_metrics[component] = [registry.exposition, self._process_metrics]
        if self.nodes is not None:
            serve_nodes(self.server, self.nodes.kubelet_api, self.options)

    @property
    def node_names(self) -> list[str]:
        """The names of the simulated nodes."""
        return list(self.node_profiles)

    def client(self, user: str = ADMIN[0], groups: tuple[str, ...] = ADMIN[1], *, agent: str = "") -> Client:
        """A client from outside the plane, by default an administrator; never wrapped."""
        return self._outside.client("client", user, groups, agent=agent)

    def _process_metrics(self) -> str:
        return "".join(source() for source in self.server.process_metrics)

    async def run(self) -> None:
        """Run all programs until cancelled, or until one of them fails."""
        async with TaskGroup("plane: API server") as outer:
            outer.start(self.server.run(), name="API server")
            await self._programs.run()

    async def wait_ready(self) -> None:
        """Return once the first objects are there, nodes have registered and the controllers run with filled caches."""
        await self.server.commit_bootstrap_objects()
        await self._programs.wait_ready()


def _server_options(options: PlaneOptions) -> ServerOptions:
    return ServerOptions(gates=options.gates, service_range=options.service_range)


def serve_nodes(server: ApiServer, kubelets: "KubeletApi", options: PlaneOptions) -> None:
    """Serve what an API server requests from its kubelets."""
    server.core.pod_logs = kubelets.log
    if options.resource_metrics:
        server.serve_resource_metrics(kubelets)
