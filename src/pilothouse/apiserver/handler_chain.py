"""``HandlerChain``: authentication, impersonation and authorization of external requests, and the APIs for these.

The order is upstream's (apiserver ``pkg/server/config.go``, ``DefaultBuildHandlerChain``, v0.36). The server itself
authorizes and calls the handlers, so that clients in the same process are authorized as well. ``asgi`` serves HTTP with
it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver.audit.context import audit_context, reset_audit_context, set_audit_context
from pilothouse.apiserver.authentication.authenticator import Authenticator, TokenAuthenticator, unauthorized
from pilothouse.apiserver.authentication.bootstrap_tokens import BootstrapTokenAuthenticator
from pilothouse.apiserver.authentication.identity import ANONYMOUS, Identity
from pilothouse.apiserver.authentication.service_account_tokens import ServiceAccountTokens
from pilothouse.apiserver.authentication.token_use import LegacyTokenTracker
from pilothouse.apiserver.authorization.authorizer import (
    RBAC_GROUP,
    ROLE_RESOURCES,
    AlwaysAllow,
    Attributes,
    Decision,
    RbacAuthorizer,
    RuleResolvingAuthorizer,
    Union,
    forbidden,
)
from pilothouse.apiserver.authorization.bootstrap_policy import node_rules
from pilothouse.apiserver.authorization.parameter_rights import ParameterRights
from pilothouse.apiserver.controllers.bootstrap_objects import recreate_deleted_endpoints, stage_endpoints, stage_roles
from pilothouse.apiserver.controllers.identity_lease import renew_identity_lease
from pilothouse.apiserver.endpoints.documents import Documents
from pilothouse.apiserver.endpoints.healthz import CallingCheck, Check, Health
from pilothouse.apiserver.endpoints.history import history_documents
from pilothouse.apiserver.endpoints.impersonation import PREFIX, impersonate, requested_user
from pilothouse.apiserver.endpoints.reviews import find_object, register
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.metrics import ServerMetrics
from pilothouse.apiserver.origins import impersonated_by
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.apiserver.serializers.json import failure
from pilothouse.apiserver.server import ApiServer, ReadBody
from pilothouse.env.environment import perf_counter_of
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.jws import PrivateKey, PublicKey
from pilothouse.machinery.metrics import Gauge
from pilothouse.storage import Change, Store

if TYPE_CHECKING:
    from pilothouse.apiserver.audit.filter import Audit

with lazy_imports():
    from pilothouse.apiserver.authorization import escalation_check, node_authorizer
    from pilothouse.apiserver.controllers import master_leases

_IS_IMPERSONATION = re.compile(PREFIX).match
_DECISION, _REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
MODES = ("AlwaysAllow", "Node", "RBAC")
Handle = Callable[[Request, Identity, ReadBody | None], Awaitable[Response | Stream]]
_PUBLIC = ("healthz", "livez", "readyz", "version")


class HandlerChain:
    """A server with content negotiation, authorization, reviews and token requests.

    ``authorization`` has the modes ``AlwaysAllow``, ``Node`` or ``RBAC``, separated by commas. With RBAC, ``start``
    creates the bootstrap roles; until then only system:masters has permissions. ``token_authenticators`` are accepted
    in addition to the tokens of service accounts. These are signed with ``signing_key``; without one a key is
    generated, and its tokens are valid until the process ends.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        address: str,
        token_authenticators: Iterable[TokenAuthenticator] = (),
        authorization: str = "AlwaysAllow",
        anonymous: bool = True,
        issuer: str = "https://kubernetes.default.svc.cluster.local",
        audiences: Iterable[str] = (),
        signing_key: PrivateKey | None = None,
        public_keys: Iterable[PublicKey] = (),
    ) -> None:
        modes = authorization.split(",")
        for mode in modes:
            if mode not in MODES:
                raise ValueError(f"authorization mode {mode!r} is not known; there are {', '.join(MODES)}")
        self._server = server
        core = server.core
        clock = _clock(server)
        self.metrics = core.metrics = ServerMetrics(
            clock,
            core.store,
            lambda: core.table,
            sources=server.metrics_sources,
            components=server.component_metrics,
            process=server.process_metrics,
        )
        core.admission.metrics = self.metrics.admission
        self._clock = clock
        use = LegacyTokenTracker(server)
        server.background["use of tokens"] = use.run
        self.tokens = ServiceAccountTokens(
            signing_key,
            issuer=issuer,
            audiences=tuple(audiences),
            public_keys=tuple(public_keys),
            now=lambda: server.env.now().timestamp(),
            new_id=server.env.uid,
            find=lambda resource, namespace, name: find_object(core, resource, namespace, name),
            used=use.note,
        )
        bootstrap = BootstrapTokenAuthenticator(
            lambda namespace, name: find_object(core, "secrets", namespace, name), server.env.now
        )
        self.authenticator = Authenticator((*token_authenticators, self.tokens, bootstrap), anonymous=anonymous)
        self.authorizer: RuleResolvingAuthorizer
        self._allows_all = "AlwaysAllow" in modes
        self._rbac: RbacAuthorizer | None = None
        if "RBAC" in modes:
            self._rbac = RbacAuthorizer(self._stored_roles)
            for resource in ROLE_RESOURCES:
                core.store.follow(storage_prefix(RBAC_GROUP, resource), self._on_roles_changed)
        if self._allows_all:
            self.authorizer = AlwaysAllow()
        else:
            self.authorizer = self._union(modes)
        if not self._allows_all or server.audit is not None:
            server.authorize = self._authorize_request
        if self._rbac is not None:
            core.admission.plugins.append(escalation_check.EscalationCheck(self._rbac, self.authorizer))
        core.admission.plugins.append(ParameterRights(core, self.authorizer))
        core.authorizer = self.authorizer
        self._started = self._rbac is None
        self._stopping = False
        health = self._health()
        server.documents = Documents(
            core.table,
            address=address,
            health=health,
            metrics=self.metrics,
            tokens=self.tokens,
            history=history_documents(core.store, server.env),
        )
        register(core, self.authenticator, self.authorizer, self.tokens)
        tracing = server.tracing
        self._handle: Handle = (
            self._handle_authenticated
            if tracing is None
            else tracing.served(self._handle_authenticated, core.requests.read)
        )

    def _health(self) -> Health:
        """The health checks of the server. Those that need a call are refreshed when their path is requested."""
        server, store = self._server, self._server.core.store
        checks: dict[str, Check] = {"storage": lambda: store.is_reachable, "storage_ready": lambda: store.is_reachable}
        override_checks: list[tuple[CallingCheck, CallingCheck]] = []
        if store.is_shared:
            (live, ready), *override_checks = [_backend_checks(backing_store) for backing_store in store.stores()]
            for pair in ((live, ready), *override_checks):
                server.calling_checks += pair
            checks = {"storage": live, "storage_ready": ready}
            store.observe(self.metrics.storage.observe_backend)
        if server.kms_health is not None:
            server.calling_checks.append(server.kms_health)
        return Health(
            started=lambda: self._started,
            serving=lambda: not self._stopping,
            kms=server.kms_health,
            overrides=override_checks,
            **checks,
        )

    async def start(self) -> None:
        """Create or complete the bootstrap roles. Without RBAC ``run`` of the server does this, because no request
        depends on them."""
        if self._rbac is None:
            self._server.background["bootstrap roles"] = self._bootstrap
        else:
            await self._bootstrap()
            self._started = True

    def publish(self, host: str, port: int) -> None:
        """Set the address of the server. ``run`` of the server publishes it in the endpoints of the service
        ``kubernetes`` and in a Lease; call this before."""
        core = self._server.core

        async def publish_endpoints() -> None:
            if core.store.is_shared:
                await master_leases.LeaseReconciler(core, host, port).run()
            await core.retry_until_stored(lambda: core.commit_staged(lambda: stage_endpoints(core, [host], port)))
            recreate_deleted_endpoints(core, host, port)

        self._server.background["endpoints of this server"] = publish_endpoints
        self._server.background["identity lease"] = lambda: renew_identity_lease(core, f"{host}:{port}")

    async def _bootstrap(self) -> None:
        core = self._server.core
        await core.retry_until_stored(lambda: core.commit_staged(lambda: stage_roles(core)))

    def stopping(self) -> None:
        """Report not ready from now on."""
        self._stopping = True

    async def handle(
        self,
        request: Request,
        certificate: bytes | None = None,
        read_body: ReadBody | None = None,
        authenticated: Callable[[], None] | None = None,
        remote: str = "",
    ) -> Response | Stream:
        """Authenticate a request by its headers and the client certificate, and handle it.

        ``authenticated`` is called once the user is known, and ``read_body``, which returns the body, once the request
        is authorized. ``remote`` is the client's address.
        """
        audit = self._server.audit
        if audit is not None:
            return await self._handle_audited(audit, request, certificate, read_body, authenticated, remote)
        try:
            identity = self._authenticate(request, certificate, authenticated)
        except StatusError as error:
            return self._server.presenter.fail(request, None, error)
        return await self._handle(request, identity, read_body)

    async def _handle_audited(
        self,
        audit: "Audit",
        request: Request,
        certificate: bytes | None,
        read_body: ReadBody | None,
        authenticated: Callable[[], None] | None,
        remote: str,
    ) -> Response | Stream:
        """The audit is between authentication and impersonation; authenticators may annotate the event, too."""
        context = audit.begin(request)
        token = set_audit_context(context)
        try:
            request_info = self._server.core.requests.read(request.method, request.target)
            try:
                identity = self._authenticate(request, certificate, authenticated)
            except StatusError as error:
                await audit.fail(context, request, request_info, error, remote)
                return self._server.presenter.fail(request, None, error)
            return await audit.handle(
                context, request, request_info, identity, lambda: self._handle(request, identity, read_body), remote
            )
        finally:
            reset_audit_context(token)

    async def reject(self, request: Request, error: StatusError, remote: str = "") -> Response:
        """Respond to a request that is rejected before authentication."""
        audit = self._server.audit
        if audit is not None:
            request_info = self._server.core.requests.read(request.method, request.target)
            await audit.fail(audit.begin(request), request, request_info, error, remote)
        return failure(error)

    @property
    def needs_audit_id(self) -> bool:
        """Whether requests need an audit ID, because they are audited or traced."""
        return self._server.audit is not None or self._server.tracing is not None

    def _authenticate(
        self, request: Request, certificate: bytes | None, authenticated: Callable[[], None] | None
    ) -> Identity:
        """The user of a request. Raises ``StatusError`` 401."""
        # Authentication precedes parsing: without credentials a long target takes no time.
        access, started_at = self.metrics.access, self._clock()
        try:
            identity = self.authenticator.identity(request.headers, certificate)
        except StatusError:
            has_credentials = certificate is not None or "authorization" in request.headers
            access.rejected(self._clock() - started_at, credentials=has_credentials)
            raise
        access.authenticated(identity.user, self._clock() - started_at)
        if authenticated is not None and identity is not ANONYMOUS:
            authenticated()
        if identity is ANONYMOUS and self._allows_all and (not _is_public(request.target) or _impersonates(request)):
            # Anonymous requests and AlwaysAllow exclude each other (pkg/kubeapiserver/options/authentication.go,
            # ``ApplyAuthorization``, v1.36); here anonymous clients can still read the health endpoints.
            raise unauthorized()
        return identity

    async def _handle_authenticated(
        self, request: Request, identity: Identity, read_body: ReadBody | None
    ) -> Response | Stream:
        """Handle an authenticated request."""
        impersonator = ""
        if _impersonates(request):
            info = self._server.core.requests.read(request.method, request.target)
            try:
                requested = requested_user(request.headers)
                if requested is not None:
                    impersonated, mode = impersonate(identity, requested, Attributes.of(info), self.authorizer)
                    impersonator = identity.user if identity.user != impersonated.user else ""
                    identity = impersonated
                    if (context := audit_context()) is not None:
                        context.log_impersonated_user(identity, f"impersonate:{mode}" if mode else "")
            except StatusError as error:
                if (context := audit_context()) is not None:
                    context.log_error(error)
                return self._server.presenter.fail(request, info, error)
        with impersonated_by(impersonator) if impersonator else nullcontext():
            if read_body is None:
                return await self._server.handle(request, identity)
            return await self._server.handle(request, identity, read_body)

    def observe(self, request: Request, status: int, seconds: float, size: int | None = None) -> None:
        """Record the metrics of a request, with the size of its response if it is known."""
        info = self._server.core.requests.read(request.method, request.target) if status != 401 else None
        self.metrics.requests.observe(request, info, status, seconds, size)

    def long_running(self, request: Request) -> Gauge:
        """The gauge of running requests of this kind."""
        return self.metrics.requests.long_running(request, self._read(request))

    def terminated(self, request: Request, code: int) -> None:
        """Record that a request was terminated by its timeout."""
        self.metrics.requests.terminated(request, self._read(request), code)

    def aborted(self, request: Request) -> None:
        """Record that a client disconnected before the response."""
        self.metrics.requests.aborted(request, self._read(request))

    def _read(self, request: Request) -> RequestInfo:
        return self._server.core.requests.read(request.method, request.target)

    def _union(self, modes: Sequence[str]) -> RuleResolvingAuthorizer:
        if self._rbac is not None and len(modes) == 1:
            return self._rbac
        authorizers: list[RuleResolvingAuthorizer] = []
        for mode in modes:
            if mode == "Node":
                authorizers.append(node_authorizer.NodeAuthorizer(self._server.core, node_rules))
            elif self._rbac is not None:
                authorizers.append(self._rbac)
        return Union(authorizers)

    def _authorize_request(self, identity: Identity, info: RequestInfo) -> None:
        attributes = Attributes.of(info)
        started_at = self._clock()
        decision = self.authorizer.authorize(identity, attributes)
        self.metrics.access.decided(allowed=decision.allowed, seconds=self._clock() - started_at)
        if self._server.audit is not None:
            _annotate(decision)
        if not decision.allowed:
            raise forbidden(identity, attributes, decision.reason)

    def _stored_roles(self, resource: str) -> list[bytes]:
        return [record.value for record in self._server.core.store.list(storage_prefix(RBAC_GROUP, resource)).records]

    def _on_roles_changed(self, _changes: list[Change]) -> None:
        if self._rbac is not None:
            self._rbac.changed()


def _clock(server: ApiServer) -> Callable[[], float]:
    try:
        return perf_counter_of(asyncio.get_running_loop())
    except RuntimeError:  # created on another event loop than the one it runs on
        return server.env.perf_counter


def _annotate(decision: Decision) -> None:
    """Annotate the decision of the authorizer. Requests that open a connection into a pod are authorized twice; the
    first decision is recorded."""
    context = audit_context()
    if context is not None and context.enabled and _DECISION not in context.annotations:
        context.annotate(_DECISION, "allow" if decision.allowed else "forbid")
        context.annotate(_REASON, decision.reason)


def _impersonates(request: Request) -> bool:
    return any(map(_IS_IMPERSONATION, request.headers))


def _is_public(target: str) -> bool:
    return target.partition("?")[0].strip("/").partition("/")[0] in _PUBLIC


def _backend_checks(store: Store) -> tuple[CallingCheck, CallingCheck]:
    """The checks of an etcd: whether it is healthy, and whether that is soon enough for ``/readyz``."""
    return (
        CallingCheck(lambda: store.responds("health"), "/healthz", "/livez", "/readyz"),
        CallingCheck(lambda: store.responds("readiness"), "/readyz"),
    )
