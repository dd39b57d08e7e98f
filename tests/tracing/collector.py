"""A collector that receives OTLP over gRPC, like ``otelcol``, and keeps all spans."""

import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class Received(NamedTuple):
    """One span."""

    service: str
    name: str
    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    attributes: dict[str, str]
    seconds: float


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps received spans. While ``stuck`` is set it does not respond."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.stuck = threading.Event()
        self.go_on = threading.Event()
        self.port = 0

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  # the name of the service's method
        """Accept a batch."""
        del context
        if self.stuck.is_set():
            self.go_on.wait(30)
        for resource in request.resource_spans:
            of_service = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [
                    Received(
                        of_service["service.name"],
                        span.name,
                        span.trace_id,
                        span.span_id,
                        span.parent_span_id,
                        {attribute.key: attribute.value.string_value for attribute in span.attributes},
                        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                    )
                    for span in scope.spans
                ]
        return trace_service_pb2.ExportTraceServiceResponse()

    def chain(self, span: Received) -> list[Received]:
        """From the root to the span, as far as its parents were received."""
        by_id = {item.span_id: item for item in self.spans}
        result = [span]
        while (parent := by_id.get(result[0].parent_id)) is not None:
            result.insert(0, parent)
        return result


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector on a free port of this machine."""
    collector = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=4))
    add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server  # it has no types
    add(collector, server)
    collector.port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector
    finally:
        collector.go_on.set()
        server.stop(None).wait(10)
