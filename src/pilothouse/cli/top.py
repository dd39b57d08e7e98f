"""``pilothouse top``: the cluster on the screen of a terminal."""

import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pilothouse.cli.clientside import command_connection, command_flags, common_flags
from pilothouse.cli.program import parse, serve
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import STRING, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.cli.screen.app import TopApp

with lazy_imports():
    from pilothouse.cli.screen import app

USAGE = """Shows the cluster on the screen of a terminal: nodes, workloads, pods, events, controllers, the scheduler.

Usage:
  {program} [flags]
"""
NEEDS_TEXTUAL = "pilothouse top needs Textual: pip install 'pilothouse[top]'"
_KEPT_LOG_LINES = 50


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "top",
        Flag("namespace", STRING, "", "Read only this namespace; all if empty", shorthand="n"),
        Flag(
            "at",
            STRING,
            "",
            "Start with a past state: a resourceVersion, a time such as 2026-01-01T00:00:00Z, or 5m for five minutes "
            "ago (times with pilothouse's API server only)",
        ),
    )
    command_flags(flags, qps=200.0, burst=400)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Show the cluster until the user quits."""
    parsed = parse(flag_set(program), program, args)
    if isinstance(parsed, int):
        return parsed
    try:
        app_class = app.TopApp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        print(f"Error: {NEEDS_TEXTUAL}", file=sys.stderr)
        return 1
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print("Error: pilothouse top needs a terminal; pilothouse get prints objects", file=sys.stderr)
        return 1
    return serve(program, _run(parsed, app_class), v=parsed["v"])


async def _run(parsed: Parsed, make: "type[TopApp]") -> int:
    env = Env()
    async with command_connection(parsed, env, "pilothouse-top") as (client, info, _own):
        screen = make(
            client,
            env,
            server=f"{info.endpoint.host}:{info.endpoint.port}",
            namespace=parsed["namespace"],
            fallback=info.namespace or "default",
            at=parsed["at"],
        )
        with _buffered_log() as lines:
            try:
                await screen.run_async()
            finally:
                log_lines = list(lines)
    for line in log_lines:
        print(line, file=sys.stderr)
    return screen.return_code or 0


@contextmanager
def _buffered_log() -> Iterator[deque[str]]:
    """Keep the log off the screen; its last lines are printed afterwards."""
    lines: deque[str] = deque(maxlen=_KEPT_LOG_LINES)
    root = logging.getLogger("pilothouse")
    old_handlers = root.handlers[:]
    handler = _BufferHandler(lines)
    if old_handlers:
        handler.setFormatter(old_handlers[0].formatter)
    root.handlers[:] = [handler]
    try:
        yield lines
    finally:
        root.handlers[:] = old_handlers


class _BufferHandler(logging.Handler):
    def __init__(self, lines: deque[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))
