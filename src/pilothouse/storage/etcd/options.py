"""kube-apiserver's ``--etcd-…`` flags: connection, prefix and intervals."""

from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec


class ServersOverride(msgspec.Struct, frozen=True):
    """The servers of one resource, or of all of its group (``*``)."""

    group: str
    resource: str
    servers: tuple[str, ...]


class EtcdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults are upstream's (apiserver ``pkg/server/options/etcd.go``, v0.36)."""

    servers: tuple[str, ...]
    """URLs, http or https."""
    overrides: tuple[ServersOverride, ...] = ()
    """Resources that are stored elsewhere (``--etcd-servers-overrides``)."""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    prefix: str = "/registry"
    compaction_interval: float = 300.0
    """Seconds between compactions; 0 leaves them to other servers."""
    healthcheck_timeout: float = 2.0
    readycheck_timeout: float = 2.0
    """Seconds for etcd's response to a health or readiness check."""
    db_metric_poll_interval: float = 30.0
    """Seconds between requests for the size of the database; 0 disables them."""
    lease_reuse_seconds: int = 60
    """For how many seconds one lease is shared by further keys."""
    encryption_provider_config: str = ""
    """The EncryptionConfiguration file; empty for none."""
    encryption_automatic_reload: bool = False
    """Whether that file is read again when it has changed."""
    event_ttl: float = 3600.0
    """Seconds that Events are kept (``--event-ttl``)."""


class Endpoint(msgspec.Struct, frozen=True):
    """One member of the cluster."""

    url: str
    target: str
    """``host:port``."""
    secure: bool


_INVALID_OVERRIDE = (
    "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, "
    "semicolon separated"
)


def parse_overrides(texts: Sequence[str]) -> tuple[ServersOverride, ...]:
    """``group/resource#server;server`` (``ParseEtcdServersOverrides``). Raises ``ValueError`` in upstream's words."""
    overrides = []
    for text in texts:
        names, *servers = text.split("#")
        resource = names.split("/")
        if len(servers) != 1 or len(resource) != 2 or not all(urls := servers[0].split(";")):
            raise ValueError(_INVALID_OVERRIDE)
        overrides.append(ServersOverride(resource[0], resource[1], tuple(urls)))
    return tuple(overrides)


def locations_of(options: EtcdOptions) -> tuple[tuple[str, ...], ...]:
    """The servers of each location: first those of ``--etcd-servers``, then each other list once, whatever its order
    (``addEtcdHealthEndpoint``)."""
    locations = {tuple(sorted(options.servers)): options.servers}
    for override in options.overrides:
        locations.setdefault(tuple(sorted(override.servers)), override.servers)
    return tuple(locations.values())


def location_of(options: EtcdOptions, group: str, resource: str) -> int:
    """The index in ``locations_of`` of a resource: by the last override of the resource, else by that of its group."""
    locations = [sorted(servers) for servers in locations_of(options)]
    by_resource = {(override.group, override.resource): override.servers for override in options.overrides}
    servers = by_resource.get((group, resource)) or by_resource.get((group, "*")) or options.servers
    return locations.index(sorted(servers))


def endpoints_of(options: EtcdOptions) -> tuple[Endpoint, ...]:
    """The members. Raises ``ValueError`` for an invalid address."""
    if not options.servers:
        raise ValueError("--etcd-servers must be specified")
    if bool(options.cert_file) != bool(options.key_file):
        raise ValueError("--etcd-certfile and --etcd-keyfile are given together or not at all")
    return tuple(_endpoint(url.strip()) for url in options.servers)


def _endpoint(url: str) -> Endpoint:
    parsed = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parsed.port
    except ValueError as error:
        raise ValueError(f"--etcd-servers: {url!r}: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.hostname or parsed.path not in ("", "/"):
        raise ValueError(f"--etcd-servers: {url!r} is no address of an etcd, like https://127.0.0.1:2379")
    host = f"[{parsed.hostname}]" if ":" in parsed.hostname else parsed.hostname
    return Endpoint(url, f"{host}:{port or 2379}", parsed.scheme == "https")
