"""The embedded API server: generic REST handlers over a table of resources, driven by schema and strategies.

``server.ApiServer`` is independent of the transport: it takes ``api.wire`` requests and serves them from ``storage``.
``handler_chain`` authenticates and authorizes, ``serializers`` encode responses, and ``asgi`` serves HTTP.
"""

from pilothouse.apiserver.options import ServerOptions
from pilothouse.apiserver.server import ApiServer

__all__ = ["ApiServer", "ServerOptions"]
