"""Flags of ``pilothouse run`` for serving the webhooks of an operator."""

import asyncio
import ipaddress
from typing import TYPE_CHECKING

from pilothouse.cli.program import UserError
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import INT32, STRING, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.client import Client
    from pilothouse.operator import App, WebhookSettings

with lazy_imports():
    from pilothouse import operator
    from pilothouse.client import in_cluster, remote

_LOOPBACK = "127.0.0.1"


def webhook_flags(flags: FlagSet) -> None:
    """Add the flags; those of controller-runtime's webhook server have kubebuilder's names."""
    flags.add(
        "webhooks",
        Flag("webhook-bind-address", STRING, "", "Address to serve webhooks on; empty: all, or that of --webhook-host"),
        Flag("webhook-port", INT32, 9443, "Port to serve webhooks on; 0: don't serve them"),
        Flag(
            "webhook-namespace",
            STRING,
            "",
            "Namespace of the webhooks' Service and certificates; empty: the pod's own, or default outside of a pod",
        ),
        Flag("webhook-cert-dir", STRING, "", "Directory with tls.crt and tls.key; empty: certificates are issued"),
        Flag(
            "webhook-host",
            STRING,
            "",
            "Host name or address at which the API server reaches this machine, outside of a cluster; empty: the "
            "local address from which the API server is reached",
        ),
    )


async def webhook_settings(app: "App", parsed: Parsed, client: "Client") -> "WebhookSettings | None":
    """The settings of the webhook server; None if the app has no webhooks or they are disabled.

    Outside of a cluster the API server must call this machine; ``--install`` configures its address, and without it
    ``UserError`` is raised.
    """
    port, install = parsed["webhook-port"], parsed["install"]
    if not app.has_webhooks or not port:
        return None
    if not 0 < port < 65536:
        raise UserError(f"--webhook-port must be between 0 and 65535, got {port}", code=2)
    host, url_host = parsed["webhook-bind-address"], ""
    if not in_cluster.is_in_cluster():
        if not install:
            raise UserError(
                f"app {app.name} has webhooks: outside of a cluster give --install, which has the API server call "
                "them at this machine, or --webhook-port=0 to run without them",
                code=2,
            )
        url_host = parsed["webhook-host"] or await _own_address(client)
        host = host or (url_host if _is_address(url_host) else "")
    return operator.WebhookSettings(
        host=host,
        port=port,
        namespace=parsed["webhook-namespace"] or in_cluster.namespace() or "default",
        url_host=url_host,
        certificate_directory=parsed["webhook-cert-dir"],
        install=install,
    )


async def _own_address(client: "Client") -> str:
    """The address of this machine that the API server can reach."""
    transport = client.transport
    if not isinstance(transport, remote.RemoteTransport):
        return _LOOPBACK
    server_address = (transport.endpoint.host, transport.endpoint.port)
    # Connecting a datagram socket sends nothing, but selects a route.
    connected, _protocol = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=server_address
    )
    try:
        address: str = connected.get_extra_info("sockname")[0]
    finally:
        connected.close()
    return address


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
