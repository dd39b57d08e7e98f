"""Non-resource paths: discovery, OpenAPI, health, version, metrics, the documents of the token issuer.

``ApiServer`` passes authorized requests for non-resource paths to ``Documents.handle``. A server with a
``HandlerChain`` issues tokens and also serves the issuer's documents.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pilothouse.api.wire import Request, Response
from pilothouse.apiserver import errors
from pilothouse.apiserver.endpoints.discovery import Discovery
from pilothouse.apiserver.endpoints.healthz import Health
from pilothouse.apiserver.endpoints.version import version_response
from pilothouse.apiserver.errors import PlainNotFound
from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.apiserver.request_info import Query, RequestInfo
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.apiserver.serializers.json import JSON_HEADERS
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.apiserver.openapi.documents import OpenApi

with lazy_imports():
    from pilothouse.apiserver.openapi import documents as openapi


_PATHS = (
    "/",
    "/api",
    "/apis",
    "/apis/",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/readyz",
    "/version",
)
_OPENAPI = "/openapi/"
_ISSUER = "/.well-known/openid-configuration"
_KEYS = "/openid/v1/jwks"
_CACHE_FOR_AN_HOUR = "public, max-age=3600"
_WITH_HEAD = ("", "/metrics", "/metrics/slis")


class TokenIssuer(Protocol):
    """The documents of a token issuer (``service_account_tokens``, which is expensive to import)."""

    def discovery(self, address: str) -> dict[str, Any]:
        """The OpenID provider configuration."""
        ...

    def key_set(self) -> dict[str, Any]:
        """The public keys as a JSON web key set."""
        ...


class Documents:
    """The non-resource paths of one server. ``address`` is its address for clients (``host:port``)."""

    def __init__(
        self,
        table: ResourceTable,
        *,
        address: str,
        health: Health | None = None,
        metrics: ServerMetrics | None = None,
        tokens: TokenIssuer | None = None,
        history: Mapping[str, Callable[[Query], Response]] | None = None,
    ) -> None:
        self._table = table
        self._address = address
        self._health = health or Health()
        self._metrics = metrics
        self._tokens = tokens
        self._history = history or {}
        self._discovery = Discovery(table, address)
        self._openapi: OpenApi | None = None

    def handle(self, request: Request, info: RequestInfo) -> Response:
        """The document at a path. Raises ``PlainNotFound`` for an unknown path, ``StatusError`` 405 and 406."""
        path = info.path
        response = (
            self._discovery.handle(request, path)
            or self._health.handle(path, info.query)
            or (self._open_api_documents().handle(request, path, info.query) if path.startswith(_OPENAPI) else None)
        )
        if response is not None:
            return response
        if path in self._history and request.method == "GET":
            return self._history[path](info.query)
        new_response = self._find(path.rstrip("/"), info.query)
        # HEAD is only supported by handlers of Go's mux, not by those of go-restful.
        if request.method != "GET" and (request.method != "HEAD" or path.rstrip("/") not in _WITH_HEAD):
            raise errors.method_not_allowed()
        return new_response()

    def _open_api_documents(self) -> "OpenApi":
        if self._openapi is None:
            self._openapi = openapi.OpenApi(self._table)
        return self._openapi

    def _find(self, path: str, query: Query) -> Callable[[], Response]:
        match path:
            case "/version":
                return version_response
            case "/metrics" | "/metrics/slis" if self._metrics is not None:
                return partial(self._metrics.response, query.first("component"))
            case "":
                return self._index
        if self._tokens is not None and path in (_ISSUER, _KEYS):
            return self._issuer if path == _ISSUER else self._keys
        raise PlainNotFound

    def _issuer(self) -> Response:
        assert self._tokens is not None, "only a server that issues tokens has this path"
        headers = {"content-type": "application/json", "cache-control": _CACHE_FOR_AN_HOUR}
        return Response(200, headers, msgspec.json.encode(self._tokens.discovery(self._address)))

    def _keys(self) -> Response:
        assert self._tokens is not None, "only a server that issues tokens has this path"
        headers = {"content-type": "application/jwk-set+json", "cache-control": _CACHE_FOR_AN_HOUR}
        return Response(200, headers, msgspec.json.encode(self._tokens.key_set()))

    def _index(self) -> Response:
        paths = {*_PATHS, *((_ISSUER, _KEYS) if self._tokens is not None else ())}
        for info in self._table:
            if info.group:
                paths |= {f"/apis/{info.group}", f"/apis/{info.group}/{info.version}"}
            else:
                paths.add(f"/api/{info.version}")
        body = msgspec.json.encode({"paths": sorted(paths)})
        return Response(200, JSON_HEADERS, msgspec.json.format(body, indent=2))
