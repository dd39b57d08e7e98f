"""``pilothouse up``: the whole plane in one process, in the foreground."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pilothouse.cli import stored_nodes
from pilothouse.cli.apiserver import (
    administrators_kubeconfig,
    instance,
    open_server,
    server_flags,
    start,
    warn_of_idle_gates,
)
from pilothouse.cli.clientside import PATHS, common_flags, decision_log, traced
from pilothouse.cli.clusters.cluster import CLUSTER_VARIABLE
from pilothouse.cli.etcd_flags import etcd_arguments
from pilothouse.cli.nodes import node_flags
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.restored import RestoredCluster, restored_cluster
from pilothouse.client.decision_log_flags import add_decision_log_flags
from pilothouse.env import Env, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.memory import collecting_rarely
from pilothouse.env.zones import local_zone
from pilothouse.machinery.flags import BOOL, DURATION, INT, STRING, STRINGS, Flag, FlagSet, Parsed
from pilothouse.machinery.metrics import Registry
from pilothouse.plane.processes.failure import ProgramsFailed
from pilothouse.tracing.flags import APISERVER

if TYPE_CHECKING:
    from pilothouse.cli.manifests import AppliedObject
    from pilothouse.client.decision_log import DecisionLog
    from pilothouse.plane import Plane
    from pilothouse.plane.processes.split_plane import SplitPlane
    from pilothouse.plane.served import ServedApiServer

    AnyPlane = Plane | SplitPlane

with lazy_imports():
    import shlex
    import socket  # noqa: TID251  # the name of the host

    from pilothouse import ui
    from pilothouse.apiserver import resources
    from pilothouse.cli import (
        apply_manifests,
        held_lease,
        parent_process,
        plane_flags,
        rollout,
        written_kubeconfig,
    )
    from pilothouse.cli.clusters import sources
    from pilothouse.controllermanager import options as manager_options
    from pilothouse.controllermanager import selection as controller_selection
    from pilothouse.controllers import registry
    from pilothouse.controllers.identity import serviceaccount
    from pilothouse.plane import options as plane_options
    from pilothouse.plane import plane
    from pilothouse.plane import served as served_plane
    from pilothouse.plane.processes import messages, split_plane

EXIT_ON_STDIN_CLOSE = "exit-on-stdin-close"
_DIRECTORY_SECONDS = 5.0
"""Between two checks whether the directory of a cluster in the background is still there."""

USAGE = """A Kubernetes control plane in one process: API server, controllers, scheduler and simulated nodes.

Usage:
  {program} [flags]
"""


def run(program: str, args: Sequence[str]) -> int:
    """Run the plane until a signal, or with ``--wait`` until the manifests have converged."""
    parsed = parse(flag_set(program), program, args)
    if isinstance(parsed, int):
        return parsed
    # Users of `up` want the progress of the rollout; log lines of the programs need --v=1.
    with collecting_rarely(older=False):
        return serve(program, _up(parsed), v=parsed["v"] - 1, waits=parsed["wait"])


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    flags.add(
        "plane",
        Flag(
            "filename",
            PATHS,
            (),
            "Manifest, directory of manifests or URL, to apply; - for standard input; repeatable",
            "f",
        ),
        Flag("kustomize", STRING, "", "Directory with a kustomization to apply, which kubectl builds", "k"),
        Flag("recursive", BOOL, False, "Process the directories used in -f, --filename recursively", "R"),
        Flag(
            "wait",
            BOOL,
            False,
            "Exit when the applied objects are ready: with 0, or with 1 if they are not within --timeout",
        ),
        Flag("timeout", DURATION, 60.0, "How long --wait waits before it gives up"),
        Flag(
            EXIT_ON_STDIN_CLOSE,
            BOOL,
            False,
            "Exit when standard input, a pipe, is closed: when the process ends that has started this one",
        ),
        Flag("controllers", STRINGS, ("*",), "Controllers to run, in the syntax of kube-controller-manager's flag"),
        Flag("no-manager", BOOL, False, "Run no controllers"),
        Flag(
            "processes",
            INT,
            1,
            "Number of processes: 1, or 2 to run controllers, scheduler and nodes in a process of their own, on a "
            "second core",
        ),
        Flag("no-scheduler", BOOL, False, "Run no scheduler"),
        Flag("no-metrics", BOOL, False, "Don't serve metrics.k8s.io, like a cluster without metrics-server"),
        Flag("no-storage", BOOL, False, "Create no default StorageClass and provision no volumes"),
        Flag(
            "no-cloud",
            BOOL,
            False,
            "Assign no addresses to Services of type LoadBalancer, like a cluster without a cloud provider",
        ),
        Flag("ui", BOOL, False, "Serve a page that shows the cluster at /ui, and print a link to it"),
        Flag(
            "snapshot",
            STRING,
            "",
            "Start with the cluster of this file, which pilothouse snapshot save has written, and simulate its nodes",
        ),
        Flag(
            "etcd-snapshot",
            STRING,
            "",
            "Start with the cluster of this file, which etcdctl snapshot save has written, and simulate its nodes. Its "
            "keys are below --etcd-prefix, and --encryption-provider-config decrypts them",
        ),
        Flag("in-memory", BOOL, False, "Store the cluster in memory; the default without --data-dir"),
        Flag(
            "write-kubeconfig",
            STRING,
            "",
            "Add a context to this kubeconfig, such as ~/.kube/config, and make it the current one until exit",
        ),
    )
    server_flags(flags, service_range=plane_options.SERVICE_RANGE)
    add_decision_log_flags(flags)
    node_flags(flags)
    common_flags(flags)
    return flags


async def _up(parsed: Parsed) -> int:
    if parsed["in-memory"] and parsed["data-dir"]:
        raise UserError("--in-memory and --data-dir can't be used together", code=2)
    if parsed["in-memory"] and parsed["etcd-servers"]:
        raise UserError("--in-memory and --etcd-servers can't be used together", code=2)
    if parsed["wait"] and not parsed["filename"] and not parsed["kustomize"]:
        raise UserError("--wait needs manifests to wait for: use -f or -k", code=2)
    if "timeout" in parsed.given and not parsed["wait"]:
        raise UserError("--timeout is for --wait: without it the command runs until it is interrupted", code=2)
    if parsed["processes"] not in (1, 2):
        raise UserError(f"--processes must be 1 or 2, got {parsed['processes']}", code=2)
    if not parsed["kubeconfig"]:
        raise UserError("--kubeconfig must name a file: it contains the credentials of the administrator", code=2)
    if parsed[EXIT_ON_STDIN_CLOSE]:
        _end_with_parent(parsed)
    manifests = sources.manifests_of(parsed) if parsed["filename"] or parsed["kustomize"] else []
    try:
        async with running_plane(parsed) as running:
            # With --wait it is deleted when the manifests are ready: too soon to be used.
            line, *_ = running.greeting.split("\n")
            if not parsed["wait"]:
                line = f"{running.greeting}\n{_way_to_end(parsed)}"
            print(line, flush=True)
            try:
                code = await apply_manifests.apply_all(
                    running.plane.client(agent="pilothouse-up"),
                    manifests,
                    limit=parsed["timeout"] if parsed["wait"] else None,
                    missing_controller=lambda applied_object: _missing_controller(applied_object, parsed),
                )
            except UserError:
                print(_cleanup_message(parsed), flush=True)
                raise
            if not parsed["wait"]:
                await _until_ended(parsed)
    except asyncio.CancelledError:
        print(_cleanup_message(parsed), flush=True)
        raise
    return code


def _end_with_parent(parsed: Parsed) -> None:
    flag = f"--{EXIT_ON_STDIN_CLOSE}"
    if "-" in parsed["filename"]:
        raise UserError(f"{flag} and -f - can't be used together: both are about standard input", code=2)
    if not parent_process.has_pipe():
        raise UserError(f"{flag} needs a pipe as standard input, whose other end the parent process holds open", code=2)
    parent_process.end_with_standard_input(f"Standard input was closed: pilothouse up ends ({flag})")


async def _until_ended(parsed: Parsed) -> None:
    """Run until a signal ends it; a cluster in the background also ends when its directory is removed, because no
    command finds it any more. Raises ``UserError``."""
    if not os.environ.get(CLUSTER_VARIABLE):
        await asyncio.get_running_loop().create_future()
    directory = Path(parsed["kubeconfig"]).parent
    identity = _identity(directory)
    while True:
        await asyncio.sleep(_DIRECTORY_SECONDS)
        try:
            was_removed = _identity(directory) != identity
        except OSError:
            continue  # it can't be told, such as on a network file system without its server
        if was_removed:
            raise UserError(f"{directory} was removed while the cluster was running: it ends")


def _identity(directory: Path) -> tuple[int, int] | None:
    """The directory of that path, None if there is none. Another one may have taken its place."""
    try:
        status = directory.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _way_to_end(parsed: Parsed) -> str:
    """How it is stopped; in the background a cluster that is in memory is only deleted."""
    background = os.environ.get(CLUSTER_VARIABLE)
    if not background:
        return "Ctrl-C stops it."
    if parsed["in-memory"]:
        return f"`pilothouse delete cluster {background}` deletes it."
    return f"`pilothouse stop {background}` stops it."


def _cleanup_message(parsed: Parsed) -> str:
    """Cleanup after a signal has ended it."""
    directory, in_etcd = parsed["data-dir"], bool(parsed["etcd-servers"])
    if not directory and not in_etcd:
        return "pilothouse has stopped. The cluster was in memory, and is gone."
    command = f"pilothouse up --data-dir {directory}"
    if background := os.environ.get(CLUSTER_VARIABLE):
        command = f"pilothouse start {background}"
    elif in_etcd:
        command = shlex.join(["pilothouse", "up", *etcd_arguments(parsed)])
    return f"pilothouse has stopped. The cluster is kept{' in etcd' if in_etcd else ''}: `{command}` starts it again."


@contextlib.asynccontextmanager
async def running_plane(parsed: Parsed) -> AsyncIterator["RunningPlane"]:
    """The plane that the flags describe, ready, with its kubeconfig written. Raises ``UserError``."""
    parsed, restored = restored_cluster(parsed)
    metrics = Registry()
    async with (
        traced(parsed, Env(zone=local_zone()), APISERVER, instance(), metrics) as env,
        # Programs of another process record their writes there.
        decision_log(parsed, env, metrics) if parsed["processes"] == 1 else contextlib.nullcontext() as decisions,
    ):
        served = open_server(env, parsed, service_accounts=_creates_service_accounts(parsed), records=restored.records)
        if decisions is not None or env.tracing is not None:
            served.server.metrics_sources.append(metrics.exposition)
        plane = _plane(env, served, parsed, decisions, restored)
        async with _running(env, served, plane, parsed) as running:
            yield running


@contextlib.asynccontextmanager
async def _running(
    env: Env, served: "ServedApiServer", plane: "AnyPlane", parsed: Parsed
) -> AsyncIterator["RunningPlane"]:
    page = _page(env, served, plane) if parsed["ui"] else None
    try:
        async with contextlib.AsyncExitStack() as files, TaskGroup("up") as group:
            await start(served)
            surplus = stored_nodes.write_nodes(parsed) if stored_nodes.is_stored(parsed) else ()
            running = group.start(_run_plane(plane), name="plane")
            page_task = None if page is None else group.start(page.run(), name="page")
            path = await files.enter_async_context(administrators_kubeconfig(served, parsed))
            context = await _merge(files, served, parsed)
            await _wait_ready(plane, f"API server {served.url}\n  kubectl --kubeconfig {path} get nodes")
            if surplus:
                await stored_nodes.delete_nodes(plane.client(agent="pilothouse-up"), parsed, surplus)
            # The output of a cluster in the background is stored: `pilothouse ui` prints a link.
            link = "" if page is None or os.environ.get(CLUSTER_VARIABLE) else page.link(served.url)
            yield RunningPlane(plane, path, _ready_message(served, parsed, path, context, link, plane.node_names))
            running.cancel()
            if page_task is not None:
                page_task.cancel()
    finally:
        # Last, so that the programs can still release what they hold: the manager's lease.
        await served.stop()


async def _run_plane(plane: "AnyPlane") -> None:
    try:
        await plane.run()
    except ProgramsFailed as error:
        raise UserError(str(error)) from None


async def _wait_ready(plane: "AnyPlane", serving: str) -> None:
    manager = plane.options.manager
    if manager is None:
        await plane.wait_ready()
        return
    client = plane.client(agent="pilothouse-up")
    async with TaskGroup("readiness") as group:
        group.start(
            held_lease.report_held_lease(
                client, manager.leader_election, plane.options.manager_identity, f"pilothouse serves: {serving}"
            ),
            name="held lease",
        )
        await plane.wait_ready()
        group.cancel()


class RunningPlane(NamedTuple):
    """A plane, its kubeconfig, and the messages about both."""

    plane: "AnyPlane"
    kubeconfig: Path
    greeting: str


async def _merge(files: contextlib.AsyncExitStack, served: "ServedApiServer", parsed: Parsed) -> str:
    """Add a context to the user's kubeconfig if requested. Returns its name."""
    if not parsed["write-kubeconfig"]:
        return ""
    server = written_kubeconfig.Server(served.url, served.kubeconfig)
    return await files.enter_async_context(
        written_kubeconfig.merged_kubeconfig(Path(parsed["write-kubeconfig"]), server)
    )


def _creates_service_accounts(parsed: Parsed) -> bool:
    """Whether the controller runs that creates the default ServiceAccounts, without which the admission plugin
    ServiceAccount rejects every pod."""
    return not parsed["no-manager"] and controller_selection.Selection(parsed["controllers"]).enables(
        serviceaccount.DESCRIPTOR
    )


def _plane(
    env: Env,
    served: "ServedApiServer",
    parsed: Parsed,
    decisions: "DecisionLog | None",
    restored: RestoredCluster,
) -> "AnyPlane":
    warn_of_idle_gates(parsed, {*manager_options.effective_gates(registry.DESCRIPTORS), *resources.BEHIND_GATES})
    unknown = controller_selection.unknown_names(parsed["controllers"], registry.DESCRIPTORS)
    if unknown:
        hint = controller_selection.hint_of_controller(unknown[0], registry.DESCRIPTORS)
        raise UserError(f'"{unknown[0]}" is not in the list of known controllers{hint}', code=2)
    # The data directory is locked, so the previous holder of the lease with this name has ended: a restart takes it
    # over immediately, while a new name would wait until it expires. An etcd can have another `up` of this host.
    identity = f"{socket.gethostname()}_{env.uid() if parsed['etcd-servers'] else 'pilothouse-up'}"
    signer = served.handler_chain.tokens.signer
    options = plane_flags.plane_options(
        parsed, identity=identity, authority=served.authority, signer=signer, restored_nodes=restored.nodes
    )
    for unsupported in (
        manager_options.unsupported_gates(options.manager, registry.DESCRIPTORS) if options.manager else ()
    ):
        raise UserError(f"--feature-gates: {unsupported}", code=2)
    try:
        if parsed["processes"] == 1:
            return plane.Plane(env, served.store, options, server=served.server, decisions=decisions)
        start = messages.Start(
            words=tuple(f"--{name}={text}" for name, texts in parsed.texts.items() for text in texts),
            defaults=restored.defaults,
            nodes=restored.nodes,
            manager_identity=identity,
            authority=None if served.authority is None else (served.authority.certificate, served.authority.key),
            signing_key=signer.pem,
        )
        return split_plane.SplitPlane(env, options, served.server, start)
    except ValueError as error:
        raise UserError(f"--node-prefix: {error}", code=2) from error


def _page(env: Env, served: "ServedApiServer", plane: "AnyPlane") -> "ui.Page":
    """The page, for the administrator of the plane."""
    authenticator = served.handler_chain.authenticator

    def is_administrator(headers: Mapping[str, str], certificate: bytes | None) -> bool:
        return "system:masters" in authenticator.identity(headers, certificate).groups

    page = ui.Page(
        env,
        served.server.core,
        user=served_plane.ADMIN.user,
        client=plane.client(agent="pilothouse-ui"),
        is_administrator=is_administrator,
        names=(served.options.host, *served.options.extra_hosts),
        manager=plane.manager,
        decisions=getattr(plane.scheduler, "decisions", None),
    )
    served.mount(ui.PATH, page)
    return page


def _ready_message(
    served: "ServedApiServer", parsed: Parsed, path: Path, context: str, link: str, nodes: Sequence[str]
) -> str:
    location = f"in {parsed['data-dir']}" if parsed["data-dir"] else "in memory"
    if parsed["etcd-servers"]:
        location = f"in etcd at {', '.join(parsed['etcd-servers'])}"
    counted = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    merged = f"  kubectl --context {context} get nodes    # {parsed['write-kubeconfig']}, current\n" if context else ""
    return (
        f"pilothouse is ready: API server {served.url}, {counted}, stored {location}\n"
        f"  kubectl --kubeconfig {path} get nodes\n"
        f"{merged}"
        f"{f'  {link}    # opens the page; good for one login, within 10 minutes' if link else ''}"
    ).rstrip("\n")


def _missing_controller(applied_object: "AppliedObject", parsed: Parsed) -> str:
    """The controller that the object requires and that this plane does not run. Without a manager the plane leaves that
    to other programs."""
    needed = rollout.CONTROLLER_OF.get(applied_object.kind.kind, "")
    selection = controller_selection.Selection(tuple(parsed["controllers"]))
    if parsed["no-manager"] or any(
        descriptor.name == needed and selection.enables(descriptor) for descriptor in registry.DESCRIPTORS
    ):
        return ""
    return needed
