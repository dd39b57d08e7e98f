"""The process for long expressions: ``python -m`` of this module, started and killed by ``sandbox``.

It reads one task after the other and responds with the compiled expression or the result, before that possibly with
authorization checks. It exits if a task needs too much CPU time or memory.
"""

import contextlib
import datetime
import pickle
import signal
import sys
import time  # noqa: TID251  # a worker process with a limit of its own
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import msgspec

from pilothouse.cel.authorizers import asking
from pilothouse.cel.environment import Environment, Program
from pilothouse.cel.limits import (
    COMPILE_SECONDS,
    COST_EXCEEDED,
    PER_CALL_LIMIT,
    TOO_LONG_TO_COMPILE,
    UNITS_PER_SECOND,
    Compiled,
    EvaluationError,
    Source,
    Task,
)
from pilothouse.cel.sandbox_frames import read_frame, write_frame
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    import resource

MEMORY_BYTES = 512 * 1024 * 1024
"""The memory limit of an evaluation."""
RESULT_BYTES = 4 * 1024 * 1024
"""The size limit of a result; objects have at most 3 MiB."""


def main(tasks: IO[bytes], answers: IO[bytes]) -> None:
    """Run tasks until the stream ends."""
    Environment({}).compile("[1].all(one, one > 0)").evaluate({})  # loads the library before the time is counted
    _limit_memory()
    write_frame(answers, b"")
    while (frame := read_frame(tasks)) is not None:
        task: Task | Source = pickle.loads(frame)  # noqa: S301  # written by the process that has started this one
        write_frame(answers, _compiled(task) if isinstance(task, Source) else _answer(task, tasks, answers))


def _compiled(source: Source) -> bytes:
    _end_after(COMPILE_SECONDS)
    try:
        return msgspec.msgpack.encode(_environment(*_key(source)).compiled(source))
    except MemoryError:
        return msgspec.msgpack.encode(Compiled(error=TOO_LONG_TO_COMPILE))
    finally:
        _end_after(0)


def _key(source: Source) -> tuple[bytes, bytes | None]:
    return pickle.dumps(source.variables), source.messages


@lru_cache(maxsize=4)
def _environment(variables: bytes, messages: bytes | None) -> Environment:
    """Cached, since a schema or policy may have many expressions."""
    return Environment(pickle.loads(variables), messages)  # noqa: S301  # written above


def _answer(task: Task, tasks: IO[bytes], answers: IO[bytes]) -> bytes:
    def ask(question: dict[str, str]) -> tuple[bool, str, str]:
        write_frame(answers, msgspec.msgpack.encode({"question": question}))
        reply = read_frame(tasks)
        if reply is None:
            raise SystemExit
        return msgspec.msgpack.decode(reply, type=tuple[bool, str, str])

    asking.set(ask)
    program = Program.of_task(task)
    _end_after(COMPILE_SECONDS)
    program.load()  # a part of compiling, which every caller pays
    started = time.process_time()
    _end_after(PER_CALL_LIMIT / UNITS_PER_SECOND)
    try:
        answer: dict[str, Any] = {"value": program.evaluate(task.values)}
        encoded = _encoded(answer, started)
        if len(encoded) > RESULT_BYTES:
            encoded = _encoded({"error": COST_EXCEEDED}, started)
    except EvaluationError as error:
        encoded = _encoded({"error": str(error)}, started)
    except MemoryError:
        encoded = _encoded({"error": COST_EXCEEDED}, started)
    finally:
        _end_after(0)
    return encoded


def _encoded(answer: dict[str, Any], started: float) -> bytes:
    return msgspec.msgpack.encode({**_with_durations(answer), "seconds": time.process_time() - started})


def _with_durations(value: Any) -> Any:
    """The value with durations in a decodable form; otherwise they would be encoded as strings."""
    match value:
        case dict():
            return {key: _with_durations(member) for key, member in value.items()}
        case list():
            return [_with_durations(member) for member in value]
        case None | bool() | int() | float() | str() | bytes() | bytearray() | datetime.datetime():
            return value
        case datetime.timedelta():
            return msgspec.msgpack.Ext(1, repr(value.total_seconds()).encode())
        case _:
            raise EvaluationError(f"a value of type {type(value).__name__.lower()} is of no use here")


def _end_after(seconds: float) -> None:
    """Limit the CPU time where the platform supports it; otherwise the parent kills the process."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_memory() -> None:
    with contextlib.suppress(OSError, ImportError):  # only Linux reports the memory in use
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(sys.stdin.buffer, sys.stdout.buffer)
