"""``SplitPlane``: a plane whose programs run in a process of their own."""

from collections.abc import Mapping
from functools import partial

from pilothouse.apiserver import ApiServer
from pilothouse.client import Client
from pilothouse.env import Env, TaskGroup
from pilothouse.nodes.kubelet_api import KubeletApi
from pilothouse.plane.clients import ADMIN, LocalClients
from pilothouse.plane.options import PlaneOptions
from pilothouse.plane.plane import serve_nodes
from pilothouse.plane.processes.messages import Start
from pilothouse.plane.processes.remote_programs import RemotePrograms
from pilothouse.plane.programs import components, node_profiles


class SplitPlane:
    """As ``Plane``, without access to the programs."""

    manager = None
    scheduler = None

    def __init__(self, env: Env, options: PlaneOptions, server: ApiServer, start: Start) -> None:
        """``options`` are those of the programs, which create them again from ``start``."""
        self.env = env
        self.options = options
        self.server = server
        self.node_names = list(node_profiles(options))
        self._outside = LocalClients(env, server.transport)
        self._programs = RemotePrograms(env, server, start)
        self._metrics: Mapping[str, str] = {}
        server.update_component_metrics = self._update_metrics
        for component in components(options):
            server.component_metrics[component] = [partial(self._metrics_page, component)]
        if self.node_names:
            kubelets = KubeletApi(env, frozenset(self.node_names), commands=options.profile.commands)
            serve_nodes(server, kubelets, options)

    def client(self, user: str = ADMIN[0], groups: tuple[str, ...] = ADMIN[1], *, agent: str = "") -> Client:
        """A client from outside the plane, by default an administrator."""
        return self._outside.client("client", user, groups, agent=agent)

    async def _update_metrics(self) -> None:
        self._metrics = await self._programs.metrics()

    def _metrics_page(self, component: str) -> str:
        return self._metrics.get(component, "")

    async def run(self) -> None:
        """Run all programs until cancelled, or until one of them fails."""
        async with TaskGroup("plane: API server") as outer:
            outer.start(self.server.run(), name="API server")
            await self._programs.run()

    async def wait_ready(self) -> None:
        """Return once the first objects are there and the programs are ready."""
        await self.server.commit_bootstrap_objects()
        await self._programs.wait_ready()
