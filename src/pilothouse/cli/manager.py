"""``pilothouse manager``, also installed as ``kube-controller-manager``."""

import sys
from collections.abc import Sequence

import pilothouse
from pilothouse.cli.program import UserError, first_of, parse, serve
from pilothouse.controllermanager.options import Options, flag_set, options_from
from pilothouse.controllermanager.selection import absent_names
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env import Env, Log
from pilothouse.machinery.flags import FlagError


def run(program: str, words: Sequence[str]) -> int:
    """Manage until a signal. Exit codes as in ``program``; 1 also when the lease was lost."""
    flags = flag_set(program, DESCRIPTORS)
    parsed = parse(flags, program, words)
    if isinstance(parsed, int):
        return parsed
    if parsed["version"]:
        print(f"Kubernetes {pilothouse.KUBERNETES_VERSION}+pilothouse.{pilothouse.__version__}")
        return 0
    try:
        options = options_from(parsed, DESCRIPTORS)
    except FlagError as error:
        print(f'Error: {error}\nSee "{program} --help" for usage.', file=sys.stderr)
        return 2
    ignored = [f"--{flags.flag(name).name}" for name in parsed.given if flags.flag(name).ignored]
    return serve(program, _manage(options, ignored), v=options.v)


async def _manage(options: Options, ignored: Sequence[str]) -> int:
    from pilothouse.client.errors import ApiError, ConfigError
    from pilothouse.controllermanager import app
    from pilothouse.runtime import LeadershipLost
    from pilothouse.runtime.guards import CannotRun

    log = Log("controllermanager")
    for flag in ignored:
        log.warning("Flag is accepted for compatibility and has no effect", flag=flag)
    for name in absent_names(options.controllers, DESCRIPTORS):
        log.warning("Controller is not part of this release and does not run", controller=name)
    try:
        await app.run(Env(), options, DESCRIPTORS)
    except* (ApiError, CannotRun, ConfigError, LeadershipLost, OSError) as failed:
        # Alone, or in the groups of those who led or served at that moment.
        raise UserError(str(first_of(failed))) from None
    return 0
