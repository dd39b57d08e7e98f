"""The flags for storing the cluster in etcd, as kube-apiserver's (apiserver ``pkg/server/options/etcd.go``, v0.36)."""

from typing import TYPE_CHECKING

import msgspec

from pilothouse.cli.program import UserError
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.flags import BOOL, DURATION, INT, STRING, STRINGS, Flag, FlagSet, Parsed

if TYPE_CHECKING:
    from pilothouse.storage.etcd.options import EtcdOptions

with lazy_imports():
    from pilothouse.env import bounded_files
    from pilothouse.storage.etcd import options as etcd

NEEDS_GRPC = "--etcd-servers needs gRPC: pip install 'pilothouse[etcd]'"
NEEDS_NACL = "secretbox in --encryption-provider-config needs PyNaCl: pip install 'pilothouse[etcd]'"
NEEDS_PLUGINS = "kms in --encryption-provider-config needs gRPC: pip install 'pilothouse[etcd]'"
CHECK_TIMEOUT = 2.0
_EXTRA = ("nacl", "grpc", "google")
_ONLY_WITH_ETCD = (
    "etcd-servers-overrides",
    "etcd-prefix",
    "etcd-cafile",
    "etcd-certfile",
    "etcd-keyfile",
    "etcd-compaction-interval",
    "etcd-db-metric-poll-interval",
    "etcd-healthcheck-timeout",
    "etcd-readycheck-timeout",
    "lease-reuse-duration-seconds",
    "encryption-provider-config",
)
_OF_SNAPSHOTS = ("etcd-prefix", "encryption-provider-config")
"""The flags that also apply to ``--etcd-snapshot``."""


def add_etcd_flags(flags: FlagSet) -> None:
    """Add the flags, in a section of their own."""
    flags.add(
        "etcd",
        Flag(
            "etcd-servers",
            STRINGS,
            (),
            "List of etcd servers to connect with (scheme://ip:port), comma separated. The cluster is stored there, in "
            "kube-apiserver's layout, and --data-dir keeps certificates and tokens only. Needs pilothouse[etcd]",
        ),
        Flag(
            "etcd-servers-overrides",
            STRINGS,
            (),
            "Per-resource etcd servers overrides, comma separated. The individual override format: "
            "group/resource#servers, where servers are URLs, semicolon separated. Note that this applies only to "
            'resources compiled into this server binary. e.g. "/pods#http://etcd4:2379;http://etcd5:2379,'
            '/events#http://etcd6:2379"',
        ),
        Flag("etcd-prefix", STRING, "/registry", "The prefix to prepend to all resource paths in etcd"),
        Flag("etcd-cafile", STRING, "", "SSL Certificate Authority file used to secure etcd communication"),
        Flag("etcd-certfile", STRING, "", "SSL certification file used to secure etcd communication"),
        Flag("etcd-keyfile", STRING, "", "SSL key file used to secure etcd communication"),
        Flag(
            "etcd-compaction-interval",
            DURATION,
            300.0,
            "The interval of compaction requests. If 0, the compaction request from apiserver is disabled",
        ),
        Flag(
            "etcd-db-metric-poll-interval",
            DURATION,
            30.0,
            "The interval of requests to poll etcd and update metric. 0 disables the metric collection",
        ),
        Flag("etcd-healthcheck-timeout", DURATION, CHECK_TIMEOUT, "The timeout to use when checking etcd health"),
        Flag(
            "etcd-readycheck-timeout",
            DURATION,
            CHECK_TIMEOUT,
            "The timeout to use when checking etcd readiness",
        ),
        Flag(
            "lease-reuse-duration-seconds",
            INT,
            60,
            "The time in seconds that each lease is reused. A lower value could avoid large number of objects reusing "
            "the same lease",
        ),
        Flag(
            "encryption-provider-config",
            STRING,
            "",
            "The file containing configuration for encryption providers to be used for storing secrets in etcd",
        ),
        Flag(
            "encryption-provider-config-automatic-reload",
            BOOL,
            False,
            "Determines if the file set by --encryption-provider-config should be automatically reloaded if the disk "
            "contents change",
        ),
        Flag("event-ttl", DURATION, 3600.0, "Amount of time to retain events"),
    )


def missing_extra(error: ModuleNotFoundError, grpc: str = NEEDS_GRPC) -> Exception:
    """The error to raise for a missing module: a ``UserError`` if the extra provides it, else the error itself."""
    package = (error.name or "").partition(".")[0]
    return UserError({"nacl": NEEDS_NACL, "grpc": grpc, "google": grpc}[package]) if package in _EXTRA else error


def etcd_arguments(parsed: Parsed) -> list[str]:
    """The given flags that name the cluster in etcd and its keys: those for a command that is to go on with it."""
    names = ("etcd-servers", *_ONLY_WITH_ETCD, "encryption-provider-config-automatic-reload", "data-dir")
    return [f"--{name}={text}" for name in names for text in parsed.texts.get(name, ())]


def etcd_options(parsed: Parsed) -> "EtcdOptions | None":
    """The options from the flags; None without ``--etcd-servers``. Raises ``UserError``."""
    if parsed["encryption-provider-config-automatic-reload"] and not parsed["encryption-provider-config"]:
        message = "--encryption-provider-config-automatic-reload must be set with --encryption-provider-config"
        raise UserError(message, code=2)
    if not parsed["etcd-servers"]:
        for name in _ONLY_WITH_ETCD:
            of_snapshot = name in _OF_SNAPSHOTS and parsed.values.get("etcd-snapshot")
            if name in parsed.given and not of_snapshot:
                raise UserError(f"--{name} needs --etcd-servers", code=2)
        return None
    try:
        overrides = etcd.parse_overrides(parsed["etcd-servers-overrides"])
    except ValueError as error:
        raise UserError(str(error), code=2) from error
    if overrides and parsed["replica-lag"]:
        raise UserError("--replica-lag can't be used with --etcd-servers-overrides", code=2)
    options = etcd.EtcdOptions(
        servers=tuple(parsed["etcd-servers"]),
        overrides=overrides,
        ca_file=parsed["etcd-cafile"],
        cert_file=parsed["etcd-certfile"],
        key_file=parsed["etcd-keyfile"],
        prefix=parsed["etcd-prefix"],
        compaction_interval=parsed["etcd-compaction-interval"],
        db_metric_poll_interval=parsed["etcd-db-metric-poll-interval"],
        # 0 means the default, as upstream.
        healthcheck_timeout=parsed["etcd-healthcheck-timeout"] or CHECK_TIMEOUT,
        readycheck_timeout=parsed["etcd-readycheck-timeout"] or CHECK_TIMEOUT,
        lease_reuse_seconds=parsed["lease-reuse-duration-seconds"],
        encryption_provider_config=parsed["encryption-provider-config"],
        encryption_automatic_reload=parsed["encryption-provider-config-automatic-reload"],
        event_ttl=parsed["event-ttl"],
    )
    try:
        for servers in etcd.locations_of(options):
            etcd.endpoints_of(msgspec.structs.replace(options, servers=servers))
    except ValueError as error:
        raise UserError(str(error), code=2) from error
    return options


def check_files(parsed: Parsed) -> None:
    """Check the files for TLS. Raises ``UserError``: gRPC logs on its own, and reports failed connections."""
    for flag in ("etcd-cafile", "etcd-certfile", "etcd-keyfile"):
        if path := parsed[flag]:
            try:
                content = bounded_files.read_bytes(path)
            except OSError as error:
                raise UserError(f"--{flag} {path}: {error.strerror or error}") from error
            if b"-----BEGIN " not in content:
                raise UserError(f"--{flag} {path}: there is no PEM block in it")
