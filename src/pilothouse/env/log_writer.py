"""Writes lines to the audit log in a thread, so that a slow or full disk only delays requests that wait for it.

The backend decides which requests wait. The buffer is limited in number and bytes; a line that does not fit is dropped,
and its event counted as failed.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable

import msgspec

from pilothouse.env.log_files import Sink

MAX_BYTES = 64 * 1024 * 1024
"""The limit of buffered bytes. Upstream only limits the number of events."""
_LAST_SECONDS = 5.0
"""How long shutdown waits for buffered lines."""

Written = Callable[[str], None]
"""Called on the loop with the error of writing a line, or an empty text."""


class BatchConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How lines are batched. Times are in seconds."""

    buffer_size: int = 10_000
    max_batch_size: int = 1
    max_batch_wait: float = 0.0
    """How long an incomplete batch waits, if the batch size is more than one."""
    throttle_qps: float = 0.0
    """Batches per second; 0 for no limit."""
    throttle_burst: int = 0


class Writer:
    """The writer of one log. The thread is started with the first line, on whose loop ``written`` is called."""

    def __init__(self, sink: Sink, config: BatchConfig, name: str = "audit") -> None:
        self._name = name
        self._sink = sink
        self._config = config
        self._lines: deque[tuple[bytes, Written]] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = False
        self._tokens = float(config.throttle_burst)
        self._refilled: float | None = None

    def submit(self, line: bytes, written: Written) -> str:
        """Enqueue a line; returns the reason if it is dropped, or an empty text. Never blocks."""
        with self._changed:
            if self._closing:
                return f"{self._name} backend shut down"
            if len(self._lines) >= self._config.buffer_size or self._size + len(line) > MAX_BYTES:
                return f"{self._name} buffer queue blocked"
            self._lines.append((line, written))
            self._size += len(line)
            if self._thread is None:
                self._loop = asyncio.get_running_loop()
                self._thread = threading.Thread(
                    target=self._run, name=f"pilothouse-{self._name.replace(' ', '-')}", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        return ""

    async def close(self) -> None:
        """Write the buffered lines, and close the log. Gives up after some seconds if the disk does not respond."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is None:
            self._sink.close()
        else:
            await asyncio.to_thread(self._thread.join, _LAST_SECONDS)

    def _run(self) -> None:
        while batch := self._next_batch():
            self._throttle()
            results = [(written, self._write(line)) for line, written in batch]
            self._report(results)
        self._sink.close()

    def _next_batch(self) -> list[tuple[bytes, Written]]:
        """The next lines to write; none when the log is closed and the buffer empty."""
        config = self._config
        with self._changed:
            while not self._lines and not self._closing:
                self._changed.wait()
            if config.max_batch_size > 1:
                deadline = self._time() + config.max_batch_wait
                while len(self._lines) < config.max_batch_size and not self._closing:
                    left = deadline - self._time()
                    if left <= 0 or not self._changed.wait(left):
                        break
            batch = [self._lines.popleft() for _ in range(min(len(self._lines), config.max_batch_size))]
            self._size -= sum(len(line) for line, _written in batch)
            return batch

    def _throttle(self) -> None:
        """Wait for a token of the bucket, unless the log is closed."""
        qps = self._config.throttle_qps
        if not qps:
            return
        with self._changed:
            while not self._closing:
                now = self._time()
                if self._refilled is not None:
                    self._tokens = min(self._tokens + (now - self._refilled) * qps, self._config.throttle_burst)
                self._refilled = now
                if self._tokens >= 1:
                    self._tokens -= 1
                    return
                self._changed.wait((1 - self._tokens) / qps)

    def _write(self, line: bytes) -> str:
        try:
            self._sink.write(line)
        except OSError as error:
            return error.strerror or str(error)
        except Exception as error:  # noqa: BLE001  # a thread that ends would leave every request waiting
            return f"{type(error).__name__}: {error}"
        return ""

    def _time(self) -> float:
        assert self._loop is not None, "the first line brought it"
        return self._loop.time()

    def _report(self, results: list[tuple[Written, str]]) -> None:
        assert self._loop is not None, "the first line brought it"
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(_call, results)


def _call(results: list[tuple[Written, str]]) -> None:
    for written, why in results:
        written(why)
