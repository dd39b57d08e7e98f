"""``pilothouse replay``: an API server that replays a recording."""

import asyncio
import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from pilothouse.cli.apiserver import administrators_kubeconfig, open_server, server_flags, start
from pilothouse.cli.clientside import common_flags
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.snapshot import print_skipped
from pilothouse.cli.terminal import escaped
from pilothouse.env import Env, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, FLOAT, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.plane.served import ServedApiServer

with lazy_imports():
    from pilothouse.plane import options as plane_options
    from pilothouse.snapshots import file_format, replaying

USAGE = """Serves a recording of `record`: an API server that starts with the state of the recorded cluster, and applies
its changes. Controllers and nodes do not run.

Usage:
  {program} FILE [flags]
"""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "replay",
        Flag("speed", FLOAT, 1.0, "Seconds of the recording in a second; 0: as fast as possible"),
        Flag("exit", BOOL, False, "End when the recording is over, rather than serve its last state"),
    )
    server_flags(flags, service_range=plane_options.SERVICE_RANGE)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Replay."""
    parsed = parse(flag_set(program), program, args, most=1)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _run(parsed, program), v=parsed["v"])


async def _run(parsed: Parsed, program: str) -> int:
    if len(parsed.arguments) != 1:
        raise UserError(f'expected "{program} FILE"', code=2)
    speed = float(parsed["speed"])
    if not 0 <= speed < math.inf:
        raise UserError("--speed must not be negative", code=2)
    if parsed["data-dir"]:
        raise UserError("a replay is in memory: leave out --data-dir", code=2)
    path = parsed.arguments[0]
    try:
        replay = replaying.Replay(path)
    except file_format.SnapshotError as error:
        raise UserError(escaped(str(error))) from error
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    print_skipped(replay.restored.skipped, "is not in it")
    ranges = replay.restored.service_range
    if ranges and "service-cluster-ip-range" not in parsed.given:
        parsed = msgspec.structs.replace(parsed, values={**parsed.values, "service-cluster-ip-range": ranges})
    served = open_server(Env(), parsed, records=replay.restored.records)
    return await _serve(served, parsed, replay, speed or math.inf)


async def _serve(served: "ServedApiServer", parsed: Parsed, replay: "replaying.Replay", speed: float) -> int:
    try:
        async with contextlib.AsyncExitStack() as files, TaskGroup("replay") as group:
            await start(served)
            running = group.start(served.server.run(), name="API server")
            path = await files.enter_async_context(administrators_kubeconfig(served, parsed))
            await served.server.commit_bootstrap_objects()
            count = len(replay.restored.records)
            print(f"replaying from {count:,} objects at {served.url}", flush=True)
            print(f"  kubectl --kubeconfig {path} get pods -A --watch", flush=True)
            try:
                await replay.run(served.store, speed=speed)
            except file_format.SnapshotError as error:
                raise UserError(escaped(str(error))) from error
            position = replay.position
            cut = "" if replay.file.complete else "; the file ends there, in the middle of a change"
            print(f"replayed {position.changes:,} changes of {position.seconds:.0f} seconds{cut}", flush=True)
            if not parsed["exit"]:
                await asyncio.get_running_loop().create_future()
            running.cancel()
    finally:
        await served.stop()
    return 0
