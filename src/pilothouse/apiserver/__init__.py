"""The embedded API server: one generic REST core over a table of resources, driven by schema and small strategies.

``server.ApiServer`` is the transport-neutral core: it takes ``api.wire`` requests and answers them from ``storage``.
``handler_chain`` authenticates and authorizes, ``serializers`` encode what the caller asked for, and ``asgi`` serves
HTTP.
"""

from pilothouse.apiserver.options import ServerOptions
from pilothouse.apiserver.server import ApiServer

__all__ = ["ApiServer", "ServerOptions"]
