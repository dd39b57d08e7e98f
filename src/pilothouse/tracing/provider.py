"""``Tracing``: starts the spans of one program, with the clock and the random numbers of its ``Env``.

The programs of one process have a ``Tracing`` each, since a span has the name of its service. They share a
``Pipeline``: the sampler, the processor of finished spans, and the commits from which syncs continue traces.
"""

import datetime
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, Sampler, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode

from pilothouse.env import Env
from pilothouse.tracing.commits import Commits
from pilothouse.tracing.config import MILLION, TracingConfiguration

SCOPE = "pilothouse"
MAX_TEXT = 500
"""The maximum length of an error or a decision in a span."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

Attributes = Mapping[str, str | bool | int | float]


class _Ids(IdGenerator):
    """Ids from a stream of their own: a seed repeats them, and nothing else changes with tracing."""

    def __init__(self, env: Env) -> None:
        self._bits = env.stream("tracing").getrandbits

    def generate_span_id(self) -> int:
        return self._bits(64) or 1

    def generate_trace_id(self) -> int:
        return self._bits(128) or 1

    def is_trace_id_random(self) -> bool:
        return True


def sampler_of(configuration: TracingConfiguration) -> Sampler:
    """As component-base's ``tracing.NewProvider``: sampled if the parent is, without a parent by ratio. The ratio is
    applied to the trace's id."""
    rate = configuration.sampling_rate_per_million or 0
    return ParentBased(TraceIdRatioBased(rate / MILLION) if rate > 0 else ALWAYS_OFF)


class Pipeline:
    """The shared part of all programs of one process. Finished spans go to ``processor``."""

    def __init__(self, env: Env, configuration: TracingConfiguration, processor: SpanProcessor) -> None:
        self.env = env
        self.commits = Commits()
        """The commits of this process' API server, or those that its watches have brought."""
        self._sampler = sampler_of(configuration)
        self._processor = processor
        self._ids = _Ids(env)
        self._services: dict[str, Tracing] = {}

    def service(self, name: str, attributes: Mapping[str, str] | None = None) -> "Tracing":
        """The ``Tracing`` of a program, the same one each time. ``attributes`` are added to its resource, besides the
        name of the service."""
        tracing = self._services.get(name)
        if tracing is None:
            provider = TracerProvider(
                sampler=self._sampler,
                resource=Resource.create({"service.name": name, **(attributes or {})}),
                shutdown_on_exit=False,
                id_generator=self._ids,
            )
            provider.add_span_processor(self._processor)
            tracing = self._services[name] = Tracing(self, provider.get_tracer(SCOPE))
        return tracing


class Tracing:
    """Traces one program."""

    def __init__(self, pipeline: Pipeline, tracer: trace.Tracer) -> None:
        self.pipeline = pipeline
        self.commits = pipeline.commits
        self._clock = pipeline.env.clock
        self._tracer = tracer

    def service(self, name: str) -> "Tracing":
        """The ``Tracing`` of another program of this process."""
        return self.pipeline.service(name)

    def now(self) -> int:
        """The time of the program's clock, in nanoseconds since the epoch."""
        return (self._clock.now() - _EPOCH) // _MICROSECOND * 1000

    def start(
        self,
        name: str,
        attributes: Attributes | None = None,
        *,
        parent: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        links: Sequence[Link] = (),
        at: int | None = None,
    ) -> Span:
        """Start a span now, or ``at``. Without ``parent`` it is a child of this task's span. ``end`` ends it."""
        above = trace.get_current_span(parent).get_span_context()
        if above.is_valid and not above.trace_flags.sampled:
            # The sampler would reject every child as well.
            return trace.NonRecordingSpan(above)
        return self._tracer.start_span(
            name, parent, kind, attributes, links, start_time=self.now() if at is None else at
        )

    def end(self, span: Span) -> None:
        """End the span now."""
        span.end(self.now())

    def within(self, span: Span) -> "Within":
        """Run a block as the work of the span, and end the span with it."""
        return Within(self, span)


class Within:
    """Make the span the current one of this task, and of all tasks that it creates, within a block. It ends with the
    block. An exception sets its error status, unless it is a response below 500. ``end=False``: it continues after the
    block."""

    __slots__ = ("_end", "_span", "_token", "_tracing")

    def __init__(self, tracing: Tracing, span: Span, *, end: bool = True) -> None:
        self._tracing = tracing
        self._span = span
        self._end = end

    def __enter__(self) -> Span:
        self._token = otel_context.attach(trace.set_span_in_context(self._span))
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        otel_context.detach(self._token)
        if error is not None:
            set_error(self._span, error)
        if self._end:
            self._tracing.end(self._span)


def set_error(span: Span, error: BaseException) -> None:
    """Set the span's error status, unless the error is a response for a mistake of the client."""
    code: Any = getattr(error, "code", None)
    if not isinstance(code, int) or code >= 500:
        span.set_status(Status(StatusCode.ERROR, (str(error) or type(error).__name__)[:MAX_TEXT]))


def current_context() -> SpanContext:
    """The context of this task's span; invalid if there is none."""
    return trace.get_current_span().get_span_context()


def child_of(parent: SpanContext) -> Context:
    """A context in which new spans are children of that one. They are roots, if it is invalid."""
    return trace.set_span_in_context(trace.NonRecordingSpan(parent), Context())
