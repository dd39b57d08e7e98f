"""``pilothouse scheduler``: the scheduler against any API server."""

from collections.abc import Sequence

from pilothouse.cli.clientside import common_flags, connected, connection_flags, decision_log, traced
from pilothouse.cli.program import parse, serve
from pilothouse.client.decision_log_flags import add_decision_log_flags
from pilothouse.env import Env, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import STRING, Flag, FlagSet, Parsed
from pilothouse.tracing.flags import SCHEDULER, add_tracing_flags

with lazy_imports():
    from pilothouse.runtime import informer
    from pilothouse.scheduler import scheduler as scheduling

USAGE = """Schedules pods: assigns each pending pod to a node that fits.

Usage:
  {program} [flags]
"""


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "scheduler",
        Flag(
            "scheduler-name",
            STRING,
            "default-scheduler",
            "Name of the scheduler: it schedules the pods with this schedulerName",
        ),
    )
    connection_flags(flags, qps=50.0, burst=100)
    add_decision_log_flags(flags)
    add_tracing_flags(flags, "scheduler")
    common_flags(flags)
    return flags


def run(program: str, words: Sequence[str]) -> int:
    """Schedule until a signal."""
    parsed = parse(flag_set(program), program, words)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _schedule(parsed), v=parsed["v"])


async def _schedule(parsed: Parsed) -> int:
    async with (
        traced(parsed, Env(), SCHEDULER) as env,
        decision_log(parsed, env) as decisions,
        connected(parsed, env, "pilothouse-scheduler", decisions) as client,
    ):
        informers = informer.InformerFactory(client, env)
        scheduler = scheduling.Scheduler(
            env, client=client, informers=informers, scheduler_name=parsed["scheduler-name"]
        )
        async with TaskGroup("scheduler program") as group:
            informers.start(group)
            group.start(scheduler.run(), name="scheduler")
    return 0
