"""Sends spans to a collector, in a thread.

The queue is bounded. If the collector is unavailable or slow, spans are dropped, counted and logged now and then; the
event loop never waits for it.
"""

import asyncio
import logging
import threading
from collections import deque

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from pilothouse.env import Log
from pilothouse.machinery.metrics import Registry

MAX_QUEUE = 8192
"""Spans that wait. A write of a busy control plane has some five."""
MAX_BATCH = 256
"""Encoding more at once would have the loop wait for the interpreter."""
DELAY_SECONDS = 1.0
"""How long a span waits until there is a batch of them."""
EXPORT_SECONDS = 10.0
"""The timeout for one batch, retries included; then it is dropped."""
LAST_SECONDS = 3.0
"""How long the program waits at its end for the remaining spans."""
_END_SECONDS = 1.0
_LOG_SECONDS = 60.0

_LIBRARY = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
"""The exporter's logger, which logs every attempt."""
_THREAD = "pilothouse-tracing"

_log = Log("tracing")


class Exporter(SpanProcessor):
    """Receives finished spans. The thread is started with the first one; ``close`` ends it."""

    def __init__(self, exporter: SpanExporter, endpoint: str, metrics: Registry | None = None) -> None:
        self._exporter = exporter
        self._endpoint = endpoint
        self._spans: deque[ReadableSpan] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._unreported = 0
        self._logged_at = float("-inf")
        self.dropped = 0
        """Spans that were lost."""
        registry = metrics or Registry()
        self._counted = registry.counter("pilothouse_tracing_spans_total", "Spans that were sampled.", ()).labels()
        self._counted_dropped = registry.counter(
            "pilothouse_tracing_dropped_spans_total",
            "Spans that were lost because the collector did not take them.",
            (),
        ).labels()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing to do yet."""

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a span. Called on the event loop; never waits."""
        context = span.context
        if context is None or not context.trace_flags.sampled:
            return
        self._counted.inc()
        with self._changed:
            if self._closing or len(self._spans) >= MAX_QUEUE:
                full = True
            else:
                full = False
                self._spans.append(span)
                if self._thread is None:
                    self._start()
                if len(self._spans) in (1, MAX_BATCH):
                    self._changed.notify()
        if full:
            self._lost(1)

    def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)
        _LIBRARY.addFilter(self._is_foreign)
        self._thread.start()

    def _is_foreign(self, record: logging.LogRecord) -> bool:
        """Whether a log line comes from another exporter. Failures of this one are logged by ``_lost``."""
        return record.threadName != _THREAD

    async def close(self) -> None:
        """Send the remaining spans. Gives up after some seconds if the collector does not respond."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, LAST_SECONDS)
        # Ends a running attempt.
        await asyncio.to_thread(self._exporter.shutdown)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _END_SECONDS)
        _LIBRARY.removeFilter(self._is_foreign)

    def shutdown(self) -> None:
        """``close`` does it."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Spans are sent at their time."""
        del timeout_millis
        return not self._spans

    def _run(self) -> None:
        while batch := self._next_batch():
            try:
                exported = self._exporter.export(batch) is SpanExportResult.SUCCESS
            except Exception as error:  # noqa: BLE001  # a thread that ends would lose all further spans
                exported = False
                _log.error("A batch of spans could not be encoded", error=error)
            if not exported:
                self._report(len(batch))

    def _next_batch(self) -> list[ReadableSpan]:
        """The next batch of spans; None when it is closed and all are sent."""
        with self._changed:
            while not self._spans and not self._closing:
                self._changed.wait()
            if len(self._spans) < MAX_BATCH and not self._closing:
                self._changed.wait(DELAY_SECONDS)
            return [self._spans.popleft() for _ in range(min(len(self._spans), MAX_BATCH))]

    def _report(self, count: int) -> None:
        assert self._loop is not None, "the first span brought it"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._lost, count)

    def _lost(self, count: int) -> None:
        """On the loop."""
        self.dropped += count
        self._unreported += count
        self._counted_dropped.inc(count)
        now = asyncio.get_running_loop().time()
        if now >= self._logged_at + _LOG_SECONDS:
            self._logged_at = now
            _log.error(
                "Spans are lost: the collector does not take them", endpoint=self._endpoint, spans=self._unreported
            )
            self._unreported = 0


def otlp_exporter(endpoint: str) -> SpanExporter:
    """To a collector that takes OTLP over gRPC, without TLS. Nothing is connected yet."""
    return OTLPSpanExporter(endpoint=endpoint, insecure=True, timeout=EXPORT_SECONDS)
