"""``pilothouse scheduler``: the scheduler in front of any API server."""

from collections.abc import Sequence

from pilothouse.cli.clientside import common_flags, connection_flags, wait
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.flags import STRING, Flag, FlagSet, Parsed

USAGE = """Binds pending pods to nodes that fit.

Usage:
  {program} [flags]
"""


def run(program: str, words: Sequence[str]) -> int:
    """Schedule until a signal."""
    flags = FlagSet(USAGE.format(program=program))
    flags.add("scheduler", Flag("scheduler-name", STRING, "default-scheduler", "Pods of this schedulerName are bound"))
    connection_flags(flags, qps=50.0, burst=100)
    common_flags(flags)
    parsed = parse(flags, program, words)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _schedule(parsed), v=parsed["v"])


async def _schedule(parsed: Parsed) -> int:
    from pilothouse.client import Client, default_user_agent
    from pilothouse.client.connect import connect
    from pilothouse.client.errors import ConfigError
    from pilothouse.runtime import InformerFactory
    from pilothouse.scheduler import Scheduler

    env = Env()
    try:
        transport = connect(env, kubeconfig=parsed["kubeconfig"], master=parsed["master"])
    except ConfigError as error:
        raise UserError(str(error)) from error
    client = Client(
        transport,
        env,
        qps=parsed["kube-api-qps"],
        burst=parsed["kube-api-burst"],
        user_agent=default_user_agent("pilothouse-scheduler"),
    )
    informers = InformerFactory(client, env)
    scheduler = Scheduler(env, client=client, informers=informers, scheduler_name=parsed["scheduler-name"])
    try:
        await wait(client, env)
        async with TaskGroup("scheduler program") as group:
            informers.start(group)
            group.start(scheduler.run(), name="scheduler")
    finally:
        await transport.close()
    return 0
