"""Paths that are no resources, as callers on the same loop see them: discovery, health, OpenAPI, version.

Callers on sockets come through ``gateway``, which has more of them (metrics, the token issuer's documents).
"""

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import PlainNotFound
from pilothouse.apiserver.presentation.discovery import Discovery
from pilothouse.apiserver.presentation.health import Health
from pilothouse.apiserver.presentation.openapi import OpenApi
from pilothouse.apiserver.presentation.version import version_response
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.apiserver.routing import RequestInfo


class Documents:
    """Answers from the resource table. ``address`` is what discovery tells callers to connect to."""

    def __init__(self, table: ResourceTable, address: str) -> None:
        self._discovery = Discovery(table, address)
        self._health = Health()
        self._openapi = OpenApi(table)

    def answer(self, request: Request, asked: RequestInfo) -> Response:
        """The document at a path. Raises ``PlainNotFound`` for any other path."""
        path = asked.path
        response = (
            self._discovery.answer(request, path)
            or self._health.answer(path, asked.query)
            or self._openapi.answer(request, path, asked.query)
        )
        if response is not None:
            return response
        if path.rstrip("/") != "/version":
            raise PlainNotFound
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        return version_response()
