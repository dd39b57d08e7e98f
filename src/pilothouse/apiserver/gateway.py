"""What a request passes before and beside the core: login, rights, and the paths that are no resources.

``asgi`` hands it requests from sockets. The order is upstream's: who is it, on whose behalf, may they, and only then
what is it about (apiserver ``pkg/server/config.go``, ``DefaultBuildHandlerChain``, v0.36).
"""

from collections.abc import Awaitable, Callable

import msgspec

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver import errors
from pilothouse.apiserver.authentication import Authenticator, impersonated, unauthorized
from pilothouse.apiserver.authorization import AlwaysAllow, Attributes, Authorizer, forbidden
from pilothouse.apiserver.errors import PlainNotFound, StatusError
from pilothouse.apiserver.identity import ANONYMOUS, Identity
from pilothouse.apiserver.presentation.discovery import Discovery
from pilothouse.apiserver.presentation.health import Health
from pilothouse.apiserver.presentation.openapi import OpenApi
from pilothouse.apiserver.presentation.request_metrics import RequestMetrics
from pilothouse.apiserver.presentation.version import version_response
from pilothouse.apiserver.rendering import JSON_HEADERS
from pilothouse.apiserver.resources import ResourceTable
from pilothouse.apiserver.results import Presenter
from pilothouse.apiserver.routing import RequestInfo, read_request
from pilothouse.apiserver.service_account_tokens import ServiceAccountTokens

Handle = Callable[[Request, Identity], Awaitable[Response | Stream]]
"""The core: answers a request for a resource on behalf of a user who has been found entitled to it."""

_PUBLIC = ("healthz", "livez", "readyz", "version")
_TEXT = {
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
    "cache-control": "no-cache, private",
}
_KEY_SET = {"content-type": "application/jwk-set+json", "cache-control": "public, max-age=3600"}


class Gateway:
    """The whole server as one function of a request.

    ``address`` is where callers reach it (``host:port``). ``tokens`` adds the issuer's public documents.
    """

    def __init__(
        self,
        handle: Handle,
        table: ResourceTable,
        presenter: Presenter,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        address: str,
        health: Health | None = None,
        tokens: ServiceAccountTokens | None = None,
    ) -> None:
        self.metrics = RequestMetrics()
        self._handle = handle
        self._table = table
        self._presenter = presenter
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._address = address
        self._health = health or Health()
        self._tokens = tokens
        self._discovery = Discovery(table, address)
        self._openapi = OpenApi(table)

    async def answer(self, request: Request, certificate: bytes | None = None) -> tuple[RequestInfo, Response | Stream]:
        """What the request is about, and the answer. Never raises for anything that a caller can do wrong."""
        info = read_request(request.method, request.target, self._table)
        try:
            identity = self._admit(request, info, certificate)
            if info.resource_request:
                return info, await self._handle(request, identity)
            return info, self._document(request, info)
        except StatusError as error:
            return info, self._presenter.fail(request, info, error)
        except PlainNotFound:
            return info, Response(404, _TEXT, b"404 page not found\n")

    def _admit(self, request: Request, info: RequestInfo, certificate: bytes | None) -> Identity:
        identity = self._authenticator.identity(request.headers, certificate)
        if any(name.startswith("impersonate-") for name in request.headers):
            caller = identity

            def check(group: str, resource: str, namespace: str, name: str) -> None:
                resource, _, subresource = resource.partition("/")
                self._authorize(caller, Attributes("impersonate", group, "", resource, subresource, namespace, name))

            identity = impersonated(request.headers, caller, check)
        if identity is ANONYMOUS and isinstance(self._authorizer, AlwaysAllow):
            # Everybody may do everything, but everybody is somebody: the outside sees whether the server is well.
            if info.resource_request or info.path.strip("/").partition("/")[0] not in _PUBLIC:
                raise unauthorized()
            return identity
        self._authorize(identity, Attributes.of(info))
        return identity

    def _authorize(self, identity: Identity, asked: Attributes) -> None:
        decision = self._authorizer.decide(identity, asked)
        if not decision.allowed:
            raise forbidden(identity, asked, decision.reason)

    def _document(self, request: Request, info: RequestInfo) -> Response:
        path = info.path
        response = (
            self._discovery.answer(request, path)
            or self._health.answer(path, info.query)
            or self._openapi.answer(request, path, info.query)
        )
        if response is not None:
            return response
        match path.rstrip("/"):
            case "/version":
                found: Callable[[], Response] = version_response
            case "/metrics" | "/metrics/slis":
                found = self.metrics.response
            case "":
                found = self._index
            case "/.well-known/openid-configuration" if self._tokens is not None:
                headers = {"content-type": "application/json", "cache-control": "public, max-age=3600"}
                return Response(200, headers, msgspec.json.encode(self._tokens.discovery(self._address)))
            case "/openid/v1/jwks" if self._tokens is not None:
                return Response(200, _KEY_SET, msgspec.json.encode(self._tokens.key_set()))
            case _:
                raise PlainNotFound
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        return found()

    def _index(self) -> Response:
        paths = {"/", "/api", "/apis", "/apis/", "/healthz", "/livez", "/metrics", "/metrics/slis", "/openapi/v2"}
        paths |= {"/openapi/v3", "/openapi/v3/", "/readyz", "/version"}
        if self._tokens is not None:
            paths |= {"/.well-known/openid-configuration", "/openid/v1/jwks"}
        for info in self._table:
            if info.group:
                paths |= {f"/apis/{info.group}", f"/apis/{info.group}/{info.version}"}
            else:
                paths.add(f"/api/{info.version}")
        return Response(200, JSON_HEADERS, msgspec.json.format(msgspec.json.encode({"paths": sorted(paths)}), indent=2))
