"""``pilothouse manager``, also installed as ``kube-controller-manager``."""

import sys
from collections.abc import Sequence

import pilothouse
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.controllermanager.options import Options, flag_set, options_from
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
        print(f"Error: {error}", file=sys.stderr)
        return 1
    ignored = [name for name in parsed.given if flags.flag(name).ignored]
    return serve(_manage(options, ignored), v=options.v)


async def _manage(options: Options, ignored: Sequence[str]) -> int:
    from pilothouse.client.errors import ConfigError
    from pilothouse.controllermanager import app
    from pilothouse.runtime import LeadershipLost

    log = Log("controllermanager")
    for name in ignored:
        log.warning("Flag is accepted for compatibility and has no effect", flag=f"--{name}")
    try:
        await app.run(Env(), options, DESCRIPTORS)
    except (ConfigError, LeadershipLost, OSError) as error:
        raise UserError(str(error)) from error
    return 0
