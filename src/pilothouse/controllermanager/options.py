"""The manager's settings, and how a command line comes to them.

The structs are what the program reads. The flags are upstream's by names, groups, types and defaults: each
controller's come from its descriptor, all others from ``upstream_flags``. What makes a combination invalid is in
``validation``. ``app`` reads the result.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.controllermanager.feature_gates import EFFECTS, FeatureGates, described_gates, gates_from
from pilothouse.controllermanager.leader_migration import LeaderMigration
from pilothouse.controllermanager.leader_migration import load as load_migration
from pilothouse.controllermanager.metric_settings import MetricSettings, metric_settings
from pilothouse.env.logging import Streams
from pilothouse.machinery.flag_types import parse_size, quoted
from pilothouse.machinery.flags import STRING, STRINGS, Flag, FlagError, FlagSet, Parsed
from pilothouse.runtime.descriptor import CheckedOptions, Descriptor

PROTOBUF = "application/vnd.kubernetes.protobuf"
HOUR = 3600.0
OPTIONS_ARE = "Options are:"
"""Goes before the list of all gates in ``--help``."""


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """``--leader-elect*``. Durations are seconds."""

    enabled: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "kube-controller-manager"
    resource_namespace: str = "kube-system"
    release_on_stop: bool = True
    """Whether an orderly stop gives the lease back."""


class SniCertificate(msgspec.Struct, frozen=True, kw_only=True):
    """One ``--tls-sni-cert-key``. Without ``names`` those of the certificate count."""

    cert_file: str
    key_file: str
    names: tuple[str, ...] = ()


class RequestHeader(msgspec.Struct, frozen=True, kw_only=True):
    """``--requestheader-*``: front proxies that vouch for users, and the headers that name these."""

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    group_headers: tuple[str, ...] = ("x-remote-group",)
    uid_headers: tuple[str, ...] = ()
    extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """The secure port, and who may read it. ``port`` 0 means no server at all."""

    bind_address: str = "0.0.0.0"  # noqa: S104  # upstream's default: the metrics of every interface, behind authorization
    port: int = 10257
    cert_dir: str = ""
    cert_file: str = ""
    key_file: str = ""
    sni_certificates: tuple[SniCertificate, ...] = ()
    tls_min_version: str = ""
    """``VersionTLS10`` to ``VersionTLS13``; empty is TLS 1.2."""
    tls_cipher_suites: tuple[str, ...] = ()
    """Go's names (``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256``), all of them known; empty is the library's choice."""
    tls_curve_preferences: tuple[int, ...] = ()
    """Go's numbers of key exchanges that are allowed, all of them known; empty is the library's choice."""
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


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the manager was told. Durations are seconds."""

    kubeconfig: str = ""
    master: str = ""
    controllers: tuple[str, ...] = ("*",)
    on_demand: bool = False
    """Whether controllers that can are built with the first object that gives them something to do."""
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
    """What ``--version=vX.Y.Z`` wants reported; empty for our own."""
    gates: FeatureGates = FeatureGates()
    leader_migration: LeaderMigration | None = None
    metrics: MetricSettings = MetricSettings()
    controller_options: dict[str, msgspec.Struct] = {}
    """The options struct of each controller that has one, by the controller's name."""
    flag_values: dict[str, str] = {}
    """Every flag by name, with its value as Go prints it, for ``/flagz``. Empty where there was no command line."""


USAGE = """The Kubernetes controller manager is a daemon that embeds the core control loops shipped with Kubernetes. In
applications of robotics and automation, a control loop is a non-terminating loop that regulates the state of the
system. In Kubernetes, a controller is a control loop that watches the shared state of the cluster through the
apiserver and makes changes attempting to move the current state towards the desired state.

This is pilothouse's: the same loops, flags, events and requests, in Python. [pilothouse: ...] says where a flag means
something else here.

Usage:
  {program} [flags]
"""


def flag_set(program: str, descriptors: Sequence[Descriptor]) -> FlagSet:
    """Every flag that the manager takes."""
    from pilothouse.controllermanager.upstream_flags import GROUPS, NO_EFFECT, upstream_flags

    flags = FlagSet(USAGE.format(program=program))
    for group in GROUPS:
        flags.add(group)
    flags.add("generic", _controllers_flag(descriptors))
    for descriptor in descriptors:
        for spec in descriptor.flags:
            # Several controllers may read the same flag, such as --root-ca-file.
            if spec.flag.name not in flags:
                flags.add(spec.group or descriptor.name, spec.flag)
    for group, flag in upstream_flags(program):
        if flag.name in flags:
            continue
        if flag.name == "feature-gates":
            gates = ", ".join(effective_gates(descriptors))
            text = f"{flag.help}\n{OPTIONS_ARE}\n" + "\n".join(described_gates())
            flags.add(group, msgspec.structs.replace(flag, help=text, note=f"these switch something here: {gates}"))
        elif group.endswith("-controller") and not flag.note:
            # Whose it is came to the flag set before, if it is here at all.
            note = f"{NO_EFFECT}, this release has no {group.removesuffix('-controller')} controller that reads it"
            flags.add(group, msgspec.structs.replace(flag, ignored=True, note=note))
        else:
            flags.add(group, flag)
    flags.add(
        "global",
        Flag("config", STRING, "", "YAML file with settings by the names of flags; the command line wins", extra=True),
    )
    return flags


def effective_gates(descriptors: Sequence[Descriptor]) -> list[str]:
    """The feature gates that switch something here, in alphabetical order."""
    by_controllers = {gate for d in descriptors for gate in (*d.gates, *(spec.gate for spec in d.gate_fields))}
    return sorted({*EFFECTS, *by_controllers})


def with_gates(options: Options, gates: FeatureGates, descriptors: Sequence[Descriptor]) -> Options:
    """The options of a program that has gates and no other flags of the manager's."""
    by_gate = {
        descriptor.name: descriptor.options(**{spec.field: gates.enabled(spec.gate) for spec in descriptor.gate_fields})
        for descriptor in descriptors
        if descriptor.options is not None and descriptor.gate_fields
    }
    return msgspec.structs.replace(options, gates=gates, controller_options={**by_gate, **options.controller_options})


def _controllers_flag(descriptors: Sequence[Descriptor]) -> Flag:
    from pilothouse.controllermanager.compatibility import upstream_controllers

    names = sorted(upstream_controllers())
    here = [descriptor.name for descriptor in descriptors]
    off = [name for name, known in upstream_controllers().items() if not known.default_on]
    return Flag(
        "controllers",
        STRINGS,
        ("*",),
        "A list of controllers to enable. '*' enables all on-by-default controllers, 'foo' enables the controller "
        "named 'foo', '-foo' disables the controller named 'foo'; the first match wins.\n"
        f"All controllers: {', '.join(names)}\nDisabled-by-default controllers: {', '.join(sorted(off))}",
        note=f"this release has {', '.join(sorted(here))}",
        choices=("*", *sorted(here)),
    )


def options_from(parsed: Parsed, descriptors: Sequence[Descriptor], flags: FlagSet | None = None) -> Options:
    """Options from a parsed command line; with ``flags`` also the values for ``/flagz``.

    Raises ``FlagError`` with every problem found, as upstream's validation lists all of them at once.
    """
    from pilothouse.controllermanager.selection import Selection
    from pilothouse.controllermanager.validation import problems_of

    if parsed.arguments:
        listed = " ".join(map(quoted, parsed.arguments))
        raise FlagError(f'"kube-controller-manager" does not take any arguments, got [{listed}]')
    # Gates come first and alone, as upstream sets them before it looks at anything else.
    gates = gates_from(parsed["feature-gates"])
    options = _options(parsed, descriptors, gates, flags)
    problems = [*problems_of(parsed, options, descriptors)]
    chosen = Selection(options.controllers)
    for descriptor in descriptors:
        wanted = options.controller_options.get(descriptor.name)
        # Upstream finds out when the controller is built, with the lease already in its hands.
        runs = chosen.enables(descriptor) and all(map(gates.enabled, descriptor.gates))
        if isinstance(wanted, CheckedOptions) and runs:
            problems += wanted.problems()
    if problems:
        raise FlagError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return options


def _options(parsed: Parsed, descriptors: Sequence[Descriptor], gates: FeatureGates, flags: FlagSet | None) -> Options:
    migrates = parsed["enable-leader-migration"]
    return Options(
        kubeconfig=parsed["kubeconfig"],
        master=parsed["master"],
        controllers=parsed["controllers"],
        qps=parsed["kube-api-qps"],
        burst=parsed["kube-api-burst"],
        min_resync_period=parsed["min-resync-period"],
        start_interval=parsed["controller-start-interval"],
        shutdown_timeout=parsed["controller-shutdown-timeout"],
        use_service_account_credentials=parsed["use-service-account-credentials"],
        leader_election=_leader_election(parsed, gates),
        serving=_serving(parsed, gates),
        v=parsed["v"],
        vmodule=parsed["vmodule"],
        logging_format=parsed["logging-format"],
        log_streams=_log_streams(parsed),
        version=parsed["version"].reported,
        gates=gates,
        leader_migration=load_migration(parsed["leader-migration-config"]) if migrates else None,
        metrics=metric_settings(parsed),
        controller_options={d.name: _own(d, d.options, parsed, gates) for d in descriptors if d.options is not None},
        flag_values=flags.show(parsed) if flags is not None else {},
    )


def _log_streams(parsed: Parsed) -> Streams:
    kind = "json" if parsed["logging-format"] == "json" else "text"
    size = parsed[f"log-{kind}-info-buffer-size"]
    # Reading a quantity imports what the start of a program can do without.
    return Streams(
        split=parsed[f"log-{kind}-split-stream"],
        info_buffer=max(0, parse_size(size)) if size != "0" else 0,
        flush_seconds=parsed["log-flush-frequency"],
    )


def _own(descriptor: Descriptor, kind: type[msgspec.Struct], parsed: Parsed, gates: FeatureGates) -> msgspec.Struct:
    by_flag = {spec.field: parsed[spec.flag.name] for spec in descriptor.flags}
    by_gate = {spec.field: gates.enabled(spec.gate) for spec in descriptor.gate_fields}
    return kind(**by_flag, **by_gate)


def _leader_election(parsed: Parsed, gates: FeatureGates) -> LeaderElection:
    return LeaderElection(
        enabled=parsed["leader-elect"],
        lease_duration=parsed["leader-elect-lease-duration"],
        renew_deadline=parsed["leader-elect-renew-deadline"],
        retry_period=parsed["leader-elect-retry-period"],
        resource_name=parsed["leader-elect-resource-name"],
        resource_namespace=parsed["leader-elect-resource-namespace"],
        # Off by default upstream, on here; whoever says "off" is heeded.
        release_on_stop=gates.chosen.get("ControllerManagerReleaseLeaderElectionLockOnExit", True),
    )


def _serving(parsed: Parsed, gates: FeatureGates) -> Serving:
    return Serving(
        bind_address=parsed["bind-address"],
        port=parsed["secure-port"],
        cert_dir=parsed["cert-dir"],
        cert_file=parsed["tls-cert-file"],
        key_file=parsed["tls-private-key-file"],
        sni_certificates=tuple(
            SniCertificate(cert_file=certificate, key_file=key, names=names)
            for certificate, key, names in parsed["tls-sni-cert-key"]
        ),
        tls_min_version=parsed["tls-min-version"],
        tls_cipher_suites=parsed["tls-cipher-suites"],
        tls_curve_preferences=parsed["tls-curve-preferences"],
        permit_port_sharing=parsed["permit-port-sharing"],
        client_ca_file=parsed["client-ca-file"],
        request_header=RequestHeader(
            client_ca_file=parsed["requestheader-client-ca-file"],
            allowed_names=parsed["requestheader-allowed-names"],
            username_headers=parsed["requestheader-username-headers"],
            group_headers=parsed["requestheader-group-headers"],
            uid_headers=parsed["requestheader-uid-headers"],
            extra_headers_prefix=parsed["requestheader-extra-headers-prefix"],
        ),
        authentication_kubeconfig=parsed["authentication-kubeconfig"],
        authentication_skip_lookup=parsed["authentication-skip-lookup"],
        authentication_tolerate_lookup_failure=parsed["authentication-tolerate-lookup-failure"],
        authentication_cache_seconds=parsed["authentication-token-webhook-cache-ttl"],
        authorization_kubeconfig=parsed["authorization-kubeconfig"],
        always_allow_paths=parsed["authorization-always-allow-paths"],
        authorized_cache_seconds=parsed["authorization-webhook-cache-authorized-ttl"],
        unauthorized_cache_seconds=parsed["authorization-webhook-cache-unauthorized-ttl"],
        profiling=parsed["profiling"],
        flagz=gates.enabled("ComponentFlagz"),
        statusz=gates.enabled("ComponentStatusz"),
    )
