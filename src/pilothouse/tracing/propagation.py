"""W3C trace context in headers and watch events: https://www.w3.org/TR/trace-context/."""

import re
from collections.abc import Mapping

from opentelemetry import trace
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

TRACEPARENT = "traceparent"
WATCH_HEADER = "pilothouse-watch-traceparent"
"""Requests the ``traceparent`` of each event of a watch. Other API servers ignore it."""

_PROPAGATOR = TraceContextTextMapPropagator()
_is_traceparent = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})").fullmatch
_LONGEST = 1024
"""Characters of headers that are read."""


def header_of(context: SpanContext) -> str:
    """The span as a ``traceparent``."""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def current_header() -> str:
    """This task's span as a ``traceparent``."""
    return header_of(trace.get_current_span().get_span_context())


def read_headers(headers: Mapping[str, str]) -> SpanContext | None:
    """The parent span of a request, None if the header is missing or invalid."""
    text = headers.get(TRACEPARENT)
    if text is None or len(text) > _LONGEST or len(headers.get("tracestate", "")) > _LONGEST:
        return None
    # With the default context this task's span would be returned for an invalid header.
    context = trace.get_current_span(_PROPAGATOR.extract(headers, trace.set_span_in_context(trace.INVALID_SPAN)))
    parent = context.get_span_context()
    return parent if parent.is_valid else None


def read_traceparent(text: str) -> SpanContext | None:
    """The span of a watch event."""
    match = _is_traceparent(text)
    if match is None:
        return None
    parent = SpanContext(
        int(match[1], 16), int(match[2], 16), is_remote=True, trace_flags=TraceFlags(int(match[3], 16))
    )
    return parent if parent.is_valid else None
