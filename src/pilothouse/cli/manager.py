"""``pilothouse manager``, also installed as ``kube-controller-manager``."""

import os
import sys
from collections.abc import Iterator, Sequence

from pilothouse.cli.program import UserError, parse, serve
from pilothouse.controllermanager import flags
from pilothouse.controllermanager.config_file import add_config
from pilothouse.controllermanager.feature_gates import warnings_of
from pilothouse.controllermanager.flags import options_from
from pilothouse.controllermanager.options import Options, effective_gates
from pilothouse.controllermanager.selection import unimplemented_names
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, Log, logging
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.memory import TLS_BUFFER
from pilothouse.env.tasks import first_of
from pilothouse.env.zones import local_zone
from pilothouse.machinery.flags import FlagError, FlagSet, Parsed

with lazy_imports():
    from pilothouse.cli import version_flag
    from pilothouse.client import errors
    from pilothouse.controllermanager import app
    from pilothouse.runtime import election
    from pilothouse.runtime import errors as runtime_errors
    from pilothouse.tracing import config as tracing_config
    from pilothouse.tracing import flags as tracing_flags


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    return flags.flag_set(program, DESCRIPTORS)


def run(program: str, args: Sequence[str]) -> int:
    """Manage until a signal. Exit codes as in ``program``; 1 also when the lease was lost."""
    flags = flag_set(program)
    parsed = parse(flags, program, args)
    if isinstance(parsed, int):
        return parsed
    if version := version_flag.version_text(parsed["version"]):
        print(version)
        return 0
    try:
        parsed = add_config(parsed, flags)
        options = options_from(parsed, DESCRIPTORS, flags)
    except FlagError as error:
        print(f'Error: {error}\nSee "{program} --help" for usage.', file=sys.stderr)
        return 2
    return serve(
        program,
        _manage(options, list(_warnings(parsed, flags, options))),
        v=options.v,
        vmodule=options.vmodule,
        json_lines=options.logging_format == "json",
        streams=options.log_streams,
        large_block=TLS_BUFFER,
    )


def _warnings(parsed: Parsed, flags: FlagSet, options: Options) -> Iterator[tuple[str, dict[str, str]]]:
    """Warnings about the command line: one line each, with its values."""
    for name in parsed.given:
        flag = flags.flag(name)
        if flag.deprecated:
            yield f"Flag --{flag.name} has been deprecated, {flag.deprecated}", {}
        elif flag.ignored:
            reason = flag.note.removeprefix("no effect").removeprefix(", ")
            yield (
                "Flag is accepted for compatibility and has no effect",
                {
                    "flag": f"--{flag.name}",
                    **({"because": reason} if reason else {}),
                },
            )
    for line in warnings_of(options.gates, effective_gates(DESCRIPTORS)):
        yield line, {}
    for name in unimplemented_names(options.controllers, DESCRIPTORS):
        yield "Controller is not part of this release and does not run", {"controller": name}


def _exit_immediately(lost: Exception) -> None:
    """Exit without waiting for running syncs: nothing may be written any more, and another process is about to start.
    ``klog.FlushAndExit`` in ``OnStoppedLeading`` (``cmd/kube-controller-manager/app/controllermanager.go``, v1.36)."""
    Log("controllermanager").error("leaderelection lost", error=lost)
    logging.flush()
    os._exit(1)


async def _manage(options: Options, warnings: Sequence[tuple[str, dict[str, str]]]) -> int:
    log = Log("controllermanager")
    log.info("Python settings", v=1, python=sys.version.split()[0], implementation=sys.implementation.name)
    for name, value in sorted(options.flag_values.items()):
        log.info("FLAG", v=1, name=f"--{name}", value=value)
    for message, values in warnings:
        log.warning(message, **values)
    try:
        await app.run(Env(zone=local_zone()), options, DESCRIPTORS, on_lost=_exit_immediately)
    except* (
        errors.ApiError,
        runtime_errors.CannotRun,
        errors.ConfigError,
        election.LeadershipLost,
        OSError,
        tracing_config.TracingError,
        tracing_flags.TracingUnavailable,
    ) as failed:
        # Alone, or in the exception groups of the tasks that ran at that moment.
        first = first_of(failed)
        raise UserError(str(first), code=2 if isinstance(first, tracing_config.TracingError) else 1) from None
    return 0
