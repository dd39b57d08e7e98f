"""The log backend: encodes and truncates events, and writes them, blocking or in batches.

After apiserver's ``plugin/pkg/audit/{log,truncate,buffered}`` (v0.36).
"""

import asyncio
from collections.abc import Callable

import msgspec

from pilothouse.apiserver.audit.event import Event, event_json, event_string
from pilothouse.apiserver.audit.metrics import AuditMetrics
from pilothouse.apiserver.audit.options import BATCH, BLOCKING_STRICT, JSON, AuditLogOptions
from pilothouse.env import Env
from pilothouse.env.log_files import open_sink
from pilothouse.env.log_writer import BatchConfig, Writer
from pilothouse.env.logging import Log

_log = Log("audit")

_WAIT_SECONDS = 30.0
"""How long a request waits for a disk that does not respond. Upstream has no limit."""
_LOG_SECONDS = 10.0
"""The minimum interval between log lines about the same failure; each failure counts in the metrics."""


class LogBackend:
    """Writes events to one log."""

    def __init__(self, env: Env, options: AuditLogOptions, metrics: AuditMetrics) -> None:
        """Opens the log. Raises ``OSError``."""
        self._env = env
        self._options = options
        self._metrics = metrics
        self._encode: Callable[[Event], bytes] = event_json if options.format == JSON else _legacy
        batch = options.batch
        if options.mode != BATCH:
            # Lines of blocking requests are in the same buffer, with the same limit.
            batch = BatchConfig(buffer_size=batch.buffer_size)
        elif not options.throttle:
            batch = msgspec.structs.replace(batch, throttle_qps=0.0)
        sink = open_sink(options.path, options.rotation, env.now)
        self._writer = Writer(sink, batch)
        self._logged_at: dict[str, float] = {}

    async def process_event(self, event: Event) -> bool:
        """Write an event. Returns False if it could not be written and the mode is blocking-strict."""
        truncated = self._truncated(event) if self._options.truncate else event
        if truncated is None:
            return True
        line = self._encode(truncated)
        if self._options.mode == BATCH:
            failure = self._writer.submit(line, lambda failure: self._handle_plugin_error("log", failure, truncated))
            self._handle_plugin_error("buffered", failure, truncated)
            return True
        written: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        failure = self._writer.submit(line, lambda failure: None if written.done() else written.set_result(failure))
        if not failure:
            await asyncio.wait((written,), timeout=_WAIT_SECONDS)
            if written.done():
                failure = written.result()
            else:
                written.cancel()
                failure = f"not written within {_WAIT_SECONDS:g}s"
        self._handle_plugin_error("log", failure, truncated)
        return not failure or self._options.mode != BLOCKING_STRICT

    async def close(self) -> None:
        """Write the remaining events."""
        await self._writer.close()

    def _truncated(self, event: Event) -> Event | None:
        """The event, without its objects if it is too large with them; None if it is too large without them."""
        limit = self._options.truncate_max_event_size
        if len(event_json(event)) > limit and event.may_have_objects:
            event = event.truncated()
        if len(event_json(event)) > limit:
            self._handle_plugin_error("truncate", "event is too large even after truncating", event)
            return None
        return event

    def _handle_plugin_error(self, plugin: str, failure: str, event: Event) -> None:
        """Count a failure (``HandlePluginError``), and log it with limited frequency."""
        if not failure:
            return
        self._metrics.errors.labels(plugin).inc()
        now = self._env.monotonic()
        if now >= self._logged_at.get(plugin, -_LOG_SECONDS) + _LOG_SECONDS:
            self._logged_at[plugin] = now
            text = f"Error in audit plugin '{plugin}' affecting 1 audit events: {failure}"
            _log.error(text, event=event_string(event))


def _legacy(event: Event) -> bytes:
    return f"{event_string(event)}\n".encode()
