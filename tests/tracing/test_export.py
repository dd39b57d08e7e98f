"""The thread that sends spans: its bounds, and failing collectors."""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from tests.tracing.collector import collecting

from pilothouse.env import Env
from pilothouse.machinery.metrics import Registry
from pilothouse.tracing import export
from pilothouse.tracing.config import TracingConfiguration
from pilothouse.tracing.export import Exporter, otlp_exporter
from pilothouse.tracing.provider import Pipeline, Tracing

pytestmark = pytest.mark.real_loop(timeout=30)


class Slow(SpanExporter):
    """Blocks until it is released."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.go_on.wait(20)
        self.spans += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.go_on.set()


class Failing(SpanExporter):
    """Rejects everything."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        """Nothing to release."""


class Raising(Failing):
    """Can't."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OverflowError("out of numbers")


def traced(exporter: Exporter, rate: int = 1_000_000) -> Tracing:
    return Pipeline(Env(), TracingConfiguration(sampling_rate_per_million=rate), exporter).service("apiserver")


def make(tracing: Tracing, count: int) -> None:
    for number in range(count):
        tracing.end(tracing.start(f"span {number}"))


async def test_spans_are_sent_with_service_times_and_attributes() -> None:
    with collecting() as collector:
        exporter = Exporter(otlp_exporter(f"127.0.0.1:{collector.port}"), "here")
        tracing = traced(exporter)
        span = tracing.start("Create", {"resource": "pods"}, at=tracing.now() - 2_000_000_000)
        tracing.end(span)
        await exporter.close()
    (received,) = collector.spans
    assert (received.service, received.name, received.attributes) == ("apiserver", "Create", {"resource": "pods"})
    assert 2.0 <= received.seconds < 4.0
    assert exporter.dropped == 0


async def test_unsampled_spans_are_not_sent() -> None:
    slow = Slow()
    exporter = Exporter(slow, "here")
    make(traced(exporter, rate=0), 10)
    await exporter.close()
    assert slow.spans == []
    assert exporter._thread is None, "none is started for nothing"


async def test_stuck_collector_drops_spans_without_blocking(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(export, "MAX_QUEUE", 100)
    monkeypatch.setattr(export, "LAST_SECONDS", 0.2)
    slow, registry = Slow(), Registry()
    exporter = Exporter(slow, "otel:4317", registry)
    tracing = traced(exporter)
    make(tracing, 1)
    await asyncio.sleep(export.DELAY_SECONDS + 0.3)  # it is being sent
    began = time.monotonic()
    make(tracing, 500)
    assert time.monotonic() - began < 2.0
    assert exporter.dropped == 400
    assert "pilothouse_tracing_dropped_spans_total 400" in registry.exposition()
    assert "pilothouse_tracing_spans_total 501" in registry.exposition()
    lost = [record for record in caplog.records if "Spans are lost" in record.getMessage()]
    assert len(lost) == 1, "not for each"
    began = time.monotonic()
    await exporter.close()
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize("failing", [Failing, Raising])
async def test_rejected_spans_are_counted(failing: type[SpanExporter], caplog: pytest.LogCaptureFixture) -> None:
    exporter = Exporter(failing(), "otel:4317")
    make(traced(exporter), 700)
    await exporter.close()
    await asyncio.sleep(0)
    assert exporter.dropped == 700
    assert len([record for record in caplog.records if "Spans are lost" in record.getMessage()]) == 1


async def test_exporter_library_does_not_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(export, "EXPORT_SECONDS", 1.0)
    caplog.set_level(logging.DEBUG)
    exporter = Exporter(otlp_exporter("127.0.0.1:1"), "127.0.0.1:1")
    make(traced(exporter), 3)
    await asyncio.sleep(export.DELAY_SECONDS + 1.5)
    await exporter.close()
    await asyncio.sleep(0)
    assert exporter.dropped == 3
    assert [record.name for record in caplog.records if record.name.startswith("opentelemetry.exporter")] == []
    logger = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
    assert exporter._is_foreign not in logger.filters, "it is taken back in the end"
