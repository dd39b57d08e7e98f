"""Webhooks and conversions of apps under test: the API server of the plane calls them in this process, without a port.

``AsyncCluster.running`` adds those of an ``App`` while it runs.
"""

from typing import TYPE_CHECKING

from pilothouse.apiserver import ApiServer
from pilothouse.apiserver.admission.dynamic.webhook_calls import CallError, Target
from pilothouse.apiserver.admission.dynamic.webhook_calls import send as send_over_network
from pilothouse.operator.client_config import ClientConfig

if TYPE_CHECKING:
    from pilothouse.operator.webhook_handler import WebhookHandler

DOMAIN = ".webhooks.test"


def client_config(app: str) -> ClientConfig:
    """Where the API server of a plane finds the webhooks of an app."""
    return ClientConfig(url=f"https://{app}{DOMAIN}")


class LocalWebhooks:
    """The handlers, by app. Of several replicas the one that was added last is called."""

    def __init__(self, server: ApiServer) -> None:
        self._handlers: dict[str, list[WebhookHandler]] = {}
        server.core.send_webhook = self._send

    def add(self, app: str, handler: "WebhookHandler") -> None:
        """Add a handler."""
        self._handlers.setdefault(app, []).append(handler)

    def remove(self, app: str, handler: "WebhookHandler") -> bool:
        """Remove a handler. Returns whether the app has no handler any more."""
        self._handlers[app].remove(handler)
        return not self._handlers[app]

    async def _send(self, target: Target, body: bytes) -> tuple[int, bytes]:
        if not target.host.endswith(DOMAIN):
            return await send_over_network(target, body)
        handlers = self._handlers.get(target.host.removesuffix(DOMAIN), [])
        if not handlers:
            raise CallError(f'Post "{target.url}": dial tcp {target.host}:443: connect: connection refused')
        return await handlers[-1].respond(target.path.partition("?")[0], body)
