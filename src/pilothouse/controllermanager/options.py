"""The manager's options. ``flags`` creates them from a command line."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pilothouse.client.decision_log_flags import DecisionLogOptions
from pilothouse.controllermanager.feature_gates import (
    EFFECTS,
    UNSUPPORTED,
    FeatureGates,
    unsupported_gate,
)
from pilothouse.controllermanager.leader_migration import LeaderMigration
from pilothouse.controllermanager.metric_settings import MetricSettings
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import Streams
from pilothouse.runtime.descriptor import Descriptor

with lazy_imports():
    from pilothouse.controllermanager import selection

PROTOBUF = "application/vnd.kubernetes.protobuf"
HOUR = 3600.0
CLIENT_QPS = 5.0
CLIENT_BURST = 10
"""client-go's ``rest.DefaultQPS`` and ``rest.DefaultBurst``, for flags that are 0."""
GATES_HELP_HEADER = "Options are:"
"""Precedes the list of all gates in ``--help``."""


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """``--leader-elect*``. Durations are in seconds."""

    enabled: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "kube-controller-manager"
    resource_namespace: str = "kube-system"
    release_on_stop: bool = True
    """Whether the lease is released at an orderly stop."""


class SniCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """One ``--tls-sni-cert-key``. Without ``names`` those of the certificate are used."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


class RequestHeader(msgspec.Struct, frozen=True, kw_only=True):
    """``--requestheader-*``: the front proxies and their headers."""

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    uid_headers: tuple[str, ...] = ()
    extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """The secure port, its authentication and authorization. ``port`` 0 disables it."""

    bind_address: str = "0.0.0.0"  # noqa: S104  # upstream's default: the metrics of every interface, behind authorization
    port: int = 10257
    cert_dir: str = ""
    cert_file: str = ""
    key_file: str = ""
    sni_certificates: tuple[SniCertificate, ...] = ()
    tls_min_version: str = ""
    """``VersionTLS10`` to ``VersionTLS13``; empty is TLS 1.2."""
    tls_cipher_suites: tuple[str, ...] = ()
    """Go's names (``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256``), validated; empty is the library's default."""
    tls_curve_preferences: tuple[int, ...] = ()
    """Go's numbers of the allowed key exchanges, validated; empty is the library's default."""
    permit_port_sharing: bool = False
    client_ca_file: str = ""
    request_header: RequestHeader = RequestHeader()
    authentication_kubeconfig: str = ""
    authentication_skip_lookup: bool = False
    authentication_tolerate_lookup_failure: bool = False
    authentication_cache_seconds: float = 10.0
    authorization_kubeconfig: str = ""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    authorized_cache_seconds: float = 10.0
    unauthorized_cache_seconds: float = 10.0
    profiling: bool = True
    """Whether ``/debug/pprof`` and ``/debug/flags`` are served."""
    flagz: bool = True
    """Gate ``ComponentFlagz``."""
    statusz: bool = True
    """Gate ``ComponentStatusz``."""
    certificate_uids: bool = True
    """Gate ``AllowParsingUserUIDFromCertAuth``."""
    authority_rotation: bool = True
    """Gate ``ClientsAllowCARotation``, for the clients of delegated authentication and authorization."""
    watch_list: bool = True
    """Gate ``WatchListClient``, for the ConfigMap with the client CAs."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """All options from flags and files. Durations are in seconds."""

    kubeconfig: str = ""
    master: str = ""
    controllers: tuple[str, ...] = ("*",)
    on_demand: bool = False
    """Whether controllers that support it are built with the first object that they process."""
    qps: float = 20.0
    burst: int = 30
    min_resync_period: float = 12 * HOUR
    start_interval: float = 0.0
    shutdown_timeout: float = 10.0
    use_service_account_credentials: bool = False
    leader_election: LeaderElection = LeaderElection()
    serving: Serving = Serving()
    v: int = 0
    vmodule: tuple[str, ...] = ()
    logging_format: str = "text"
    log_streams: Streams = Streams()
    version: str = ""
    """The version to report, from ``--version=vX.Y.Z``; empty for our own."""
    gates: FeatureGates = FeatureGates()
    leader_migration: LeaderMigration | None = None
    metrics: MetricSettings = MetricSettings()
    decision_log: DecisionLogOptions = DecisionLogOptions()
    tracing_config_file: str = ""
    controller_options: dict[str, msgspec.Struct] = {}
    """The options struct of each controller that has one, by the controller's name."""
    flag_values: dict[str, str] = {}
    """All flags with their values as Go prints them, for ``/flagz``. Empty without a command line."""


def effective_gates(descriptors: Sequence[Descriptor]) -> list[str]:
    """The feature gates that have an effect here, sorted."""
    by_controllers = {gate for d in descriptors for gate in (*d.gates, *(spec.gate for spec in d.gate_fields))}
    return sorted({*EFFECTS, *by_controllers})


def unsupported_gates(options: Options, descriptors: Sequence[Descriptor]) -> Iterator[str]:
    """The errors for gates that would change the controllers that run, and are not implemented."""
    components = gates_not_implemented(
        descriptor for descriptor in descriptors if is_controller_enabled(descriptor, options)
    )
    if not options.leader_election.enabled:
        del components["CoordinatedLeaderElection"]
    for name, component in components.items():
        yield from unsupported_gate(options.gates, name, component)


def gates_not_implemented(descriptors: Iterable[Descriptor]) -> dict[str, str]:
    """Gates that upstream implements in these controllers or the manager, but not this release, with their names."""
    components = {name: [component] for name, component in UNSUPPORTED.items()}
    for descriptor in descriptors:
        for name in descriptor.unsupported_gates:
            components.setdefault(name, []).append(descriptor.name)
    return {name: ", ".join(sorted(component)) for name, component in sorted(components.items())}


def is_controller_enabled(descriptor: Descriptor, options: Options) -> bool:
    """Whether the controller is enabled and behind no gate that is off."""
    return selection.Selection(options.controllers).enables(descriptor) and all(
        map(options.gates.enabled, descriptor.gates)
    )


def with_gates(options: Options, gates: FeatureGates, descriptors: Sequence[Descriptor]) -> Options:
    """The options of a program that has gates but no other flags of the manager."""
    by_gate = {
        descriptor.name: descriptor.options(**{spec.field: gates.enabled(spec.gate) for spec in descriptor.gate_fields})
        for descriptor in descriptors
        if descriptor.options is not None and descriptor.gate_fields
    }
    return msgspec.structs.replace(options, gates=gates, controller_options={**by_gate, **options.controller_options})
