"""Shared by all commands: parsing flags, configuring the log, running a coroutine until a signal, exit codes.

Exit codes: 0 success, also after a first SIGINT or SIGTERM (130 or 143 if the command was waiting for a result); 1 the
program failed; 2 the command line is invalid. A second signal ends the process immediately.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from pilothouse.api import packaged
from pilothouse.cli import standard_streams
from pilothouse.cli.terminal import escaped
from pilothouse.env import TaskGroup, logging, loops
from pilothouse.env.memory import LARGE, collecting_rarely, end_startup, return_large_blocks
from pilothouse.env.remaining_modules import load_remaining_modules
from pilothouse.env.signals import FirstSignal
from pilothouse.env.tasks import first_of
from pilothouse.machinery.flag_types import quoted
from pilothouse.machinery.flags import FlagError, FlagSet, Parsed
from pilothouse.serving.limits import allow_open_files


class UserError(Exception):
    """An error that the user can correct. Its text is printed without a traceback; ``code`` is the exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def joined(errors: "Sequence[UserError]") -> UserError:
    """One error for all of these, each on a line of its own as if it were the only one."""
    first, *_ = errors
    return UserError("\nError: ".join(map(str, errors)), first.code)


def parse(flags: FlagSet, program: str, args: Sequence[str], *, most: int = 0) -> Parsed | int:
    """The parsed flags, or the exit code if help was requested or the command line is invalid, including more than
    ``most`` positional arguments."""
    try:
        parsed = flags.parse(args)
    except FlagError as error:
        _print_error(str(error), program, 2)
        return 2
    if parsed.values["help"]:
        print(flags.help())
        return 0
    try:
        check_number(program, parsed.arguments, most)
    except UserError as error:
        _print_error(str(error), program, error.code)
        return error.code
    return parsed


def check_number(program: str, arguments: Sequence[str], most: int) -> None:
    """Raises ``UserError`` for more than ``most`` positional arguments."""
    if len(arguments) > most:
        noun, extra = "more arguments" if most else "arguments", arguments[most:]
        raise UserError(f'"{program}" does not take any {noun}, got [{" ".join(map(quoted, extra))}]', code=2)


def print_text(
    flags: FlagSet, program: str, args: Sequence[str], make: Callable[[Parsed], str], *, most: int = 0
) -> int:
    """Print the result of ``make`` for the command line, or its ``UserError``; for commands without an event loop."""
    parsed = parse(flags, program, args, most=most)
    if isinstance(parsed, int):
        return parsed
    try:
        print(make(parsed), end="")
    except UserError as error:
        _print_error(str(error), program, error.code)
        return error.code
    return 0


_START_SECONDS = 2.0
"""Seconds after which a program has started, on most machines. Objects created later are collected as usual."""
_NEW_OBJECTS = 5_000
"""The number of new objects after which the cyclic garbage collector runs, and ten times as many for the older
generation. Cycles left by an outage may stay until then: 50,000 objects, some megabytes."""


def serve(
    program: str,
    work: Coroutine[Any, Any, int],
    *,
    v: int,
    vmodule: Sequence[str] = (),
    json_lines: bool = False,
    streams: logging.Streams = logging.ONE_STREAM,
    waits: bool = False,
    large_block: int = LARGE,
) -> int:
    """Run a program on the real loop until it ends or a signal cancels it.

    ``program`` is the name of the command. ``waits``: it waits for a result, so that it fails after a signal, with 128
    and the number of the signal. ``vmodule`` has entries ``pattern=N``, ``streams`` are the targets of the log:
    standard error, unless it is split. ``large_block``: see ``return_large_blocks``.
    """
    patterns = [(pattern, int(level)) for pattern, _equals, level in (word.rpartition("=") for word in vmodule)]
    if streams.split and streams.info_buffer:
        work = _flushing(work, streams.flush_seconds)
    logging.configure(
        v=v,
        vmodule=patterns,
        json_lines=json_lines,
        info_stream=standard_streams.for_logs() if streams.split else None,
        info_buffer=streams.info_buffer,
    )
    allow_open_files()
    return_large_blocks(large_block)
    try:
        with collecting_rarely(older=False, new_objects=_NEW_OBJECTS):
            return loops.run(_until_signal(work, waits))
    except UserError as error:
        if json_lines:
            # In JSON too, for the collector of logs.
            logging.Log(program).error("command failed", error=error)
            return error.code
        _print_error(str(error), program, error.code)
        return error.code
    finally:
        logging.flush()


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """For a command without an event loop: SIGTERM ends it with 143, after it has cleaned up, as Ctrl-C does with
    130."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    old_handler = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old_handler)


async def _flushing(work: Coroutine[Any, Any, int], seconds: float) -> int:
    """Run the program, and flush the buffered log periodically."""
    async with TaskGroup("log") as group:
        group.start(_flush_every(seconds), name="flush the log")
        code = await work
        group.cancel()
    return code


async def _flush_every(seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        logging.flush()


def _print_error(message: str, program: str, code: int) -> None:
    hint = f'\nSee "{program} --help" for usage.' if code == 2 else ""
    lines = "\n".join(map(escaped, message.split("\n")))  # it may quote text from an API server
    print(f"Error: {lines}{hint}", file=sys.stderr)


async def _survive_its_files() -> None:
    """A program that runs on is neither changed by an upgrade of its files nor ended by their deletion."""
    await asyncio.sleep(_START_SECONDS)
    packaged.keep_open()
    await load_remaining_modules()


async def _until_signal(work: Coroutine[Any, Any, int], waits: bool) -> int:
    loop = asyncio.get_running_loop()
    loop.call_later(_START_SECONDS, end_startup)
    task = loop.create_task(work, name="program")
    loading = None if waits else loop.create_task(_survive_its_files(), name="modules")
    first: FirstSignal | None = None

    def on_signal(number: int) -> None:
        nonlocal first
        if first is None:
            first = FirstSignal(number)
            task.cancel()
        elif not first.is_repeated():
            os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    try:
        return await task
    except asyncio.CancelledError:
        if first is None:
            raise
        return 128 + first.number if waits else 0
    except BaseExceptionGroup as group:
        # Programs are nested task groups; show the first failure in them.
        raise first_of(group) from None
    finally:
        if loading is not None:
            loading.cancel()
