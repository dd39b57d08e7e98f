"""``ApiServer``: handles requests, independent of their transport.

A request is parsed (``request_info``), authorized, decoded (``Presenter``), handled by a function in ``endpoints``, and
encoded. Non-resource paths (discovery, health, OpenAPI) are served by ``documents``.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.api.usage import Metering
from pilothouse.api.wire import Request, Response, Stream, Transport
from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.built_in import new_from_plugins
from pilothouse.apiserver.aggregation.autoregistration import AutoRegistrationController
from pilothouse.apiserver.aggregation.availability import AvailableConditionController
from pilothouse.apiserver.apiextensions.controller import CustomResources
from pilothouse.apiserver.audit.context import MAX_OBJECT, add_audit_annotation, audit_context
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.controllers import bootstrap_objects
from pilothouse.apiserver.controllers.event_expiry import EventExpiry
from pilothouse.apiserver.controllers.flow_schema_status import FlowSchemaStatus
from pilothouse.apiserver.controllers.resource_metrics import ResourceMetrics
from pilothouse.apiserver.core import Core, Handler
from pilothouse.apiserver.endpoints import create, delete, get, patch, subresources, undecided, update, watch
from pilothouse.apiserver.endpoints import renewal as renewals
from pilothouse.apiserver.endpoints.documents import Documents
from pilothouse.apiserver.endpoints.healthz import CallingCheck, KmsHealth, is_health
from pilothouse.apiserver.endpoints.history import history_documents
from pilothouse.apiserver.errors import PlainNotFound, StatusError
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.long_work import LONG_BYTES
from pilothouse.apiserver.metrics.requests import ClientMetrics
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.options import ServerOptions, read_write_options
from pilothouse.apiserver.origins import begin_writes, end_writes, own_writes, stamp_origin
from pilothouse.apiserver.registry.core.services.allocation import ServiceAddresses
from pilothouse.apiserver.request_info import TOO_MANY, RequestInfo
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.json import JSON, JSON_HEADERS, PLAIN, failure, with_warnings
from pilothouse.apiserver.serializers.presenter import NegotiatingPresenter
from pilothouse.apiserver.serializers.results import (
    ListResult,
    ObjectResult,
    Presenter,
    RawResult,
    Result,
    StatusResult,
)
from pilothouse.apiserver.transport import Handle, LocalTransport, Renew
from pilothouse.env import Env, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import Log
from pilothouse.machinery.json_bounds import TOO_DEEP
from pilothouse.storage import BackendError, CommitFailed, Store, StoreClosed, StoreUnavailable

if TYPE_CHECKING:
    from pilothouse.apiserver.audit.filter import Audit
    from pilothouse.apiserver.lagging import LaggingReads

with lazy_imports():
    from pilothouse.apiserver import lagging, tracing
    from pilothouse.apiserver.endpoints import approval, connect, eviction, logs, pod_subresources
    from pilothouse.apiserver.registry.resource.resourceclaims import authorization as claim_authorization


_log = Log("apiserver")


_VERBS: dict[str, Handler] = {
    "create": create.create,
    "get": get.get,
    "list": get.list_objects,
    "watch": watch.watch,
    "update": update.update,
    "patch": patch.patch,
    "delete": delete.delete,
    "deletecollection": delete.delete_collection,
}
_SUBRESOURCES: dict[tuple[str, str], Handler] = {
    ("status", "get"): subresources.get_status,
    ("status", "update"): update.update,
    ("status", "patch"): patch.patch,
    ("scale", "get"): subresources.get_scale,
    ("scale", "update"): subresources.update_scale,
    ("scale", "patch"): subresources.patch_scale,
    ("finalize", "update"): lambda core, call: subresources.update_subresource(core, call, subresources.FINALIZE),
    ("binding", "create"): subresources.bind,
    ("eviction", "create"): lambda core, call: eviction.evict(core, call),
    ("ephemeralcontainers", "get"): subresources.get_status,
    ("ephemeralcontainers", "update"): lambda core, call: subresources.update_subresource(
        core, call, pod_subresources.EPHEMERAL_CONTAINERS
    ),
    ("ephemeralcontainers", "patch"): lambda core, call: subresources.patch_subresource(
        core, call, pod_subresources.EPHEMERAL_CONTAINERS
    ),
    ("resize", "get"): subresources.get_status,
    ("resize", "update"): lambda core, call: subresources.update_subresource(core, call, pod_subresources.RESIZE),
    ("resize", "patch"): lambda core, call: subresources.patch_subresource(core, call, pod_subresources.RESIZE),
    ("approval", "get"): subresources.get_status,
    ("approval", "update"): lambda core, call: subresources.update_subresource(
        core, call, approval.approval(core, call)
    ),
    ("approval", "patch"): lambda core, call: subresources.patch_subresource(core, call, approval.approval(core, call)),
    ("log", "get"): lambda core, call: logs.get_log(core, call),
    ("exec", "get"): lambda core, call: connect.connect_pod(core, call),
    ("exec", "create"): lambda core, call: connect.connect_pod(core, call),
    ("attach", "get"): lambda core, call: connect.connect_pod(core, call),
    ("attach", "create"): lambda core, call: connect.connect_pod(core, call),
    ("portforward", "get"): lambda core, call: connect.connect_pod(core, call),
    ("portforward", "create"): lambda core, call: connect.connect_pod(core, call),
}
_VIRTUAL: dict[tuple[str, str, str], Handler] = {
    ("", "bindings", ""): subresources.bind,
    ("", "pods", "proxy"): lambda core, call: connect.proxy_pod(core, call),
    ("", "services", "proxy"): lambda core, call: connect.proxy_service(core, call),
    ("", "nodes", "proxy"): lambda core, call: connect.proxy_node(core, call),
}

_REMOVED = re.compile(r"unavailable in v(\d+\.\d+)\+").search
_DISCOVERY = ("/api", "/apis")
_METRICS = "/metrics"
_READS = ("GET", "HEAD")
_CONNECT_SUBRESOURCES = ("attach", "exec", "portforward")
"""Subresources that connect to a pod and require the permission ``create``."""

Authorize = Callable[[Identity, RequestInfo], None]
ReadBody = Callable[[], Awaitable[bytes]]
Find = Callable[[Request, RequestInfo], tuple[Handler, ResourceInfo]]


class ApiServer:
    """One API server over one store.

    ``handle`` can be called at any time. ``run`` runs the controllers (custom resource definitions, expiry of events)
    until it is cancelled. The bootstrap objects exist once the server is constructed.
    """

    def __init__(
        self, env: Env, store: Store, *, options: ServerOptions | None = None, audit: "Audit | None" = None
    ) -> None:
        self.env = env
        self.audit = audit
        """The audit; None if there is none."""
        self.store = store
        self.options = options or ServerOptions()
        self.tracing = None if env.tracing is None else tracing.RequestTracing(env.tracing)
        """Spans of requests and their parts; None if nothing is traced."""
        self.core = (
            Core(env, store, self.options) if self.tracing is None else tracing.TracedCore(env, store, self.options)
        )
        self._find: Find = self._handler if self.tracing is None else self.tracing.spans_of(self._handler)
        store.on_stage.append(stamp_origin)
        self.core.handlers.update(_VIRTUAL)
        for resource in ("resourceclaims", "resourceclaimtemplates"):
            self.core.field_authorizers[f"{resource}.resource.k8s.io"] = self._authorize_claim
        self._addresses = ServiceAddresses(env, store, self.core.table, self.options.service_range)
        self.core.admission.plugins += [
            *new_from_plugins(self.core, self.options.admission_plugins),
            self._addresses,
        ]
        self.presenter: Presenter = NegotiatingPresenter(env.now, self.core.long_work)
        self.metrics_sources: list[Callable[[], str]] = []
        """Additional metrics of the API server, for ``/metrics``."""
        self.process_metrics: list[Callable[[], str]] = []
        """Metrics of the process."""
        self.component_metrics: dict[str, list[Callable[[], str]]] = {}
        """The pages of the other programs, by upstream's names of them."""
        self.update_component_metrics: Callable[[], Awaitable[None]] | None = None
        """Updates those of programs in another process, before they are read."""
        self.documents = Documents(
            self.core.table,
            address=f"127.0.0.1:{self.options.secure_port}",
            history=history_documents(store, env),
        )
        """The non-resource paths (discovery, OpenAPI); a ``HandlerChain`` replaces them."""
        self.authorize: Authorize | None = None
        """Raises ``StatusError`` for requests that the user may not make; None allows everything."""
        self.kms_health: KmsHealth | None = None
        """The health of the KMS plugins; None if there are none."""
        self.calling_checks: list[CallingCheck] = []
        """Health checks that make a call."""
        self._events = EventExpiry(self.core)
        self._auto_registration = AutoRegistrationController(self.core)
        self._availability = AvailableConditionController(self.core)
        self._flow_schema_status = FlowSchemaStatus(self.core)
        self.background: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {}
        """Additional tasks of ``run``, by name."""
        self.custom_resources = CustomResources(self.core)
        self.metrics_sources.append(self.custom_resources.metrics)
        self._staged_bootstrap_objects = bootstrap_objects.stage_objects(self.core)
        self._lagging: LaggingReads | None = None

    def _authorize_claim(self, call: Call, obj: Object, old: Object | None) -> ErrorList:
        return claim_authorization.authorize(self.core, call, obj, old)

    def transport(
        self,
        user: str,
        groups: Sequence[str] = (),
        *,
        user_agent: str = "",
        metrics: ClientMetrics | None = None,
    ) -> Transport:
        """A transport for a user on the same loop. ``metrics`` are the client metrics if the server counts the requests
        itself."""
        handle: Handle = self.handle if self.audit is None else self._handle_audited
        if self.tracing is not None:
            handle = self.tracing.local(handle, self.core.requests.read)
        return LocalTransport(
            handle, Identity(user, tuple(groups)), user_agent, self.core, metrics, self.renewal, self.document
        )

    async def _handle_audited(self, request: Request, identity: Identity) -> Response | Stream:
        """Requests of the same process are audited here, external ones by the handler chain."""
        assert self.audit is not None, "checked by the caller"
        request_info = self.core.requests.read(request.method, request.target)
        context = self.audit.begin(request)
        return await self.audit.handle(context, request, request_info, identity, lambda: self.handle(request, identity))

    async def run(self) -> None:
        """Run the controllers until cancelled."""
        core = self.core
        self.store.start()
        await core.retry_until_stored(self.commit_bootstrap_objects)
        await core.retry_until_stored(
            lambda: core.commit_staged(lambda: bootstrap_objects.stage_optional_objects(core))
        )
        bootstrap_objects.recreate_deleted_objects(self.core)
        with own_writes(self.env, "", "repair of missing IPAddresses at startup"):
            addresses = self._addresses.repair()
            if addresses is not None:
                await core.retry_until_stored(lambda: core.commit_staged(self._addresses.repair, staged=addresses))
        async with TaskGroup("API server") as group:
            group.start(self.custom_resources.run(), name="custom resource definitions")
            if not self.store.expires:
                group.start(self._events.run(), name="event expiry")
            group.start(self._auto_registration.run(), name="API services of custom groups")
            group.start(self._availability.run(), name="availability of API services")
            group.start(self._flow_schema_status.run(), name="status of flow schemas")
            for name, work in self.background.items():
                group.start(work(), name=name)
            await asyncio.get_running_loop().create_future()

    def serve_resource_metrics(self, metering: Metering) -> None:
        """Serve metrics.k8s.io from ``metering``. Call it before ``run``."""
        self.background["resource metrics"] = ResourceMetrics(self.core, metering).publish

    def set_lag(self, seconds: float) -> None:
        """Serve reads with this delay, as a server whose watch cache lags (``lagging``); infinity for one that is
        stuck, 0 for none.

        Active watches end at the first call, as if disconnected: clients resume from the copy. Raises ``ValueError``
        for a negative lag.
        """
        if seconds < 0:
            raise ValueError(f"a lag must not be negative, got {seconds}")
        if self._lagging is None:
            if not seconds:
                return
            self._lagging = lagging.LaggingReads(self.core)
            for served in list(self.core.watches):
                served.finish()
        self._lagging.store.set_lag(seconds)

    def compact(self) -> None:
        """Drop the history, as a compaction of etcd: older resource versions and ``continue`` tokens get a 410. Active
        watches continue."""
        self.store.compact(self.store.revision)
        if self._lagging is not None:
            self._lagging.store.compact(self._lagging.store.revision)

    async def close(self) -> None:
        """End every watch and close the store."""
        for served in list(self.core.watches):
            served.stop()
        if self._lagging is not None:
            await self._lagging.store.close()
        await self.store.close()

    async def handle(
        self, request: Request, identity: Identity, read_body: ReadBody | None = None
    ) -> Response | Stream:
        """Handle the request of an authenticated user. Failures are responses, not exceptions.

        ``read_body`` reads the body of a request without one; it is called after authorization.
        """
        request_info = self.core.requests.read(request.method, request.target)
        call: Call | None = None
        try:
            if self._staged_bootstrap_objects is not None:
                await self.commit_bootstrap_objects()
            if self.authorize is not None:
                self.authorize(identity, request_info)
                if (
                    request_info.verb == "get"
                    and request_info.subresource in _CONNECT_SUBRESOURCES
                    and request_info.resource == "pods"
                ):
                    # A websocket starts with a GET, but needs the permission of a POST (v1.35).
                    self.authorize(identity, msgspec.structs.replace(request_info, verb="create"))
            if request_info.query is TOO_MANY:
                raise errors.bad_request("number of URL query parameters exceeded limit")
            if not request_info.resource_request:
                if self.calling_checks and is_health(request_info.path):
                    await asyncio.gather(*(check.refresh(request_info.path) for check in self.calling_checks))
                if (
                    request_info.path.startswith(_METRICS)
                    and self.update_component_metrics is not None
                    and request_info.query.first("component") in self.component_metrics
                ):
                    await self.update_component_metrics()
                document = self.documents.handle(request, request_info)
                if self.audit is not None:
                    self._record_document(request, request_info, document)
                return document
            handler, info = self._find(request, request_info)
            namespace = request_info.namespace if info.namespaced else ""
            strategy = self.core.strategy(info)
            call = Call(
                request,
                request_info,
                info,
                strategy,
                identity,
                namespace,
                request_info.name,
                list(strategy.deprecation_warnings),
            )
            if read_body is not None:
                request = Request(request.method, request.target, request.headers, await read_body())
            is_plain = self.presenter.is_plain(request, request_info)
            if not is_plain:
                request = await self.core.long_work.run(len(request.body), self.presenter.read, request, request_info)
            call.request = request
            if strategy.deprecation_warnings:
                self._record_deprecation(request_info, strategy.deprecation_warnings)
            core = self.core
            if self._lagging is not None:
                core, call = self._lagging.route(handler, call)
            if request.method in _READS:
                result = await handler(core, call)
            else:
                origin = begin_writes(call, self.env)
                try:
                    if self.store.is_shared:
                        result = await undecided.run_write_handler(core, call, handler)
                    else:
                        result = await handler(core, call)
                finally:
                    end_writes(origin)
            if isinstance(result, RawResult):
                return result.response
            if self.audit is not None:
                await self._record_response(request, request_info, result)
            if is_plain:
                return PLAIN.show(request, request_info, result)
            if isinstance(result, ListResult) or (isinstance(result, ObjectResult) and len(result.value) > LONG_BYTES):
                return await self.presenter.show_long(request, request_info, result)
            return self.presenter.show(request, request_info, result)
        except StatusError as error:
            return self._failed(request, request_info, call, error)
        except PlainNotFound:
            return _NOT_FOUND
        except RecursionError:
            # Bodies have a maximum depth; patches, webhooks and expressions may produce deeper objects.
            return self._failed(request, request_info, call, errors.bad_request(TOO_DEEP))
        except BackendError as error:
            # etcd's words, which upstream passes on as they are (``responsewriters/status.go``, v0.36).
            return self._failed(request, request_info, call, errors.plain(str(error)))
        except (CommitFailed, StoreClosed, StoreUnavailable) as error:
            return self._failed(request, request_info, call, errors.internal(str(error)))
        except Exception as error:  # noqa: BLE001  # one request's fault must not take the server down
            _log.exception(f"{request.method} {request.target} failed", error)
            response = self._failed(request, request_info, call, errors.internal(f"{type(error).__name__}: {error}"))
            if (context := audit_context()) is not None:
                context.log_panic(error)
            return response

    def renewal(self, request: Request, identity: Identity) -> Renew | None:
        """The renewal of the Lease of such a PUT without a request, for a program in this process: see
        ``renewal.DirectRenewal``. None if that is not possible."""
        core = self.core
        request_info = core.requests.read(request.method, request.target)
        info = request_info.info
        if (
            info is None
            or request_info.verb != "update"
            or request_info.subresource
            or not request_info.name
            or request_info.query is TOO_MANY
            or not core.strategy(info).has_renewal_path
            or core.strategy(info).deprecation_warnings
            or not self.presenter.is_plain(request, request_info)
        ):
            return None
        try:
            if self._find(request, request_info)[0] is not update.update:
                return None
            options = read_write_options(request_info.query, "UpdateOptions")
        except (StatusError, PlainNotFound):
            return None
        strategy, namespace = core.strategy(info), request_info.namespace
        call = Call(request, request_info, info, strategy, identity, namespace, request_info.name, [])
        renewal = renewals.direct_renewal(core, call, options)
        if renewal is None:
            return None
        renewing = renewal.renew

        def renew(renewed: str) -> Response | None:
            if self.audit is not None or self.tracing is not None or self._lagging is not None:
                return None  # The audit, spans and lagging reads need each request.
            try:
                if self.authorize is not None:
                    self.authorize(identity, request_info)
                value = renewing(renewed)
            except (StatusError, StoreClosed):
                return None  # the response will have this error
            return None if value is None else Response(200, JSON_HEADERS, value)

        return renew

    def document(self, request: Request, identity: Identity) -> Response | None:
        """``handle`` for a GET of ``/api`` or ``/apis`` that does not wait. None for other requests, for rejected ones,
        and if requests are audited or traced."""
        if self.audit is not None or self.tracing is not None or self._staged_bootstrap_objects is not None:
            return None
        request_info = self.core.requests.read(request.method, request.target)
        if request.method != "GET" or request_info.path not in _DISCOVERY or request_info.query is TOO_MANY:
            return None
        try:
            if self.authorize is not None:
                self.authorize(identity, request_info)
            return self.documents.handle(request, request_info)
        except (StatusError, PlainNotFound):
            return None

    async def commit_bootstrap_objects(self) -> None:
        """Commit the bootstrap objects. Concurrent callers wait for the same commit."""
        staged = self._staged_bootstrap_objects
        if staged is None:
            return
        if self.store.is_shared:
            # The commit may have failed, or another server written first: stage what is missing again.
            pending = None if staged.failure or staged.committed else staged
            await self.core.commit_staged(lambda: bootstrap_objects.stage_objects(self.core), staged=pending)
        else:
            await self.store.commit(staged)
        self._staged_bootstrap_objects = None

    async def _record_response(self, request: Request, request_info: RequestInfo, result: Result) -> None:
        """Record the object of a response for the audit, as JSON in any format."""
        context = audit_context()
        if context is None or not context.enabled:
            return
        status = None
        if isinstance(result, StatusResult):
            document = msgspec.json.decode(result.value, type=dict[str, Any])
            status = document if document.get("kind") == "Status" else None
        if not context.records_response:
            if status is not None:
                context.log_response_object(b"", status)
            return
        if isinstance(result, ObjectResult | StatusResult):
            size = len(result.value)
        elif isinstance(result, ListResult):
            size = sum(map(len, result.values))
        else:
            return  # a watch
        if size > MAX_OBJECT:
            context.omit_objects()
            return
        value = await self.core.long_work.run(size, self.presenter.as_json, request, request_info, result)
        await self.core.long_work.run(size, context.log_response_object, value, status)

    def _record_document(self, request: Request, request_info: RequestInfo, document: Response) -> None:
        """Discovery documents are recorded as objects, too."""
        context = audit_context()
        if context is None or not context.records_response or document.status != 200:
            return
        if request_info.path.strip("/").partition("/")[0] not in ("api", "apis"):
            return
        if document.headers.get("content-type", "").partition(";")[0] != JSON:
            headers = {**request.headers, "accept": JSON}
            document = self.documents.handle(msgspec.structs.replace(request, headers=headers), request_info)
        context.log_response_object(document.body)

    def _record_deprecation(self, request_info: RequestInfo, warnings: Sequence[str]) -> None:
        """Warn about a deprecated version and its removal, and count it (``MonitorRequest``, apiserver
        ``pkg/endpoints/metrics/metrics.go``, v0.36)."""
        if self.audit is None and self.core.metrics is None:
            return
        match = _REMOVED(" ".join(warnings))
        removed = match[1] if match is not None else ""
        if self.core.metrics is not None:
            self.core.metrics.requests.deprecated(request_info, removed)
        if self.audit is not None:
            add_audit_annotation("k8s.io/deprecated", "true")
            if removed:
                add_audit_annotation("k8s.io/removed-release", removed)

    def _failed(self, request: Request, request_info: RequestInfo, call: Call | None, error: StatusError) -> Response:
        if (context := audit_context()) is not None:
            context.log_error(error)
        if request.method == "HEAD":
            response = Response(error.code, failure(error).headers, b"")
        else:
            response = self.presenter.fail(request, request_info, error)
        return response if call is None or not call.warnings else with_warnings(response, call.warnings)

    def _handler(self, request: Request, request_info: RequestInfo) -> tuple[Handler, ResourceInfo]:
        """The handler of the call; raises upstream's error if there is none."""
        info = request_info.info
        if info is None:
            table = self.core.table
            # Upstream's router handles everything below a custom group, in any version.
            if table.is_built_in(request_info.group):
                raise errors.no_such_resource()
            if table.serves(request_info.group, request_info.version) and not table.is_custom(request_info.group):
                raise errors.no_such_resource()
            raise PlainNotFound
        self._check_scope(request_info, info)
        if request.method == "HEAD" or _is_misplaced(request_info):
            # Create-only resources, reviews and bindings, have no paths of single objects.
            raise errors.no_such_resource() if info.verbs == ("create",) else errors.method_not_allowed()
        handler = self.core.verb_handlers.get((info.group, info.resource, request_info.subresource, request_info.verb))
        if handler is None:
            handler = self.core.handlers.get((info.group, info.resource, request_info.subresource))
        if not request_info.subresource:
            if request_info.verb not in info.verbs:
                raise errors.method_not_allowed()
            return handler or _VERBS[request_info.verb], info
        if request_info.sub is None or (request_info.trailing_segments and handler is None):
            if info.custom is not None:
                raise errors.not_found(info, request_info.name)
            raise errors.no_such_resource()
        if request_info.verb not in request_info.sub.verbs:
            raise errors.method_not_allowed()
        handler = handler or _SUBRESOURCES.get((request_info.subresource, request_info.verb))
        if handler is None:
            raise StatusError(
                501,
                "NotImplemented",
                f"this server does not serve {info.resource}/{request_info.subresource}",
                details={},
            )
        return handler, info

    def _check_scope(self, request_info: RequestInfo, info: ResourceInfo) -> None:
        """Namespaced resources need a namespace in the path, others must not have one."""
        if info.namespaced:
            if request_info.namespace:
                return
            if not request_info.subresource and request_info.verb in ("list", "watch"):
                return
            if not request_info.subresource and not request_info.name and info.verbs != ("create",):
                # The path of the list of all namespaces.
                raise errors.method_not_allowed()
        elif not request_info.namespace or (
            info.resource == "namespaces" and request_info.namespace == request_info.name
        ):
            return
        raise PlainNotFound if info.custom is not None else errors.no_such_resource()


def _is_misplaced(request_info: RequestInfo) -> bool:
    """Whether a collection method is used on an object, or the reverse."""
    if request_info.verb == "create":
        return bool(request_info.name) and not request_info.subresource
    return request_info.verb in ("update", "patch") and not request_info.name


_NOT_FOUND = Response(
    404,
    {
        "content-type": "text/plain; charset=utf-8",
        "cache-control": "no-cache, private",
        "x-content-type-options": "nosniff",
    },
    b"404 page not found\n",
)
