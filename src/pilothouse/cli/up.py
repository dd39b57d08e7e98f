"""``pilothouse up``: the whole plane in one process, in the foreground."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.cli.apiserver import gates_of, open_server, say_idle_gates, server_flags, start
from pilothouse.cli.clientside import PATHS, common_flags
from pilothouse.cli.nodes import node_flags, profile_from, stages_from
from pilothouse.cli.program import UserError, first_of, parse, serve
from pilothouse.env import Env, TaskGroup
from pilothouse.env.zones import local_zone
from pilothouse.machinery.flags import BOOL, DURATION, STRING, STRINGS, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.cli.manifests import Brought, Manifest
    from pilothouse.client import Client
    from pilothouse.plane.served import ServedApiServer

USAGE = """A Kubernetes control plane in one process: API server, controllers, scheduler and simulated nodes.

Usage:
  {program} [flags]
"""
_LOOK_SECONDS = 0.1


def run(program: str, words: Sequence[str]) -> int:
    """Run the plane until a signal, or with ``--wait`` until the manifests have converged."""
    parsed = parse(flag_set(program), program, words)
    if isinstance(parsed, int):
        return parsed
    # Whoever runs all of it wants to read about the rollout; the programs' own lines come with --v=1.
    return serve(program, _up(parsed), v=parsed["v"] - 1, stopped=130 if parsed["wait"] else 0)


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program))
    flags.add(
        "plane",
        Flag("filename", PATHS, (), "Manifest to bring into the cluster, - for standard input; repeatable", "f"),
        Flag("wait", BOOL, False, "End when the manifests have converged: 0 if they did, 1 if not in time"),
        Flag("timeout", DURATION, 60.0, "How long --wait waits"),
        Flag("controllers", STRINGS, ("*",), "Controllers to run, as kube-controller-manager's flag of that name"),
        Flag("no-manager", BOOL, False, "Leave the controllers to another program"),
        Flag("no-scheduler", BOOL, False, "Leave scheduling to another program"),
        Flag("no-metrics", BOOL, False, "Don't serve metrics.k8s.io, as a cluster without metrics-server"),
        Flag("no-storage", BOOL, False, "Make no default StorageClass and no volumes for claims"),
        Flag("no-cloud", BOOL, False, "Give Services of type LoadBalancer no address, as a cluster without a cloud"),
        Flag("in-memory", BOOL, False, "Keep nothing; the default unless --data-dir is given"),
        Flag("write-kubeconfig", STRING, "", "Also write the kubeconfig there, such as ~/.kube/config"),
    )
    server_flags(flags)
    node_flags(flags)
    common_flags(flags)
    return flags


async def _up(parsed: Parsed) -> int:
    from pilothouse.cli.manifests import load
    from pilothouse.cli.written_kubeconfig import write
    from pilothouse.runtime import LeadershipLost

    if parsed["in-memory"] and parsed["data-dir"]:
        raise UserError("--in-memory and --data-dir exclude each other", code=2)
    if parsed["wait"] and not parsed["filename"]:
        raise UserError("--wait needs a manifest to wait for: give -f", code=2)
    if not parsed["kubeconfig"]:
        raise UserError("--kubeconfig must name a file: without it nobody could log in", code=2)
    paths = _kubeconfigs(parsed)
    manifests = [manifest for path in parsed["filename"] for manifest in load(path)]
    env = Env(zone=local_zone())
    served = open_server(env, parsed, service_accounts=_makes_accounts(parsed))
    plane = _plane(env, served, parsed)
    code = 0
    try:
        async with TaskGroup("up") as group:
            await start(served)
            running = group.start(plane.run(), name="plane")
            for flag, path in paths.items():
                write(path, served.url, served.kubeconfig(), flag=flag)
            await plane.wait_ready()
            _say(_greeting(served, parsed, paths["--kubeconfig"]))
            code = await _bring_all(plane.client(agent="pilothouse-up"), manifests, parsed)
            if not parsed["wait"]:
                await asyncio.get_running_loop().create_future()
            running.cancel()
    except* LeadershipLost as lost:
        raise UserError(f"the manager has stopped, and everything with it: {first_of(lost)}") from None
    finally:
        # Last, so that the programs can still hand back what they hold: the manager releases its lease.
        await served.stop()
    return code


def _kubeconfigs(parsed: Parsed) -> dict[str, Path]:
    """The files to be written, by the flags that name them."""
    return {f"--{flag}": Path(parsed[flag]).expanduser() for flag in ("kubeconfig", "write-kubeconfig") if parsed[flag]}


def _makes_accounts(parsed: Parsed) -> bool:
    """Whether the controller runs without which the admission plugin ServiceAccount would refuse every pod."""
    from pilothouse.controllermanager.selection import Selection
    from pilothouse.controllers.identity.serviceaccount import DESCRIPTOR

    return not parsed["no-manager"] and Selection(parsed["controllers"]).enables(DESCRIPTOR)


def _plane(env: Env, served: "ServedApiServer", parsed: Parsed) -> Any:
    import socket

    from pilothouse.apiserver.resources import BEHIND_GATES
    from pilothouse.controllermanager.options import LeaderElection, Options, effective_gates, with_gates
    from pilothouse.controllermanager.root_authority import with_authority, with_signer, with_signing_authority
    from pilothouse.controllermanager.selection import unknown_names
    from pilothouse.controllers.registry import DESCRIPTORS
    from pilothouse.plane import Plane, PlaneOptions

    say_idle_gates(parsed, {*effective_gates(DESCRIPTORS), *BEHIND_GATES})
    unknown = unknown_names(parsed["controllers"], DESCRIPTORS)
    if unknown:
        raise UserError(f'"{unknown[0]}" is not in the list of known controllers', code=2)
    # Nobody else can have this data directory, so whoever held the lease under this name before is gone: a restart
    # takes it over at once, where a new name would wait for it to expire.
    identity = f"{socket.gethostname()}_pilothouse-up"
    manager = Options(
        controllers=parsed["controllers"],
        leader_election=LeaderElection(enabled=True),
        # What upstream grants is granted to controllers, not to the manager.
        use_service_account_credentials=parsed["authorization-mode"] == "RBAC",
    )
    manager = with_gates(manager, gates_of(parsed), DESCRIPTORS)
    if served.authority is not None:
        manager = with_authority(manager, served.authority.certificate)
        manager = with_signing_authority(manager, served.authority)
    manager = with_signer(manager, served.gateway.tokens.signer)
    options = PlaneOptions(
        nodes=parsed["nodes"],
        node_prefix=parsed["node-prefix"],
        profile=profile_from(parsed),
        stages=stages_from(parsed),
        resource_metrics=not parsed["no-metrics"],
        scheduler=not parsed["no-scheduler"],
        storage=not parsed["no-storage"],
        cloud=not parsed["no-cloud"],
        manager=None if parsed["no-manager"] else manager,
        manager_identity=identity,
    )
    return Plane(env, served.store, options, server=served.server)


def _greeting(served: "ServedApiServer", parsed: Parsed, path: Path) -> str:
    where = f"in {parsed['data-dir']}" if parsed["data-dir"] else "in memory"
    return (
        f"pilothouse is ready: API server {served.url}, {parsed['nodes']} nodes, kept {where}\n"
        f"  kubectl --kubeconfig {path} get nodes\n"
        "Ctrl-C stops it."
    )


async def _bring_all(client: "Client", manifests: Sequence["Manifest"], parsed: Parsed) -> int:
    from pilothouse.cli.manifests import bring

    brought = []
    for manifest in manifests:
        one = await bring(client, manifest)
        brought.append(one)
        _say(f"{_title(one)} {one.verb}")
        missing = _missing_controller(one, parsed)
        if missing:
            _say(f"{_title(one)}: nothing will happen to it, {missing} does not run here")
    if not brought:
        return 0
    shown: dict[int, str] = {}
    try:
        async with asyncio.timeout(parsed["timeout"] if parsed["wait"] else None):
            await _watch_rollout(client, brought, shown)
    except TimeoutError:
        left = "; ".join(f"{_title(brought[number])}: {text}" for number, text in sorted(shown.items()))
        _say(f"not converged after {parsed['timeout']:g} s: {left}")
        return 1
    _say("converged")
    return 0


def _missing_controller(one: "Brought", parsed: Parsed) -> str:
    """The controller that the object needs and that this plane does not start. Without a manager of its own the plane
    leaves that job to other programs."""
    from pilothouse.cli.rollout import CONTROLLER_OF
    from pilothouse.controllermanager.selection import Selection
    from pilothouse.controllers.registry import DESCRIPTORS

    needed = CONTROLLER_OF.get(one.kind.kind, "")
    selection = Selection(tuple(parsed["controllers"]))
    if parsed["no-manager"] or any(found.name == needed and selection.enables(found) for found in DESCRIPTORS):
        return ""
    return needed


async def _watch_rollout(client: "Client", brought: Sequence["Brought"], shown: dict[int, str]) -> None:
    """Show each object's progress when it changes; return when all are done. ``shown`` says what is not, and why."""
    import msgspec

    from pilothouse.cli.rollout import Progress, progress_of
    from pilothouse.client.errors import NotFound

    left = dict(enumerate(brought))
    while left:
        for number, one in list(left.items()):
            try:
                raw = await client.get(one.kind.raw, one.name, one.namespace)
                progress = progress_of(msgspec.json.decode(raw))
            except NotFound:
                progress = Progress("is gone", False)
            if shown.get(number) != progress.text:
                shown[number] = progress.text
                _say(f"{_title(one)}: {progress.text}")
            if progress.done:
                del left[number], shown[number]
        if left:
            await asyncio.sleep(_LOOK_SECONDS)


def _title(one: "Brought") -> str:
    name = f"{one.kind.group_resource}/{one.name}"
    return f"{name} in {one.namespace}" if one.namespace else name


def _say(text: str) -> None:
    print(text, flush=True, file=sys.stdout)
