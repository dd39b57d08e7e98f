"""``pilothouse nodes``: simulated nodes in front of any API server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pilothouse.cli.clientside import common_flags, connection_flags, wait
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.env import Env, TaskGroup
from pilothouse.machinery.flags import DURATION, INT32, STRING, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.nodes import Profile

USAGE = """Simulated nodes: they register, heartbeat, and take the pods bound to them through their lives.

Usage:
  {program} [flags]
"""


def node_flags(flags: FlagSet) -> None:
    """Add the flags that say what nodes are like; ``up`` has them too."""
    flags.add(
        "nodes",
        Flag("nodes", INT32, 3, "How many nodes", shorthand="n"),
        Flag("node-prefix", STRING, "node-", "What their names begin with; a number follows"),
        Flag("pod-start-delay", DURATION, 0.3, "From a pod's acceptance to its containers running"),
        Flag("pod-ready-delay", DURATION, 0.0, "From there to Ready"),
        Flag("pod-stop-delay", DURATION, 1.0, "From a pod's deletion to its end, at most its grace period"),
        Flag("node-cpu", STRING, "32", "cpu of each node"),
        Flag("node-memory", STRING, "256Gi", "memory of each node"),
        Flag("node-pods", INT32, 110, "How many pods each node takes"),
    )


def run(program: str, words: Sequence[str]) -> int:
    """Simulate until a signal."""
    flags = FlagSet(USAGE.format(program=program))
    node_flags(flags)
    connection_flags(flags, qps=0.0, burst=0)
    common_flags(flags)
    parsed = parse(flags, program, words)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _simulate(parsed), v=parsed["v"])


async def _simulate(parsed: Parsed) -> int:
    from pilothouse.client import Client, default_user_agent
    from pilothouse.client.connect import connect
    from pilothouse.client.errors import ConfigError
    from pilothouse.nodes import NodeSimulator
    from pilothouse.runtime import InformerFactory

    env = Env()
    profile = profile_from(parsed)
    try:
        transport = connect(env, kubeconfig=parsed["kubeconfig"], master=parsed["master"])
    except ConfigError as error:
        raise UserError(str(error)) from error
    client = Client(
        transport,
        env,
        qps=parsed["kube-api-qps"],
        burst=parsed["kube-api-burst"],
        user_agent=default_user_agent("pilothouse-nodes"),
    )
    informers = InformerFactory(client, env)
    names = [f"{parsed['node-prefix']}{index}" for index in range(parsed["nodes"])]
    nodes = NodeSimulator(env, names=names, informers=informers, client_for=lambda _name: client, profile=profile)
    try:
        await wait(client, env)
        async with TaskGroup("nodes program") as group:
            informers.start(group)
            group.start(nodes.run(), name="nodes")
    finally:
        await transport.close()
    return 0


def profile_from(parsed: Parsed) -> "Profile":
    """What the flags say about nodes. Raises ``UserError``."""
    from pilothouse.machinery.quantities import QuantityError, parse_quantity
    from pilothouse.nodes import Profile

    if parsed["nodes"] < 0:
        raise UserError(f"--nodes must not be negative, got {parsed['nodes']}", code=2)
    for flag in ("node-cpu", "node-memory"):
        try:
            parse_quantity(parsed[flag])
        except QuantityError as error:
            raise UserError(f'invalid argument "{parsed[flag]}" for "--{flag}" flag: {error}', code=2) from error
    return Profile(
        cpu=parsed["node-cpu"],
        memory=parsed["node-memory"],
        pods=parsed["node-pods"],
        start_delay=parsed["pod-start-delay"],
        ready_delay=parsed["pod-ready-delay"],
        stop_delay=parsed["pod-stop-delay"],
    )
