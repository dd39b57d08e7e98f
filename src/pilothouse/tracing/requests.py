"""``TracedTransport``: each request that a program sends is a span, which the API server gets with its headers.

Spans are named as by Go's ``otelhttp.Transport``, which upstream's programs use. For a write there are attributes with
its cause: component, key and decision.
"""

import asyncio
from collections.abc import Mapping

import msgspec
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from pilothouse.api import wire
from pilothouse.machinery.causes import current_cause, current_triggers
from pilothouse.tracing.propagation import TRACEPARENT, WATCH_HEADER, header_of
from pilothouse.tracing.provider import MAX_TEXT, Tracing, child_of, current_context
from pilothouse.tracing.syncs import commits_of
from pilothouse.tracing.watches import TracedStream

_READS = ("GET", "HEAD", "OPTIONS")


class TracedTransport:
    """A transport that adds spans. ``remote``: to another process, whose watch events are requested with their
    spans."""

    def __init__(self, inner: wire.Transport, tracing: Tracing, *, remote: bool) -> None:
        self._inner = inner
        self._tracing = tracing
        self._remote = remote
        self.host: str = getattr(inner, "host", "")

    async def request(self, request: wire.Request) -> wire.Response:
        span = self._start(request)
        try:
            response = await self._inner.request(_with_headers(request, {TRACEPARENT: _traceparent(span)}))
        except (ConnectionError, TimeoutError, asyncio.CancelledError) as error:
            _failed(span, error)
            raise
        else:
            _answered(span, response.status)
            return response
        finally:
            self._tracing.end(span)

    async def open(self, request: wire.Request) -> wire.Stream:
        """The span ends when the response begins: a watch may last for hours."""
        span = self._start(request)
        headers = {TRACEPARENT: _traceparent(span)}
        if self._remote:
            headers[WATCH_HEADER] = "true"
        try:
            stream = await self._inner.open(_with_headers(request, headers))
        except (ConnectionError, TimeoutError, asyncio.CancelledError) as error:
            _failed(span, error)
            raise
        else:
            _answered(span, stream.status)
            return TracedStream(stream, self._tracing) if self._remote and stream.status == 200 else stream
        finally:
            self._tracing.end(span)

    async def close(self) -> None:
        await self._inner.close()

    def _start(self, request: wire.Request) -> Span:
        path = request.target.partition("?")[0]
        attributes = {"http.request.method": request.method, "url.path": path}
        if self.host:
            attributes["server.address"] = self.host
        if request.method not in _READS and (cause := current_cause()) is not None:
            attributes |= {"controller": cause.component, "key": cause.key}
            if cause.decision:
                attributes["decision"] = cause.decision
        return self._tracing.start(f"HTTP {request.method}", attributes, parent=self._parent(), kind=SpanKind.CLIENT)

    def _parent(self) -> Context | None:
        """This task's span, or, for writes that are made later or outside a sync, the commit that caused it."""
        if current_context().is_valid:
            return None
        commits = commits_of(current_triggers(), self._tracing)
        return child_of(commits[0][1].context) if commits else None


def _with_headers(request: wire.Request, headers: Mapping[str, str]) -> wire.Request:
    return msgspec.structs.replace(request, headers={**request.headers, **headers})


def _traceparent(span: Span) -> str:
    return header_of(span.get_span_context())


def _answered(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= 400:
        span.set_status(Status(StatusCode.ERROR))


def _failed(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", type(error).__name__)
    span.set_status(Status(StatusCode.ERROR, str(error)[:MAX_TEXT]))
