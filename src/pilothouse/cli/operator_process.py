"""The process of an operator under ``run --dev``: ``python -m pilothouse.cli.operator_process FILE [flags of run]``.

It loads the file and prints a ``Loaded`` as a line of JSON to standard output, waits for a line on standard input, runs
as ``pilothouse run``, and prints another line when ``/readyz`` is ready. It ends, as after SIGTERM, when standard input
is closed, so it never outlives ``run --dev``. Output of the operator goes to standard error. Exit code 1: the file
cannot be loaded; the error is on standard error.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from pilothouse.cli import run
from pilothouse.cli.blocked_loop import warn_when_blocked
from pilothouse.cli.dev_process import Loaded
from pilothouse.cli.operator_file import failure_text, file_and_name, load_app
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.env import Log, TaskGroup
from pilothouse.operator import Health

if TYPE_CHECKING:
    from pilothouse.machinery.flags import Parsed
    from pilothouse.operator import App

_INPUT, _OUTPUT, _ERRORS = 0, 1, 2
_LINE_BYTES = 4096
_POLL_SECONDS = 0.02


def main(args: Sequence[str]) -> int:
    """Load, report, wait, run. Returns the exit code."""
    # Before any code of the operator runs: its output must not be mixed with the report.
    report = os.dup(_OUTPUT)
    os.dup2(_ERRORS, _OUTPUT)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if "PYTHONBREAKPOINT" not in os.environ:
        sys.breakpointhook = _reject_breakpoint
    parsed = parse(run.flag_set("pilothouse run"), "pilothouse run", args, most=1)
    if isinstance(parsed, int):
        return parsed
    loaded = _load(parsed.arguments[0])
    if loaded is None:
        return 1
    app, definitions = loaded
    os.write(report, msgspec.json.encode(Loaded(app.name, definitions)) + b"\n")
    if not os.read(_INPUT, _LINE_BYTES):
        return 0
    return serve("pilothouse run", _run(app, parsed, report), v=parsed["v"], json_lines=run.writes_json(parsed))


def _reject_breakpoint(*_arguments: object, **_keywords: object) -> None:
    """Standard input is a pipe, and the terminal is the session's: pdb would end at once, again in each retry."""
    raise RuntimeError(
        "breakpoint() has no terminal under --dev: use it in a test, or in `pilothouse run` without --dev; "
        "PYTHONBREAKPOINT names a remote debugger"
    )


def _load(position: str) -> "tuple[App, list[dict[str, Any]]] | None":
    try:
        app = load_app(position)
        return app, app.definitions()
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever the author's code raises is the author's to read
        print(f"Error: {failure_text(error, file_and_name(position)[0].resolve().parent)}", file=sys.stderr)
    return None


async def _run(app: "App", parsed: "Parsed", report: int) -> int:
    loop, health = asyncio.get_running_loop(), Health()

    def on_input() -> None:
        if not os.read(_INPUT, _LINE_BYTES):
            loop.remove_reader(_INPUT)
            os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(_INPUT, on_input)
    async with TaskGroup("operator process") as group:
        group.start(_report_ready(health, report), name="report")
        folder = file_and_name(parsed.arguments[0])[0].resolve().parent
        group.start(warn_when_blocked(folder, Log(app.name)), name="blocked loop")
        code = await run.run_app(app, parsed, health)
        group.cancel()
    return code


async def _report_ready(health: Health, report: int) -> None:
    while health.waits_for():  # noqa: ASYNC110  # checks have no event
        await asyncio.sleep(_POLL_SECONDS)
    os.write(report, b"ready\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
