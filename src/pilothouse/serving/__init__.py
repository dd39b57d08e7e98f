"""Serving: the HTTP edge of the API server and of the manager's secure port.

``Server`` puts an ASGI application on a port of the running loop: HTTP/1.1 with httptools' parser, TLS 1.2 and later,
client certificates handed to the application (``peer_of``, ``presented_by``). ``certificates`` makes and keeps the
authority, server and client certificates of a data directory, ``client_certificates`` verifies those of clients.
Nothing here knows Kubernetes, and nothing of it exists in simulation.

The heavy imports (httptools, ssl, cryptography) wait until they are needed: importing ``Server`` costs nothing.
"""

from pilothouse.serving.peer import Peer, mark_authenticated, peer_of, presented_by
from pilothouse.serving.server import CannotListen, PortInUse, Server

__all__ = ["CannotListen", "Peer", "PortInUse", "Server", "mark_authenticated", "peer_of", "presented_by"]
