"""Compiles and evaluates long expressions in a process that can be killed, so that the server is not blocked.

The process is started with the first such expression, and again after it had to be killed. It limits its own CPU time
and memory (``sandboxed``); ``Sandbox`` kills it if it does not respond.
"""

import asyncio
import datetime
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import msgspec

from pilothouse.cel.authorizers import Ask
from pilothouse.cel.limits import (
    COMPILE_SECONDS,
    COST_EXCEEDED,
    PER_CALL_LIMIT,
    TOO_LONG_TO_COMPILE,
    UNITS_PER_SECOND,
    Busy,
    Compiled,
    Evaluated,
    EvaluationError,
    Source,
    Task,
)
from pilothouse.cel.sandbox_frames import read_frame, write_frame

T = TypeVar("T")

_SECONDS = PER_CALL_LIMIT / UNITS_PER_SECOND
_PATIENCE_SECONDS = 6 * _SECONDS
"""The timeout of a response on a busy machine; the process counts its own CPU time."""
_COMPILE_PATIENCE_SECONDS = 4 * COMPILE_SECONDS
_START_SECONDS = 30.0
_MAX_WAITING = 8


class Sandbox:
    """Runs tasks one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._executor: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._stopped = False

    async def run(self, task: Task, authorize_check: Ask | None = None) -> Evaluated:
        """``evaluate`` off the event loop, on which ``authorize_check`` is called. Raises ``Busy``."""
        loop = asyncio.get_running_loop()
        return await self._off_loop(partial(self.evaluate, task, authorize_check and _on_loop(loop, authorize_check)))

    async def run_compile(self, source: Source) -> Compiled:
        """``compile`` off the event loop. Raises ``Busy``."""
        return await self._off_loop(partial(self.compile, source))

    async def _off_loop(self, function: Callable[[], T]) -> T:
        if self._waiting >= _MAX_WAITING:
            raise Busy
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="pilothouse-expressions")
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._executor, function)
        finally:
            self._waiting -= 1

    def compile(self, source: Source) -> Compiled:
        """The compiled expression, or the error; also if it takes too long."""
        with self._lock, self._patience(_COMPILE_PATIENCE_SECONDS) as process:
            try:
                return msgspec.msgpack.decode(_sent(process, pickle.dumps(source)), type=Compiled)
            except (OSError, EOFError):
                self._end()
                return Compiled(error=TOO_LONG_TO_COMPILE)
            except BaseException:
                self._end()  # the process still waits for a response
                raise

    def evaluate(self, task: Task, authorize_check: Ask | None = None) -> Evaluated:
        """The result of the evaluation; an exceeded cost limit if it needs too much time or memory."""
        with self._lock, self._patience(_PATIENCE_SECONDS) as process:
            try:
                return _evaluated(process, task, authorize_check)
            except EvaluationError as error:
                self._end()  # the process still waits for a response
                return Evaluated(error=str(error))
            except (OSError, EOFError):
                self._end()
                return Evaluated(error=COST_EXCEEDED, seconds=_SECONDS)
            except BaseException:
                self._end()  # the process still waits for a response
                raise

    @contextmanager
    def _patience(self, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
        """The process, which is killed after the timeout."""
        process = self._ready()
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield process
        finally:
            timer.cancel()

    def stop(self) -> None:
        """Kill the process for good."""
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()  # ends the read that waits for it
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        if self._stopped:
            raise RuntimeError("the server is stopping")
        self._is_ready = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pilothouse.cel.sandboxed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return self._process

    def _ready(self) -> subprocess.Popen[bytes]:
        """The process, after its imports."""
        process = self._process
        if process is None or process.poll() is not None:
            process = self._start()
        if self._is_ready:
            return process
        assert process.stdout is not None, "it is a pipe"
        timer = threading.Timer(_START_SECONDS, process.kill)
        timer.daemon = True
        timer.start()
        try:
            if read_frame(process.stdout) is None:
                process.kill()
                raise RuntimeError("the process for expressions does not start")
        finally:
            timer.cancel()
        self._is_ready = True
        return process

    def _end(self) -> None:
        """Kill the process and start the next one, since starting takes longer than most tasks."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        if not self._stopped:
            self._start()


def _evaluated(process: subprocess.Popen[bytes], task: Task, authorize_check: Ask | None) -> Evaluated:
    """Raises ``EOFError`` if the process has ended."""
    frame = _sent(process, pickle.dumps(task))
    while True:
        answer: dict[str, Any] = msgspec.msgpack.decode(frame, ext_hook=_decode_other)
        question = answer.get("question")
        if question is None:
            return Evaluated(**answer)
        reply = authorize_check(question) if authorize_check is not None else (False, "", "there is no authorizer here")
        frame = _sent(process, msgspec.msgpack.encode(reply))


def _sent(process: subprocess.Popen[bytes], message: bytes) -> bytes:
    """Send a message and return the response. Raises ``EOFError`` if the process has ended."""
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    write_frame(process.stdin, message)
    frame = read_frame(process.stdout)
    if frame is None:
        raise EOFError
    return frame


def _decode_other(code: int, data: memoryview) -> Any:
    assert code == 1, "only durations are sent that way"
    return datetime.timedelta(seconds=float(bytes(data)))


def _on_loop(loop: asyncio.AbstractEventLoop, authorize_check: Ask) -> Ask:
    """Call the authorizer on its event loop."""

    def checked(question: dict[str, str]) -> tuple[bool, str, str]:
        answer: Future[tuple[bool, str, str]] = Future()

        def give() -> None:
            try:
                answer.set_result(authorize_check(question))
            except Exception as error:  # noqa: BLE001  # raised in the waiting thread
                answer.set_exception(error)

        loop.call_soon_threadsafe(give)
        return answer.result(_PATIENCE_SECONDS)

    return checked
