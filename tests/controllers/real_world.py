"""Controllers in the process of the test, on kube-apiserver, as a user with some of upstream's roles.

The test's own requests are sent as administrator. They block, so they run in a thread beside the controllers' loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from tests.programs import until
from tests.real_cluster import RealCluster, RequestFailed

from pilothouse.api import wire
from pilothouse.client import Client
from pilothouse.client.connect import connect
from pilothouse.env import Env, TaskGroup
from pilothouse.runtime import ControllerContext, Descriptor, InformerFactory


class RealWorld:
    """kube-apiserver, accessed as administrator."""

    def __init__(self, env: Env, cluster: RealCluster) -> None:
        self.env = env
        self.cluster = cluster

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request; a PATCH is a JSON merge patch."""
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        return await asyncio.to_thread(self.cluster.request, method, path, body, content_type=content_type)

    async def until(self, condition: Callable[[], object], description: str) -> None:
        """Wait until the condition is true. It is evaluated in a thread and may send requests."""
        await asyncio.to_thread(until, condition, description)

    def items(self, path: str) -> list[dict[str, Any]]:
        """The objects of a list; blocks."""
        obj: list[dict[str, Any]] = self.cluster.request("GET", path)["items"]
        return obj

    def names(self, path: str, *, without: str = "") -> list[str]:
        """The names of the objects of a list, except ``without``; blocks."""
        return [item["metadata"]["name"] for item in self.items(path) if item["metadata"]["name"] != without]

    def succeeds(self, method: str, path: str, body: Any = None) -> bool:
        """Whether the request succeeds; blocks."""
        try:
            self.cluster.request(method, path, body)
        except RequestFailed:
            return False
        return True

    @contextlib.asynccontextmanager
    async def controllers(
        self,
        *controllers: tuple[Descriptor, object],
        user: str,
        roles: Sequence[str],
        wrap: Callable[[wire.Transport], wire.Transport] | None = None,
    ) -> AsyncIterator[TaskGroup]:
        """Run these controllers with their options within the block, on the transport returned by ``wrap``.

        Yields their task group, which is cancelled at the end of the block."""
        kubeconfig = self.cluster.user(user, cluster_roles=roles)
        transport = connect(self.env, kubeconfig=str(kubeconfig))
        client = Client(transport if wrap is None else wrap(transport), self.env)
        informers, metadata_informers = InformerFactory(client, self.env), InformerFactory(client, self.env)
        try:
            async with TaskGroup("real") as group:
                for descriptor, options in controllers:
                    context = ControllerContext(
                        env=self.env,
                        client=client,
                        informers=informers,
                        metadata_informers=metadata_informers,
                        options=options,
                    )
                    group.start(descriptor.build(context).run(), name=descriptor.name)
                informers.start(group)
                metadata_informers.start(group)
                await informers.wait_synced()
                yield group
                group.cancel()
        finally:
            await client.close()
