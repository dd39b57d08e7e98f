"""Serving: the HTTP server of the API server and of the manager's secure port.

``Server`` serves an ASGI application on a port of the running loop: HTTP/1.1 with httptools' parser, TLS 1.2 and later,
client certificates in the scope of requests (``peer_of``, ``presented_by``). ``certificates`` creates and stores the
CA, server and client certificates of a data directory, ``client_certificates`` verifies client certificates.
Independent of Kubernetes, and not used in simulations.

The heavy imports (httptools, ssl, cryptography) are delayed until they are needed: importing ``Server`` is cheap.
"""

from pilothouse.serving.peer import Peer, mark_authenticated, peer_of, presented_by
from pilothouse.serving.server import CannotListen, PortInUse, Server

__all__ = ["CannotListen", "Peer", "PortInUse", "Server", "mark_authenticated", "peer_of", "presented_by"]
