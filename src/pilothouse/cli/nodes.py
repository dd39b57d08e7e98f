"""``pilothouse nodes``: simulated nodes against any API server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pilothouse.cli.clientside import PATHS, common_flags, connected, connection_flags, decision_log, traced
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.client.decision_log_flags import add_decision_log_flags
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, DURATION, INT32, STRING, Flag, FlagSet, Parsed
from pilothouse.tracing.flags import NODES, add_tracing_flags

if TYPE_CHECKING:
    from pilothouse.nodes import Profile
    from pilothouse.nodes.stages import Stage

with lazy_imports():
    import msgspec

    from pilothouse.machinery import names, quantities
    from pilothouse.nodes import driver as simulated_driver
    from pilothouse.nodes import profile, simulator, stages
    from pilothouse.runtime import informer

USAGE = """Simulated nodes: they register, send heartbeats, and simulate the lifecycle of the pods bound to them.

Usage:
  {program} [flags]
"""


_FIELDS = {
    "pod-start-delay": "start_delay",
    "pod-ready-delay": "ready_delay",
    "pod-stop-delay": "stop_delay",
    "pod-commands": "commands",
    "node-cpu": "cpu",
    "node-memory": "memory",
    "node-pods": "pods",
}
_EVENTS = {"auto": None, "true": True, "false": False}


def node_flags(flags: FlagSet) -> None:
    """Add the flags of nodes, which ``up`` has, too."""
    flags.add(
        "nodes",
        Flag("nodes", INT32, 3, "Number of nodes", shorthand="n"),
        Flag("node-prefix", STRING, "node-", "Prefix of the names of the nodes; a number follows"),
        Flag(
            "pod-start-delay", DURATION, 0.3, "Time until the containers of a pod that is bound to a node are running"
        ),
        Flag("pod-ready-delay", DURATION, 0.0, "Time until a pod whose containers are running is Ready"),
        Flag(
            "pod-stop-delay",
            DURATION,
            1.0,
            "Time until the containers of a deleted pod have ended, at most its grace period",
        ),
        Flag(
            "pod-commands",
            BOOL,
            True,
            "Simulate commands (sleep 5, exit 3), the completion of pods that are not restarted, and failed pulls of "
            "images (app:404)",
        ),
        Flag("node-cpu", STRING, "32", "CPU capacity of each node"),
        Flag("node-memory", STRING, "256Gi", "Memory capacity of each node"),
        Flag("node-pods", INT32, 110, "Number of pods that each node can run"),
        Flag("pod-profile", STRING, "quick", "Default delays of pods: instant, quick or lifelike"),
        Flag(
            "pod-events",
            STRING,
            "auto",
            "Send the events of the kubelet: true, false, or auto (only with up to 20 nodes)",
        ),
        Flag(
            "stages", PATHS, (), "File or directory with KWOK Stages that define how nodes and pods behave; repeatable"
        ),
    )


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    node_flags(flags)
    flags.add(
        "nodes",
        Flag(
            "storage", BOOL, False, "Provision volumes for claims, and create a default StorageClass if there is none"
        ),
        Flag("attach", BOOL, False, "With --storage: start pods only when a manager has had their volumes attached"),
    )
    connection_flags(flags, qps=0.0, burst=0)
    add_decision_log_flags(flags)
    add_tracing_flags(flags, "node")
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Simulate until a signal."""
    parsed = parse(flag_set(program), program, args)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _simulate(parsed), v=parsed["v"])


async def _simulate(parsed: Parsed) -> int:
    profile, stages = profile_from(parsed), stages_from(parsed)
    async with (
        traced(parsed, Env(), NODES) as env,
        decision_log(parsed, env) as decisions,
        connected(parsed, env, "pilothouse-nodes", decisions, log=Log("nodes")) as client,
    ):
        informers = informer.InformerFactory(client, env)
        names = [f"{parsed['node-prefix']}{index}" for index in range(parsed["nodes"])]
        nodes = simulator.NodeSimulator(
            env,
            names=names,
            informers=informers,
            client_for=lambda _name: client,
            profile=profile,
            stages=stages,
            storage=parsed["storage"],
        )
        async with TaskGroup("nodes program") as group:
            informers.start(group)
            group.start(nodes.run(), name="nodes")
            if parsed["storage"]:
                driver = simulated_driver.SimulatedDriver(
                    env, client=client, informers=informers, attach=parsed["attach"]
                )
                group.start(driver.run(), name="driver")
    return 0


def profile_from(parsed: Parsed) -> "Profile":
    """The nodes' settings from the flags: the profile with that name, changed by the given flags.

    Raises ``UserError``.
    """
    if parsed["nodes"] < 0:
        raise UserError(f"--nodes must not be negative, got {parsed['nodes']}", code=2)
    wrong = names.dns_subdomain_errors(f"{parsed['node-prefix']}0")
    if wrong:
        raise UserError(f'--node-prefix "{parsed["node-prefix"]}" can\'t begin the name of a node: {wrong[0]}', code=2)
    if parsed["pod-profile"] not in profile.PROFILES:
        raise UserError(
            f'--pod-profile must be one of {", ".join(profile.PROFILES)}, got "{parsed["pod-profile"]}"', code=2
        )
    if parsed["pod-events"] not in _EVENTS:
        raise UserError(f'--pod-events must be auto, true or false, got "{parsed["pod-events"]}"', code=2)
    if parsed["node-pods"] < 0:
        raise UserError(f"--node-pods must not be negative, got {parsed['node-pods']}", code=2)
    for flag in ("node-cpu", "node-memory"):
        try:
            if quantities.parse_quantity(parsed[flag]).mantissa < 0:
                raise UserError(f"--{flag} must not be negative, got {parsed[flag]}", code=2)
        except quantities.QuantityError as error:
            raise UserError(f'invalid argument "{parsed[flag]}" for "--{flag}" flag: {error}', code=2) from error
    settings = {field: parsed[flag] for flag, field in _FIELDS.items() if flag in parsed.given}
    return msgspec.structs.replace(
        profile.PROFILES[parsed["pod-profile"]], events=_EVENTS[parsed["pod-events"]], **settings
    )


def stages_from(parsed: Parsed) -> "tuple[Stage, ...]":
    """The stages of the files that the flags name. Raises ``UserError``."""
    if not parsed["stages"]:
        return ()
    try:
        return stages.load_stages(parsed["stages"])
    except stages.StageError as error:
        raise UserError(str(error), code=2) from error
