"""``pilothouse scheduler``: the scheduler against any API server, with ``--leader-elect`` one of several."""

import socket  # noqa: TID251  # the name of the host
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pilothouse.cel.sandbox_on_demand import SandboxOnDemand
from pilothouse.cli.clientside import (
    common_flags,
    connected,
    connection_flags,
    decision_log,
    election_flags,
    traced,
)
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.client.decision_log_flags import add_decision_log_flags
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.tasks import first_of
from pilothouse.machinery.flags import STRING, Flag, FlagSet, Parsed
from pilothouse.tracing.flags import SCHEDULER, add_tracing_flags

if TYPE_CHECKING:
    from pilothouse.client import Client

with lazy_imports():
    from pilothouse.runtime import election, events, informer
    from pilothouse.runtime import errors as runtime_errors
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
    election_flags(
        flags,
        "Schedule pods",
        Flag("leader-elect-resource-name", STRING, "kube-scheduler", "Name of the Lease"),
        Flag("leader-elect-resource-namespace", STRING, "kube-system", "Namespace of the Lease"),
    )
    connection_flags(flags, qps=50.0, burst=100)
    add_decision_log_flags(flags)
    add_tracing_flags(flags, "scheduler")
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Schedule until a signal."""
    parsed = parse(flag_set(program), program, args)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _schedule(parsed), v=parsed["v"])


async def _schedule(parsed: Parsed) -> int:
    async with (
        traced(parsed, Env(), SCHEDULER) as env,
        decision_log(parsed, env) as decisions,
        connected(parsed, env, "pilothouse-scheduler", decisions, log=Log("scheduler")) as client,
    ):
        if parsed["leader-elect"]:
            await _elect(parsed, env, client)
        else:
            await _run(parsed, env, client)
    return 0


async def _elect(parsed: Parsed, env: Env, client: "Client") -> None:
    """Schedule while this process holds the Lease; then the program ends, as kube-scheduler's
    (``cmd/kube-scheduler/app/server.go``, v1.36)."""
    recorder = events.EventRecorder(client, env, parsed["scheduler-name"])
    fence = election.Fence(env)
    try:
        elector = election.LeaderElector(
            client,
            env,
            identity=f"{socket.gethostname()}_{env.uid()}",
            name=parsed["leader-elect-resource-name"],
            namespace=parsed["leader-elect-resource-namespace"],
            lease_duration_seconds=parsed["leader-elect-lease-duration"],
            renew_deadline_seconds=parsed["leader-elect-renew-deadline"],
            retry_period_seconds=parsed["leader-elect-retry-period"],
            fence=fence,
            recorder=recorder,
        )
    except ValueError as error:
        raise UserError(str(error), code=2) from error
    async with TaskGroup("leader election") as group:
        group.start(recorder.run(), name="leader election events")
        try:
            await elector.run(lambda: _run(parsed, env, client.fenced(fence.check)))
        except* (election.LeadershipLost, runtime_errors.LostLease) as lost:
            raise UserError(f"leaderelection lost: {first_of(lost)}") from lost
        group.cancel()


async def _run(parsed: Parsed, env: Env, client: "Client") -> None:
    """Schedule until cancelled."""
    informers, expressions = informer.InformerFactory(client, env), SandboxOnDemand()
    scheduler = scheduling.Scheduler(
        env,
        client=client,
        informers=informers,
        scheduler_name=parsed["scheduler-name"],
        expressions=expressions.get,
    )
    try:
        async with TaskGroup("scheduler program") as group:
            informers.start(group)
            group.start(scheduler.run(), name="scheduler")
    finally:
        expressions.stop()
