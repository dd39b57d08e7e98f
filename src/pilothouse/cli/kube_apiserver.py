"""The ``kube-apiserver`` of a test suite's assets: the embedded API server with upstream's flags.

The flags that envtest and similar suites pass are implemented: certificates, service account keys, ports, RBAC, the
service range. Others are accepted with a warning. The store is in the data directory of the ``etcd`` of the same suite,
so that an API server keeps its data over restarts.
"""

import asyncio
import json
import math
import time  # noqa: TID251  # waits for a real program
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilothouse.cli import admission_config
from pilothouse.cli.apiserver import instance
from pilothouse.cli.audit_flags import add_audit_flags, audit_options
from pilothouse.cli.clientside import common_flags, traced
from pilothouse.cli.program import UserError, parse, serve
from pilothouse.cli.tolerant import known_words, warn
from pilothouse.env import Env, TaskGroup
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flag_types import MULTIMAP, VERSION, Multimap, VersionWord
from pilothouse.machinery.flags import BOOL, DURATION, INT, STRING, STRINGS, Flag, FlagSet, Parsed
from pilothouse.tracing.flags import APISERVER, add_tracing_flags

if TYPE_CHECKING:
    from pilothouse.plane.served import ServedApiServer, ServedOptions

with lazy_imports():
    import http.client
    from urllib import parse as urls

    from pilothouse import apiserver
    from pilothouse.apiserver import resources
    from pilothouse.apiserver.admission import names
    from pilothouse.apiserver.audit import options as audit_log_options
    from pilothouse.cli import etcd, version_flag
    from pilothouse.controllermanager import options as manager_options
    from pilothouse.controllermanager import root_authority, selection
    from pilothouse.controllers import registry
    from pilothouse.plane import options as plane_options
    from pilothouse.plane import plane
    from pilothouse.plane import served as served_plane
    from pilothouse.serving import server

USAGE = """The embedded API server of pilothouse with the flags of kube-apiserver, for test suites.

Usage:
  {program} [flags]
"""
MODES = ("AlwaysAllow", "RBAC", "Node")
_ETCD_SECONDS = 20.0
_ETCD_PAUSE = 0.05


def flag_set(program: str) -> FlagSet:
    """The flags with an effect, with upstream's names and defaults; others are accepted with a warning."""
    flags = FlagSet(USAGE.format(program=program))
    flags.add(
        "etcd",
        Flag("etcd-servers", STRINGS, (), "List of etcd servers to connect with (scheme://ip:port), comma separated"),
        Flag(
            "etcd-compaction-interval",
            DURATION,
            300.0,
            "The interval of compaction requests: how long the history of changes is kept; 0 disables compaction",
        ),
        Flag("event-ttl", DURATION, 3600.0, "Amount of time to retain events"),
    )
    flags.add(
        "secure serving",
        Flag("bind-address", STRING, "0.0.0.0", "The IP address on which to listen for the --secure-port port"),  # noqa: S104
        Flag("secure-port", INT, 6443, "The port on which to serve HTTPS"),
        Flag("cert-dir", STRING, "/var/run/kubernetes", "The directory where the TLS certs are located"),
        Flag("tls-cert-file", STRING, "", "File containing the default x509 Certificate for HTTPS"),
        Flag("tls-private-key-file", STRING, "", "File containing the default x509 private key"),
    )
    flags.add(
        "authentication",
        Flag("client-ca-file", STRING, "", "File with the certificate authorities that sign client certificates"),
        Flag("token-auth-file", STRING, "", "File with the tokens of users"),
        Flag("anonymous-auth", BOOL, True, "Enables anonymous requests to the secure port"),
        Flag("service-account-issuer", STRINGS, (), "Identifier of the service account token issuer"),
        Flag(
            "service-account-signing-key-file",
            STRING,
            "",
            "File with the private key that signs service account tokens",
        ),
        Flag("service-account-key-file", STRINGS, (), "Files with keys that verify service account tokens"),
        Flag("api-audiences", STRINGS, (), "Identifiers of the API; defaults to the issuer"),
    )
    flags.add(
        "authorization",
        Flag("authorization-mode", STRINGS, ("AlwaysAllow",), f"Ordered list of modes: {', '.join(MODES)}"),
    )
    flags.add(
        "admission",
        Flag("enable-admission-plugins", STRINGS, (), "Admission plugins to enable in addition to the default ones"),
        Flag("disable-admission-plugins", STRINGS, (), "Admission plugins to disable"),
        Flag(admission_config.FLAG, STRING, "", admission_config.HELP),
    )
    add_audit_flags(flags)
    add_tracing_flags(flags, "apiserver")
    flags.add(
        "misc",
        Flag("service-cluster-ip-range", STRING, "10.0.0.0/24", "A CIDR from which to assign service cluster IPs"),
        Flag("min-request-timeout", INT, 1800, "Minimum number of seconds before a watch is closed"),
        Flag("feature-gates", MULTIMAP, {}, "Pairs of gate=true|false; only gates that add resources have an effect"),
        Flag("allow-privileged", BOOL, False, "Privileged containers are allowed in any case"),
        Flag("controllers", STRINGS, (), "Controllers to run in this process", extra=True),
        Flag("version", VERSION, VersionWord("false"), "true or raw prints the version and exits"),
    )
    common_flags(flags)
    return flags


def run(program: str, args: Sequence[str]) -> int:
    """Serve until a signal."""
    flags = flag_set(program)
    known, unknown = known_words(flags, args)
    parsed = parse(flags, program, known)
    if isinstance(parsed, int):
        return parsed
    if version := version_flag.version_text(parsed["version"]):
        print(version)
        return 0
    return serve(program, _serve(parsed, unknown), v=parsed["v"])


async def _serve(parsed: Parsed, unknown: Sequence[str]) -> int:
    warn(unknown)
    data = await _data_of(parsed["etcd-servers"])
    async with traced(parsed, Env(), APISERVER, instance()) as env:
        return await _serve_traced(env, parsed, data)


async def _serve_traced(env: Env, parsed: Parsed, data: dict[str, Any]) -> int:
    try:
        served = served_plane.ServedApiServer(env, _options(parsed, data))
    except audit_log_options.AuditLogError as error:
        raise UserError(str(error)) from error
    except (OSError, ValueError) as error:
        raise UserError(str(error)) from error
    work = _controllers(env, served, parsed["controllers"]) if parsed["controllers"] else served.server.run()
    try:
        async with TaskGroup("kube-apiserver") as group:
            group.start(work, name="API server")
            await served.start()
            await asyncio.get_running_loop().create_future()
    except* server.CannotListen as error:
        raise UserError(str(error.exceptions[0])) from None
    finally:
        await served.stop()
    return 0


def _controllers(env: Env, served: "ServedApiServer", names: Sequence[str]) -> Any:
    unknown = selection.unknown_names(tuple(names), registry.DESCRIPTORS)
    if unknown:
        hint = selection.hint_of_controller(unknown[0], registry.DESCRIPTORS)
        raise UserError(f'"{unknown[0]}" is not in the list of known controllers{hint}', code=2)
    manager = manager_options.Options(
        controllers=tuple(names),
        leader_election=manager_options.LeaderElection(enabled=False),
        use_service_account_credentials=True,
    )
    if served.authority is not None:
        manager = root_authority.with_ca_bundle(manager, served.authority.certificate)
        if not served.options.client_authority:  # otherwise no server would accept the signed tokens
            manager = root_authority.with_signing_ca(manager, served.authority)
    options = plane_options.PlaneOptions(nodes=0, scheduler=False, manager=manager)
    return plane.Plane(env, served.store, options, server=served.server).run()


def _options(parsed: Parsed, data: dict[str, Any]) -> "ServedOptions":
    _check(parsed)
    try:
        admission = names.enabled_plugin_names(
            names.DEFAULT, parsed["enable-admission-plugins"], parsed["disable-admission-plugins"]
        )
    except ValueError as error:
        raise UserError(str(error)) from error
    issuers = parsed["service-account-issuer"]
    return served_plane.ServedOptions(
        host=parsed["bind-address"],
        port=parsed["secure-port"],
        data_dir=str(Path(data["directory"]) / "pilothouse"),
        fsync=data["fsync"],
        authorization=",".join(parsed["authorization-mode"]),
        token_auth_file=parsed["token-auth-file"],
        certificate=_certificate(parsed),
        client_authority=parsed["client-ca-file"],
        issuer=issuers[0],
        audiences=tuple(parsed["api-audiences"]),
        signing_key=parsed["service-account-signing-key-file"],
        verification_keys=tuple(parsed["service-account-key-file"]),
        anonymous=parsed["anonymous-auth"],
        admission_plugins=admission,
        history=parsed["etcd-compaction-interval"] or math.inf,
        audit=audit_options(parsed),
        server=apiserver.ServerOptions(
            event_ttl_seconds=int(parsed["event-ttl"]),
            min_watch_seconds=parsed["min-request-timeout"],
            service_range=parsed["service-cluster-ip-range"],
            pod_security=admission_config.pod_security_of(parsed[admission_config.FLAG]),
            gates=_gates(parsed["feature-gates"]),
        ),
    )


def _gates(gates: Multimap) -> tuple[str, ...]:
    """The enabled gates that add resources. Suites set gates of any release; others are ignored."""
    pairs = [pair.partition("=") for listed in gates.values() for pair in listed]
    on = {name.strip(): value.strip().lower() == "true" for name, _sign, value in pairs}
    return tuple(gate for gate in resources.BEHIND_GATES if on.get(gate))


def _check(parsed: Parsed) -> None:
    """Flags with which upstream does not start (kubernetes ``pkg/kubeapiserver/options``, v1.36)."""
    if not parsed["service-account-issuer"] or not parsed["service-account-signing-key-file"]:
        raise UserError("--service-account-signing-key-file and --service-account-issuer are required flags")
    if not 1 <= parsed["secure-port"] <= 65535:
        raise UserError(f"--secure-port {parsed['secure-port']} must be between 1 and 65535, inclusive")
    for mode in parsed["authorization-mode"]:
        if mode not in MODES:
            raise UserError(f'authorization-mode: "{mode}" is not a valid mode here; there are {", ".join(MODES)}')
    if bool(parsed["tls-cert-file"]) != bool(parsed["tls-private-key-file"]):
        raise UserError("--tls-cert-file and --tls-private-key-file must be given together")


def _certificate(parsed: Parsed) -> tuple[str, str] | None:
    """The serving certificate: the one in the flags, or the one in ``--cert-dir``."""
    if parsed["tls-cert-file"]:
        return parsed["tls-cert-file"], parsed["tls-private-key-file"]
    pair = [Path(parsed["cert-dir"]) / f"apiserver.{end}" for end in ("crt", "key")]
    return (str(pair[0]), str(pair[1])) if all(path.exists() for path in pair) else None


async def _data_of(urls: Sequence[str]) -> dict[str, Any]:
    """The data directory of the ``etcd`` at these URLs, which may still be starting. Raises ``UserError``."""
    if not urls:
        raise UserError("--etcd-servers must be specified")
    deadline = time.monotonic() + _ETCD_SECONDS
    while True:
        try:
            return await asyncio.to_thread(_fetch, f"{urls[0]}{etcd.DATA_PATH}")
        except OSError as error:
            if time.monotonic() > deadline:
                raise UserError(f"--etcd-servers {urls[0]} can't be reached: {error}") from error
        except ValueError:
            raise UserError(
                f"--etcd-servers {urls[0]} is not the etcd of this folder: pilothouse stores by itself and can't use "
                "another one"
            ) from None
        await asyncio.sleep(_ETCD_PAUSE)


def _fetch(url: str) -> dict[str, Any]:
    """Raises ``OSError`` if no server responds and ``ValueError`` if it is another server."""
    parts = urls.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        document = json.loads(answer.read()) if answer.status == 200 else None
    except http.client.HTTPException as error:
        raise ValueError(str(error)) from error
    finally:
        connection.close()
    if not isinstance(document, dict) or "directory" not in document:
        raise ValueError("no data directory")
    return document
