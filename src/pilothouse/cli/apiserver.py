"""``pilothouse apiserver``: only the embedded API server."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pilothouse.cli import admission_config
from pilothouse.cli.audit_flags import add_audit_flags, audit_options
from pilothouse.cli.clientside import common_flags, traced
from pilothouse.cli.clusters.cluster import CLUSTER_VARIABLE
from pilothouse.cli.etcd_flags import add_etcd_flags, check_files, etcd_options, missing_extra
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.env import Env, TaskGroup
from pilothouse.env.bounded_files import read_text
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.durations import format_duration
from pilothouse.machinery.flag_types import MULTIMAP
from pilothouse.machinery.flags import DURATION, INT, STRING, STRINGS, Flag, FlagError, FlagSet, Parsed
from pilothouse.machinery.metrics import Registry
from pilothouse.storage.errors import StoreUnavailable
from pilothouse.storage.quota import DEFAULT_QUOTA_BYTES
from pilothouse.tracing.flags import APISERVER, add_tracing_flags

if TYPE_CHECKING:
    from pilothouse.controllermanager.feature_gates import FeatureGates
    from pilothouse.plane.served import ServedApiServer
    from pilothouse.storage import Record

with lazy_imports():
    from pilothouse.apiserver import options as server_options
    from pilothouse.apiserver import resources
    from pilothouse.apiserver.admission import built_in, names
    from pilothouse.apiserver.audit import options as audit_log_options
    from pilothouse.apiserver.authentication import authenticator
    from pilothouse.apiserver.controllers import identity_lease
    from pilothouse.apiserver.encryption_config import types as encryption_config
    from pilothouse.apiserver.registry.core.services import allocators
    from pilothouse.cli import written_kubeconfig
    from pilothouse.controllermanager import feature_gates
    from pilothouse.plane import served


USAGE = """An API server that needs no etcd: it stores objects in memory, in one SQLite file, or in etcd.

Usage:
  {program} [flags]
"""
KUBECONFIG = ".pilothouse/kubeconfig"
ANY_PORT = -1
HISTORY_SECONDS = 3600.0
STORED_HISTORY_SECONDS = 24 * 3600.0
"""With a data directory."""
HISTORY_BYTES = 128 * 1024 * 1024
MIN_HISTORY_BYTES = 1024 * 1024
_MIN_QUOTA_BYTES = 1024 * 1024


def server_flags(flags: FlagSet, *, service_range: str = "10.0.0.0/24") -> None:
    """Add the flags for serving the API, which ``up`` has, too. ``service_range`` is the default of
    ``--service-cluster-ip-range``; by default kube-apiserver's."""
    flags.add(
        "API server",
        Flag("bind-address", STRING, "127.0.0.1", "Address to listen on"),
        Flag("port", INT, ANY_PORT, "Port to listen on; 0: any free port, -1: 6443 or the next free port"),
        Flag("data-dir", STRING, "", "Directory to store the cluster in; empty: store it in memory"),
        Flag("token-auth-file", STRING, "", "CSV file with the tokens of further users: token,user,uid,groups"),
        Flag(
            "authorization-mode",
            STRING,
            "AlwaysAllow",
            "Authorization mode: AlwaysAllow or RBAC, which is kube-apiserver's Node,RBAC",
        ),
        Flag("enable-admission-plugins", STRINGS, (), "Admission plugins to enable in addition to the default ones"),
        Flag("disable-admission-plugins", STRINGS, (), "Admission plugins to disable"),
        Flag(admission_config.FLAG, STRING, "", admission_config.HELP),
        Flag(
            "replica-lag",
            DURATION,
            0.0,
            "Delay of watches and of lists from the watch cache, to test clients with a lagging API server",
        ),
        Flag(
            "history-retention",
            DURATION,
            HISTORY_SECONDS,
            "How long the history of changes is kept; requests for older resource versions get 410. With --data-dir "
            f"the default is {format_duration(STORED_HISTORY_SECONDS)}",
        ),
        Flag(
            "history-max-bytes",
            INT,
            HISTORY_BYTES,
            "Maximum size of the history in bytes; one resource may use a quarter. The resource with the largest "
            "history loses its oldest changes first",
        ),
        Flag(
            "quota-backend-bytes",
            INT,
            0,
            "Reject writes when the objects exceed the given quota. 0 means use the default quota, 2 GiB. On etcd its "
            "own flag applies",
        ),
        Flag(
            "service-cluster-ip-range",
            STRING,
            service_range,
            "CIDRs from which to assign service cluster IPs: one, or one of each IP family",
        ),
        Flag(
            "feature-gates",
            MULTIMAP,
            {},
            "Pairs of gate=true|false with the names of Kubernetes v1.36. DRAResourcePoolStatus, "
            "MaxUnavailableStatefulSet and StorageVersionMigrator add resources or fields to the API server, and "
            "controllers to `up`",
        ),
        Flag("kubeconfig", STRING, KUBECONFIG, "Write a kubeconfig with administrator rights to this file"),
    )
    add_etcd_flags(flags)
    add_audit_flags(flags)
    add_tracing_flags(flags, "apiserver")


def flag_set(program: str) -> FlagSet:
    """Every flag of the command."""
    flags = FlagSet(USAGE.format(program=program), plain=True)
    server_flags(flags)
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Serve until a signal."""
    parsed = parse(flag_set(program), program, args)
    if isinstance(parsed, int):
        return parsed
    return serve(program, _serve(parsed), v=parsed["v"])


async def _serve(parsed: Parsed) -> int:
    metrics = Registry()
    async with traced(parsed, Env(), APISERVER, instance(), metrics) as env:
        served = open_server(env, parsed)
        if env.tracing is not None:
            served.server.metrics_sources.append(metrics.exposition)
        return await _serve_opened(served, parsed)


def instance() -> dict[str, str]:
    """The resource attributes of spans, in addition to the service name."""
    return {"service.instance.id": identity_lease.own_name()}


async def _serve_opened(served: "ServedApiServer", parsed: Parsed) -> int:
    warn_of_idle_gates(parsed, resources.BEHIND_GATES)
    try:
        async with contextlib.AsyncExitStack() as files, TaskGroup("API server program") as group:
            await start(served)
            group.start(served.server.run(), name="API server")
            path = await files.enter_async_context(administrators_kubeconfig(served, parsed))
            print(f"API server ready at {served.url}\n  kubectl --kubeconfig {path} get namespaces", flush=True)
            await asyncio.get_running_loop().create_future()
    finally:
        await served.stop()
    return 0


def administrators_kubeconfig(
    served: "ServedApiServer", parsed: Parsed
) -> "contextlib.AbstractAsyncContextManager[Path]":
    """The file that ``--kubeconfig`` names, or one next to it; kept as long as the server, or its data directory."""
    server = written_kubeconfig.Server(served.url, served.kubeconfig)
    return written_kubeconfig.own_kubeconfig(
        Path(parsed["kubeconfig"]),
        server,
        explicit="kubeconfig" in parsed.given,
        kept=bool(parsed["data-dir"]),
        exclusive=bool(os.environ.get(CLUSTER_VARIABLE)),  # it is in the directory of the cluster
    )


def authorization_modes(parsed: Parsed) -> str:
    """``AlwaysAllow``, or ``Node,RBAC`` as in kubeadm's clusters, also for ``RBAC`` alone: mode Node grants nodes their
    permissions, which no RBAC role does. Raises ``UserError``."""
    modes = set(parsed["authorization-mode"].split(","))
    if modes == {"AlwaysAllow"}:
        return "AlwaysAllow"
    if modes in ({"RBAC"}, {"Node", "RBAC"}):
        return "Node,RBAC"
    raise UserError(
        f"--authorization-mode must be AlwaysAllow or Node,RBAC (RBAC for short), got {parsed['authorization-mode']}",
        code=2,
    )


def open_server(
    env: Env, parsed: Parsed, *, service_accounts: bool = False, records: "Sequence[Record]" = ()
) -> "ServedApiServer":
    """The API server for the flags; ``records`` are its initial state in memory. ``service_accounts``: a controller
    creates the accounts that the admission plugin ServiceAccount requires, so that it is enabled by default. Raises
    ``UserError``."""
    authorization = authorization_modes(parsed)
    port = parsed["port"]
    if not -1 <= port <= 65535:
        raise UserError(f"--port must be between 0 and 65535, or -1 for 6443 or the next free one, got {port}", code=2)
    if parsed["replica-lag"] < 0:
        raise UserError("--replica-lag must not be negative", code=2)
    if parsed["history-retention"] <= 0:
        raise UserError(
            "--history-retention must be positive: a watch needs the changes since the list before it", code=2
        )
    if parsed["history-max-bytes"] < MIN_HISTORY_BYTES:
        raise UserError(
            f"--history-max-bytes must be at least {MIN_HISTORY_BYTES}, got {parsed['history-max-bytes']}: a watch "
            "needs the changes since the list before it",
            code=2,
        )
    if parsed["quota-backend-bytes"] and parsed["quota-backend-bytes"] < _MIN_QUOTA_BYTES:
        raise UserError(
            f"--quota-backend-bytes must be at least {_MIN_QUOTA_BYTES}, got {parsed['quota-backend-bytes']}: the "
            "server's own objects need some hundred kilobytes",
            code=2,
        )
    gates = gates_of(parsed)
    ranges = parsed["service-cluster-ip-range"]
    try:
        allocators.ranges_of(ranges)
    except ValueError as error:
        raise UserError(f"--service-cluster-ip-range {ranges}: {error}", code=2) from error
    _check_tokens(parsed["token-auth-file"])
    try:
        admission = names.enabled_plugin_names(
            names.default_plugins(authorization=authorization, service_accounts=service_accounts),
            parsed["enable-admission-plugins"],
            parsed["disable-admission-plugins"],
        )
    except ValueError as error:
        raise UserError(str(error), code=2) from error
    for name in built_in.unimplemented(parsed["enable-admission-plugins"]):
        print(f"warning: the admission plugin {name} is not implemented and has no effect", file=sys.stderr)
    options = served.ServedOptions(
        host=parsed["bind-address"],
        port=None if port == ANY_PORT else port,
        data_dir=parsed["data-dir"],
        token_auth_file=parsed["token-auth-file"],
        authorization=authorization,
        admission_plugins=admission,
        server=server_options.ServerOptions(
            service_range=ranges,
            event_ttl_seconds=int(parsed["event-ttl"]),
            pod_security=admission_config.pod_security_of(parsed[admission_config.FLAG]),
            gates=tuple(gate for gate in resources.BEHIND_GATES if gates.enabled(gate)),
        ),
        audit=audit_options(parsed),
        etcd=etcd_options(parsed),
        replica_lag=parsed["replica-lag"],
        history=history_seconds(parsed),
        history_bytes=parsed["history-max-bytes"],
        quota=parsed["quota-backend-bytes"] or DEFAULT_QUOTA_BYTES,
    )
    if options.etcd is not None:
        check_files(parsed)
    try:
        return served.ServedApiServer(env, options, records)
    except audit_log_options.AuditLogError as error:
        raise UserError(str(error), code=2) from error
    except ModuleNotFoundError as error:
        raise missing_extra(error) from None
    except encryption_config.EncryptionConfigError as error:
        raise UserError(f"--encryption-provider-config: {error}") from error
    except StoreUnavailable as error:
        raise UserError(f"etcd can't be read at {', '.join(parsed['etcd-servers'])}: {error}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"unable to open the API server's data: {error}") from error


def history_seconds(parsed: Parsed) -> float:
    """How long history is kept. A data directory has it for longer."""
    if parsed["data-dir"] and "history-retention" not in parsed.given:
        return STORED_HISTORY_SECONDS
    return float(parsed["history-retention"])


def gates_of(parsed: Parsed) -> "FeatureGates":
    """The gates that ``--feature-gates`` names. Raises ``UserError``."""
    try:
        return feature_gates.gates_from(parsed["feature-gates"])
    except FlagError as error:
        raise UserError(f"--feature-gates: {error}", code=2) from error


def warn_of_idle_gates(parsed: Parsed, heeded: Iterable[str]) -> None:
    """Warn of gates that are deprecated, or switch nothing; ``heeded`` are those that do."""
    for line in feature_gates.warnings_of(gates_of(parsed), heeded):
        print(f"warning: {line}", file=sys.stderr)


def _check_tokens(path: str) -> None:
    if not path:
        return
    try:
        authenticator.StaticTokenAuthenticator.read(read_text(path))
    except OSError as error:
        raise UserError(f"--token-auth-file {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"--token-auth-file {path}: {error}") from error


async def start(served: "ServedApiServer") -> None:
    """Listen on the port. Raises ``UserError``."""
    try:
        await served.start()
    except OSError as error:
        raise UserError(str(error)) from error
