"""Spans of a plane in the process, and their chains."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pilothouse.env import Env
from pilothouse.tracing.config import TracingConfiguration
from pilothouse.tracing.provider import Pipeline

ALWAYS = 1_000_000


class Spans:
    """All finished spans."""

    def __init__(self, env: Env, rate: int | None = ALWAYS) -> None:
        self._exporter = InMemorySpanExporter()
        configuration = TracingConfiguration(sampling_rate_per_million=rate)
        self.pipeline = Pipeline(env, configuration, SimpleSpanProcessor(self._exporter))
        self.env = msgspec.structs.replace(env, tracing=self.pipeline.service("apiserver"))
        """The same world, traced."""

    @property
    def all(self) -> Sequence[ReadableSpan]:
        """In the order in which they have ended."""
        return self._exporter.get_finished_spans()

    def clear(self) -> None:
        """Remove all spans."""
        self._exporter.clear()

    def named(self, name: str, **attributes: Any) -> list[ReadableSpan]:
        """The spans with this name and these attributes, whose names have _ for -."""
        return [
            span
            for span in self.all
            if span.name == name
            and all((span.attributes or {}).get(key.replace("_", "-")) == value for key, value in attributes.items())
        ]

    def chain(self, span: ReadableSpan) -> list[ReadableSpan]:
        """From the root to the span. Fails if a parent is missing."""
        by_id = {id_of(item): item for item in self.all}
        result = [span]
        while result[0].parent is not None:
            parent = by_id.get(result[0].parent.span_id)
            assert parent is not None, f"the parent of {result[0].name} is not there"
            assert trace_of(parent) == trace_of(span), f"{parent.name} and {span.name} are of two traces"
            result.insert(0, parent)
        return result


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None, "a span that has ended has one"
    return span.context.span_id


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None, "a span that has ended has one"
    return span.context.trace_id


def service_of(span: ReadableSpan) -> str:
    return str(span.resource.attributes["service.name"])


def shown(spans: Sequence[ReadableSpan]) -> list[str]:
    """Service and name of each."""
    return [f"{service_of(span)}: {span.name}" for span in spans]


async def wait_until_idle(seconds: float = 30.0) -> None:
    """Wait until a plane in virtual time is idle."""
    await asyncio.sleep(seconds)
