"""Where the API server finds webhooks: ``WebhookClientConfig`` of admission webhooks and conversions."""

import base64
from typing import Any

import msgspec

HTTPS_PORT = 443


class ClientConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A Service (``service_name`` in ``service_namespace``), or the ``url`` of a server without its path.

    ``ca_bundle`` is PEM; without it the authorities that the API server's machine trusts count.
    """

    url: str = ""
    service_name: str = ""
    service_namespace: str = ""
    port: int = HTTPS_PORT
    ca_bundle: bytes = b""

    def __post_init__(self) -> None:
        if bool(self.url) == bool(self.service_name and self.service_namespace):
            raise ValueError("webhooks are called either at a url or through a service_name in a service_namespace")
        if self.url and not self.url.startswith("https://"):
            raise ValueError(f"the url of webhooks begins with https://, got {self.url!r}")

    def of(self, path: str) -> dict[str, Any]:
        """The ``clientConfig`` of one webhook."""
        config: dict[str, Any] = {}
        if self.url:
            config["url"] = self.url.rstrip("/") + path
        else:
            service = {"namespace": self.service_namespace, "name": self.service_name, "path": path, "port": self.port}
            config["service"] = service
        if self.ca_bundle:
            config["caBundle"] = base64.b64encode(self.ca_bundle).decode()
        return config
