"""The embedded API server: one generic REST core over a table of resources, driven by schema and small strategies.

``server.ApiServer`` is the transport-neutral core: it takes ``api.wire`` requests and answers them from ``storage``.
``presentation`` turns what the core answers into what the caller asked for, and ``asgi`` puts it all on sockets.
"""

from pilothouse.apiserver.options import ServerOptions
from pilothouse.apiserver.server import ApiServer

__all__ = ["ApiServer", "ServerOptions"]
