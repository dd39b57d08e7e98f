"""``pilothouse record``: records a cluster to a file."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from pilothouse.cli.clientside import command_connection, command_flags, common_flags
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.snapshot import print_skipped
from pilothouse.cli.terminal import escaped
from pilothouse.env import Env
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, DURATION, INT, STRINGS, Flag, FlagSet, Parsed

with lazy_imports():
    from pilothouse.client import errors
    from pilothouse.snapshots import anonymizing, file_format, recording, saving

USAGE = """Records a cluster: saves everything that may be listed, and then records every change, until Ctrl-C, the
end of --for, or the maximum size. If the recorder is killed, the file can be read up to the last second.
`replay` serves it; `snapshot` and `up --snapshot` use the state at its beginning.

Usage:
  {program} FILE [flags]
"""
_MIB = 1 << 20


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "record",
        Flag("for", DURATION, 0.0, "How long to record; 0: until Ctrl-C"),
        Flag("max-mib", INT, 1024, "Size at which the recording ends, in MiB before compression"),
        Flag("include-secret-values", BOOL, False, "Record the values of Secrets, and not only their keys"),
        Flag("anonymize", BOOL, False, "Replace all user-chosen text; see snapshot save"),
        Flag("exclude", STRINGS, (), "Resources to leave out, such as events or leases"),
    )
    command_flags(flags, qps=50.0, burst=200)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Record."""
    parsed = parse(flag_set(program), program, args, most=1)
    if isinstance(parsed, int):
        return parsed
    # Ctrl-C is the usual end of a recording.
    return serve(program, _run(parsed, program), v=parsed["v"])


async def _run(parsed: Parsed, program: str) -> int:
    if len(parsed.arguments) != 1:
        raise UserError(f'expected "{program} FILE"', code=2)
    if parsed["for"] < 0 or parsed["max-mib"] < 1:
        raise UserError("--for must not be negative, and --max-mib must be positive", code=2)
    if parsed["anonymize"] and parsed["include-secret-values"]:
        raise UserError("--anonymize and --include-secret-values can't be used together", code=2)
    path, env = Path(parsed.arguments[0]), Env()
    exclude = tuple(parsed["exclude"]) + (("events",) if parsed["anonymize"] else ())
    options = recording.RecordOptions(
        save=saving.SaveOptions(
            secret_values=parsed["include-secret-values"],
            anonymize=anonymizing.Anonymizer() if parsed["anonymize"] else None,
            exclude=exclude,
        ),
        seconds=parsed["for"],
        max_bytes=parsed["max-mib"] * _MIB,
    )
    async with command_connection(parsed, env, "pilothouse-record") as (client, _info, _own):
        recorder = recording.Recorder(client, env, path, options)
        announcing = asyncio.get_running_loop().create_task(_announce(recorder, path))
        try:
            await recorder.run()
        except FileExistsError as error:
            raise UserError(f"{path} exists already: name another file") from error
        except (errors.ApiError, ConnectionError, TimeoutError) as error:
            raise UserError(f"nothing was recorded: {error}") from error
        except file_format.SnapshotError as error:
            raise UserError(escaped(str(error))) from error
        except OSError as error:
            raise _disk_error(path, error, recorder) from error
        except BaseExceptionGroup as group:
            disk_errors = group.subgroup(OSError)
            if disk_errors is None:
                raise
            raise _disk_error(path, _first(disk_errors), recorder) from group
        finally:
            announcing.cancel()
            if recorder.ready.is_set():
                full = "; it is full (--max-mib)" if recorder.full else ""
                counted = "1 change" if recorder.changes == 1 else f"{recorder.changes:,} changes"
                print(f"recorded {counted}, {recorder.size:,} bytes before compression{full}")
    return 0


async def _announce(recorder: "recording.Recorder", path: Path) -> None:
    await recorder.ready.wait()
    print_skipped(recorder.skipped, "can't be recorded")
    print(f"recording in {path}: {recorder.objects:,} objects to begin with. Ctrl-C ends it.", flush=True)


def _disk_error(path: Path, error: BaseException, recorder: "recording.Recorder") -> UserError:
    hint = f"; what was recorded until then is in it ({recorder.changes:,} changes)" if recorder.ready.is_set() else ""
    return UserError(f"{path}: {getattr(error, 'strerror', None) or error}{hint}")


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
