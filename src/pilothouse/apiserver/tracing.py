"""Spans of requests: ``WithTracing``, and the spans of handlers, admission and commits.

Names and attributes are upstream's where it has the span: requests are named by route (apiserver
``pkg/endpoints/filters/traces.go``, ``otelhttp`` v0.65), handlers and storage by operation (``pkg/endpoints/handlers``,
``pkg/storage/etcd3/store.go``, v0.36); those of the storage are named after etcd, as its metrics are. The spans of
admission phases do not exist upstream.

As upstream, the request of a client that is neither in system:masters nor in system:monitoring starts a new trace,
which is linked to the client's, so that clients cannot control the sampling. Programs in this process can.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Protocol, runtime_checkable

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Chain
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.core import Core, Handler
from pilothouse.apiserver.options import ServerOptions
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.apiserver.serializers.json import JSON, ChunkedResponse
from pilothouse.apiserver.serializers.results import RawResult, Result
from pilothouse.env import Env
from pilothouse.storage import Change, Staged, Store
from pilothouse.tracing.commits import Commits
from pilothouse.tracing.propagation import WATCH_HEADER, read_headers
from pilothouse.tracing.provider import Attributes, Tracing, Within, child_of, current_context
from pilothouse.tracing.watches import with_traceparent

_PRIVILEGED = frozenset({"system:masters", "system:monitoring"})
_MAX_AUDIT_ID = 64
_MAX_USER_AGENT = 1024
_MAX_TARGET = 2048
_HANDLERS = {
    "create": "Create",
    "get": "Get",
    "list": "List",
    "update": "Update",
    "patch": "Patch",
    "delete": "Delete",
    "deletecollection": "Delete",
}
_CONNECTING = frozenset({"attach", "exec", "portforward", "proxy", "log"})
_COMMITS = {"ADDED": "Create etcd3", "MODIFIED": "GuaranteedUpdate etcd3", "DELETED": "Delete etcd3"}

_audit_id: ContextVar[str] = ContextVar("pilothouse audit id of the traced request", default="")

Read = Callable[[str, str], RequestInfo]
Local = Callable[[Request, Identity], Awaitable[Response | Stream]]
Served = Callable[[Request, Identity, Callable[[], Awaitable[bytes]] | None], Awaitable[Response | Stream]]
Find = Callable[[Request, RequestInfo], tuple[Handler, ResourceInfo]]


@runtime_checkable
class _Batches(Protocol):
    def batches(self) -> AsyncIterator[list[bytes]]: ...


class RequestTracing:
    """The spans of one server's requests."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def local(self, handle: Local, read: Read) -> Local:
        """Wrap the handler of requests of programs in this process."""

        async def traced(request: Request, identity: Identity) -> Response | Stream:
            info = read(request.method, request.target)
            return await self._request(request, info, lambda: handle(request, identity), trusts_parent=True)

        return traced

    def served(self, handle: Served, read: Read) -> Served:
        """Wrap the handler of external requests, which are authenticated."""

        async def traced(
            request: Request, identity: Identity, read_body: Callable[[], Awaitable[bytes]] | None
        ) -> Response | Stream:
            info = read(request.method, request.target)
            trusts_parent = not _PRIVILEGED.isdisjoint(identity.groups)
            return await self._request(
                request, info, lambda: handle(request, identity, read_body), trusts_parent=trusts_parent
            )

        return traced

    def spans_of(self, find: Find) -> Find:
        """Wrap the lookup of handlers: the handler that it returns has a span."""

        def traced(request: Request, info: RequestInfo) -> tuple[Handler, ResourceInfo]:
            handler, resource = find(request, info)
            name = _HANDLERS.get(info.verb)
            if name is None or info.subresource in _CONNECTING:
                return handler, resource

            async def handle(core: Core, call: Call) -> Result | RawResult:
                with self._tracing.within(self._tracing.start(name, _trace_fields(request, info))):
                    return await handler(core, call)

            return handle, resource

        return traced

    async def _request(
        self,
        request: Request,
        info: RequestInfo,
        handle: Callable[[], Awaitable[Response | Stream]],
        *,
        trusts_parent: bool,
    ) -> Response | Stream:
        remote = read_headers(request.headers)
        span = self._tracing.start(
            _span_name(request.method, info),
            _request_attributes(request),
            parent=Context() if remote is None or not trusts_parent else child_of(remote),
            kind=SpanKind.SERVER,
            links=[Link(remote)] if remote is not None and not trusts_parent else (),
        )
        token = _audit_id.set(request.headers.get("audit-id", "")[:_MAX_AUDIT_ID])
        try:
            with Within(self._tracing, span, end=False):
                response = await handle()
        except BaseException:
            self._tracing.end(span)
            raise
        finally:
            _audit_id.reset(token)
        span.set_attribute("http.response.status_code", response.status)
        if response.status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        if isinstance(response, Response | ChunkedResponse):
            size = len(response.body) if isinstance(response, Response) else response.length
            span.set_attribute("http.response.body.size", size)
            self._tracing.end(span)
            return response
        commits = self._tracing.commits if _wants_traceparents(request, response) else None
        traced = _TracedBatches if isinstance(response, _Batches) else _TracedStream
        return traced(response, self._tracing, span, commits)


class TracedCore(Core):
    """A ``Core`` with spans of admission and commits."""

    def __init__(self, env: Env, store: Store, options: ServerOptions) -> None:
        super().__init__(env, store, options)
        tracing: Tracing = env.tracing
        self._tracing = tracing
        self.admission = _TracedChain(tracing)
        store.on_stage.append(self._record_writer)

    async def commit(self, staged: Staged) -> bytes:
        """Commit with a span, which is the one that has written the revision."""
        tracing, change = self._tracing, staged.change
        span = tracing.start(_COMMITS[change.type], _commit_attributes(change))
        # Before it is visible: readers of the revision then find the span.
        tracing.commits.remember(str(change.revision), span.get_span_context(), tracing.now())
        with tracing.within(span):
            value = await super().commit(staged)
        if self.store.is_shared:  # the revision is known now
            tracing.commits.remember(str(staged.revision), span.get_span_context(), tracing.now())
        return value

    def _record_writer(self, staged: Staged) -> None:
        """Writes that are staged by hooks are committed together, without a commit of their own."""
        context = current_context()
        if context.is_valid:
            self._tracing.commits.remember(str(staged.change.revision), context, self._tracing.now())


class _TracedChain(Chain):
    """Plugins in order, with a span for each of the two phases."""

    def __init__(self, tracing: Tracing) -> None:
        super().__init__()
        self._tracing = tracing

    async def admit(self, write: AdmissionAttributes) -> None:
        with self._span("Mutating admission", write):
            await super().admit(write)

    async def validate(self, write: AdmissionAttributes) -> None:
        with self._span("Validating admission", write):
            await super().validate(write)

    def _span(self, name: str, write: AdmissionAttributes) -> Within:
        return self._tracing.within(
            self._tracing.start(
                name,
                {
                    "operation": write.operation,
                    "resource": write.info.group_resource,
                    "subresource": write.subresource,
                },
            )
        )


class _TracedStream:
    """A watch whose span ends with the stream."""

    def __init__(self, stream: Stream, tracing: Tracing, span: Span, commits: Commits | None) -> None:
        """With ``commits``, events name the spans that have written them."""
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream
        self._tracing = tracing
        self._span: Span | None = span
        self._commits = commits

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield self._with_traceparent(chunk)
        finally:
            self._end()

    async def close(self) -> None:
        """End the stream."""
        try:
            await self._stream.close()
        finally:
            self._end()

    def _with_traceparent(self, chunk: bytes) -> bytes:
        return chunk if self._commits is None else with_traceparent(chunk, self._commits)

    def _end(self) -> None:
        span, self._span = self._span, None
        if span is not None:
            self._tracing.end(span)


class _TracedBatches(_TracedStream):
    """``_TracedStream`` for a stream with batches."""

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """The chunks, in batches as they arrived."""
        assert isinstance(self._stream, _Batches), "only streams with batches are wrapped"
        try:
            async for batch in self._stream.batches():
                yield batch if self._commits is None else [with_traceparent(chunk, self._commits) for chunk in batch]
        finally:
            self._end()


def _wants_traceparents(request: Request, response: Stream) -> bool:
    return request.headers.get(WATCH_HEADER) == "true" and response.headers.get("content-type", "").startswith(JSON)


def _span_name(method: str, info: RequestInfo) -> str:
    """``getSpanNameFromRequestInfo``."""
    if not info.resource_request:
        return method
    segments = ["apis" if info.group else "api", info.group, info.version]
    if info.namespace:
        segments.append("namespaces/{:namespace}")
    segments += [info.resource, "{:name}" if info.name else "", info.subresource]
    return f"{method} /{'/'.join(segment for segment in segments if segment)}"


def _request_attributes(request: Request) -> Attributes:
    target, headers = request.target, request.headers
    path = target.partition("?")[0]
    return {
        "http.request.method": request.method,
        "url.path": path[:_MAX_TARGET],
        "http.target": target[:_MAX_TARGET],
        "user_agent.original": headers.get("user-agent", "")[:_MAX_USER_AGENT],
        "audit-id": headers.get("audit-id", "")[:_MAX_AUDIT_ID],
    }


def _trace_fields(request: Request, info: RequestInfo) -> Attributes:
    """``traceFields``, without the client's address and the protocol."""
    headers = request.headers
    return {
        "accept": headers.get("accept", "")[:_MAX_USER_AGENT],
        "audit-id": _audit_id.get(),
        "api-group": info.group,
        "api-version": info.version,
        "name": info.name,
        "subresource": info.subresource,
        "namespace": info.namespace,
        "resource": info.resource,
        "scope": "resource" if info.name else "namespace" if info.namespace else "cluster",
        "url": info.path[:_MAX_TARGET],
        "user-agent": headers.get("user-agent", "")[:_MAX_USER_AGENT],
        "verb": info.verb,
    }


def _commit_attributes(change: Change) -> Attributes:
    group, _slash, resource_and_name = change.key.partition("/")
    return {
        "audit-id": _audit_id.get(),
        "key": change.key,
        "group": group,
        "resource": resource_and_name.partition("/")[0],
        "revision": change.revision,
    }
