"""Webhook calls of our API server to an operator, without a network."""

from typing import Any

from pilothouse.apiserver.admission.built_in import UnconfiguredPlugin
from pilothouse.apiserver.admission.dynamic.webhook_calls import CallError, Target
from pilothouse.apiserver.admission.dynamic.webhooks import Webhooks
from pilothouse.operator.webhook_handler import WebhookHandler
from pilothouse.testing import AsyncCluster


class DirectCalls:
    """Calls of admission webhooks go to ``handler``; without one they fail."""

    def __init__(self, cluster: AsyncCluster) -> None:
        self.handler: WebhookHandler | None = None
        self.targets: list[Target] = []
        admission: Any = cluster.plane.server.core.admission
        for plugin in list(admission.plugins):
            if isinstance(plugin, UnconfiguredPlugin):
                plugin.load()
        for plugin in admission.plugins:
            if isinstance(plugin, Webhooks):
                plugin.send = self.send

    async def send(self, target: Target, body: bytes) -> tuple[int, bytes]:
        self.targets.append(target)
        if self.handler is None:
            raise CallError(f"Post {target.url}: connect: connection refused")
        return await self.handler.respond(target.path.partition("?")[0], body)
