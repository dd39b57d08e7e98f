"""Wraps the handling of requests with their audit: ``WithAudit``.

After apiserver's ``pkg/endpoints/filters/{audit,authn_audit}.go`` (v0.36). An event is written when a request is
received, when the response of a long-running request starts, and when the response is complete or the handler has
failed.
"""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from pilothouse.api.wire import Request, Response, Stream
from pilothouse.apiserver.audit.checker import PolicyRuleEvaluator, RequestAuditConfig
from pilothouse.apiserver.audit.context import AuditContext, reset_audit_context, set_audit_context
from pilothouse.apiserver.audit.event import (
    EVENT_API_VERSION,
    AuthenticationMetadata,
    Event,
    ObjectReference,
    UserInfo,
    timestamp,
)
from pilothouse.apiserver.audit.metrics import AuditMetrics
from pilothouse.apiserver.audit.policy import NONE, PANIC, REQUEST_RECEIVED, RESPONSE_COMPLETE, RESPONSE_STARTED
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.errors import StatusError
from pilothouse.apiserver.request_info import RequestInfo
from pilothouse.apiserver.serializers.json import ChunkedResponse
from pilothouse.env import Env
from pilothouse.env.logging import Log
from pilothouse.machinery.go_text import quote

_log = Log("audit")

AUDIT_ID = "audit-id"
_MAX_USER_AGENT = 1024
_LONG_RUNNING = frozenset({"attach", "exec", "proxy", "log", "portforward"})
_TEXT = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
_TIMED_OUT = StatusError(
    504,
    "Timeout",
    "Timeout: request did not complete within requested timeout - context canceled",
    details={},
)
"""The status that upstream records when a request times out or its client disconnects."""

Handle = Callable[[], Awaitable[Response | Stream]]


class Backend(Protocol):
    """Writes events (``audit.Backend``)."""

    async def process_event(self, event: Event) -> bool:
        """Process an event. False if the request must be rejected, because its event could not be recorded."""
        ...

    async def close(self) -> None:
        """Write the remaining events."""
        ...


@runtime_checkable
class _Batches(Protocol):
    def batches(self) -> AsyncIterator[list[bytes]]: ...


class Audit:
    """The audit of one server."""

    def __init__(self, env: Env, evaluator: PolicyRuleEvaluator, backend: Backend, metrics: AuditMetrics) -> None:
        self._env = env
        self._evaluator = evaluator
        self._backend = backend
        self.metrics = metrics

    def begin(self, request: Request) -> AuditContext:
        """The context of a request that was just received (``WithAuditInit``)."""
        return AuditContext(request.headers.get(AUDIT_ID) or self._env.uid(), self._env.now())

    async def handle(
        self,
        context: AuditContext,
        request: Request,
        request_info: RequestInfo,
        identity: Identity,
        handle: Handle,
        remote: str = "",
    ) -> Response | Stream:
        """Call ``handle`` and record the request. ``remote`` is the address of the client."""
        audited = _RequestAudit(self, context, request, request_info, identity, remote)
        if not audited.enabled:
            return await handle()
        if not await audited.process(REQUEST_RECEIVED):
            self.metrics.rejected.inc()
            text = f"Internal Server Error: {quote(request.target)}: failed to store audit event\n"
            return Response(500, _TEXT, text.encode())
        token = set_audit_context(context)
        try:
            response = await handle()
        except asyncio.CancelledError:
            context.log_error(_TIMED_OUT)
            await audited.complete()
            raise
        except BaseException as error:
            context.log_panic(error)
            await audited.complete()
            raise
        finally:
            reset_audit_context(token)
        context.set_code(response.status)
        if audited.long_running:
            await audited.process(RESPONSE_STARTED)
        if isinstance(response, Response | ChunkedResponse):
            await audited.complete()
            return response
        return (
            _AuditedBatches(response, audited) if isinstance(response, _Batches) else _AuditedStream(response, audited)
        )

    async def fail(
        self, context: AuditContext, request: Request, request_info: RequestInfo, error: StatusError, remote: str = ""
    ) -> None:
        """Record a request that is rejected before authentication. It has one stage only."""
        audited = _RequestAudit(self, context, request, request_info, None, remote)
        if audited.enabled:
            context.log_error(error)
            context.set_code(error.code)
            await audited.process(RESPONSE_STARTED)

    async def close(self) -> None:
        """Write the remaining events."""
        await self._backend.close()

    def evaluate(self, identity: Identity | None, request_info: RequestInfo) -> RequestAuditConfig:
        """Evaluate the policy for a request."""
        config = self._evaluator.evaluate_policy_rule(identity, Attributes.of(request_info))
        self.metrics.levels.labels(config.level).inc()
        return config

    async def process(self, event: Event) -> bool:
        """Count an event and pass it to the backend."""
        self.metrics.events.inc()
        return await self._backend.process_event(event)

    def now(self) -> str:
        """The timestamp of a stage."""
        return timestamp(self._env.now())


class _RequestAudit:
    """The recording of one request."""

    def __init__(
        self,
        audit: Audit,
        context: AuditContext,
        request: Request,
        request_info: RequestInfo,
        identity: Identity | None,
        remote: str,
    ) -> None:
        self._audit = audit
        self._context = context
        self._config = context.config = audit.evaluate(identity, request_info)
        self.enabled = self._config.level != NONE
        self._completed = False
        if not self.enabled:
            return
        self.long_running = request_info.verb == "watch" or request_info.subresource in _LONG_RUNNING
        self._received = timestamp(context.received_at)
        self._head: dict[str, Any] = {
            "api_version": EVENT_API_VERSION,
            "level": self._config.level,
            "audit_id": context.audit_id,
            "request_uri": request.target,
            "verb": request_info.verb,
            "user": UserInfo.of(identity),
            "source_ips": tuple(source_ips(request.headers, remote)),
            "user_agent": _user_agent(request.headers),
            "request_received_timestamp": self._received,
        }
        if request_info.resource_request:
            context.object_ref = ObjectReference(
                resource=request_info.resource,
                namespace=request_info.namespace,
                name=request_info.name,
                api_group=request_info.group,
                api_version=request_info.version,
                subresource=request_info.subresource,
            )

    async def process(self, stage: str) -> bool:
        """Write the event in its current state, unless the policy omits this stage."""
        if stage in self._config.omit_stages:
            return True
        return await self._audit.process(self._event(stage))

    async def complete(self) -> None:
        """Write the event of the last stage, once."""
        if not self._completed:
            self._completed = True
            await self.process(PANIC if self._context.panicked else RESPONSE_COMPLETE)

    def _event(self, stage: str) -> Event:
        context = self._context
        return Event(
            **self._head,
            stage=stage,
            impersonated_user=None if context.impersonated is None else UserInfo.of(context.impersonated),
            authentication_metadata=(
                AuthenticationMetadata(context.impersonation_constraint) if context.impersonation_constraint else None
            ),
            object_ref=None if context.object_ref is None else msgspec.structs.replace(context.object_ref),
            response_status=context.response_status,
            request_object=None if context.request_object is None else msgspec.Raw(context.request_object),
            response_object=None if context.response_object is None else msgspec.Raw(context.response_object),
            stage_timestamp=self._received if stage == REQUEST_RECEIVED else self._audit.now(),
            annotations=dict(sorted(context.annotations.items())) or None,
        )


class _AuditedStream:
    """A stream that writes the last event when it ends, or is closed."""

    def __init__(self, stream: Stream, audited: _RequestAudit) -> None:
        self.status = stream.status
        self.headers = stream.headers
        self._stream = stream
        self._audited = audited

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            yield chunk
        await self._audited.complete()

    async def close(self) -> None:
        """End the stream."""
        try:
            await self._stream.close()
        finally:
            await self._audited.complete()


class _AuditedBatches(_AuditedStream):
    """``_AuditedStream`` for a stream with batches."""

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """The chunks, in batches as they arrived."""
        assert isinstance(self._stream, _Batches), "only streams with batches are wrapped"
        async for batch in self._stream.batches():
            yield batch
        await self._audited.complete()


def source_ips(headers: Mapping[str, str], remote: str) -> Iterator[str]:
    """The source IPs of a request (apimachinery ``pkg/util/net/http.go``, ``SourceIPs``): those of the proxy headers,
    then the address of the connection. Only the last one is trustworthy."""
    last_ip = ""
    included: set[str] = set()
    for text in headers.get("x-forwarded-for", "").split(","):
        if ip := _ip(text):
            included.add(ip)
            last_ip = ip
            yield ip
    real_ip = _ip(headers.get("x-real-ip", ""))
    if real_ip and real_ip not in included:
        last_ip = real_ip
        yield real_ip
    remote_ip = _ip(remote)
    if remote_ip and remote_ip != last_ip:
        yield remote_ip


def _ip(text: str) -> str:
    try:
        address = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return ""
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _user_agent(headers: Mapping[str, str]) -> str:
    agent = headers.get("user-agent", "")
    return f"{agent[:_MAX_USER_AGENT]}...TRUNCATED" if len(agent) > _MAX_USER_AGENT else agent
