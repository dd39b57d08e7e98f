"""The manager's flags, and the conversion of a command line to options.

Names, groups, types and defaults are upstream's. The flags of a controller are in its descriptor, all others in
``upstream_flags``. Options are validated in ``validation``.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.client.decision_log_flags import add_decision_log_flags, decision_log_options
from pilothouse.controllermanager.feature_gates import (
    FeatureGates,
    described_gates,
    gates_from,
)
from pilothouse.controllermanager.leader_migration import load as load_migration
from pilothouse.controllermanager.metric_settings import metric_settings
from pilothouse.controllermanager.options import (
    CLIENT_BURST,
    CLIENT_QPS,
    GATES_HELP_HEADER,
    LeaderElection,
    Options,
    RequestHeader,
    Serving,
    SniCertificate,
    effective_gates,
    is_controller_enabled,
    unsupported_gates,
)
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.logging import Streams
from pilothouse.machinery.flag_types import parse_size, quoted
from pilothouse.machinery.flags import STRING, STRINGS, Flag, FlagError, FlagSet, Parsed
from pilothouse.runtime.descriptor import CheckedOptions, Descriptor
from pilothouse.tracing.flags import FLAG as TRACING_FLAG
from pilothouse.tracing.flags import add_tracing_flags

with lazy_imports():
    from pilothouse.controllermanager import compatibility, upstream_flags, validation


USAGE = """The Kubernetes controller manager is a daemon that embeds the core control loops shipped with Kubernetes. In
applications of robotics and automation, a control loop is a non-terminating loop that regulates the state of the
system. In Kubernetes, a controller is a control loop that watches the shared state of the cluster through the
apiserver and makes changes attempting to move the current state towards the desired state.

This is the implementation of pilothouse: the same loops, flags, events and requests, in Python. [pilothouse: ...]
follows the help of flags that differ from upstream's.

Usage:
  {program} [flags]
"""


def flag_set(program: str, descriptors: Sequence[Descriptor]) -> FlagSet:
    """All flags of the manager."""
    flags = FlagSet(USAGE.format(program=program))
    for group in upstream_flags.GROUPS:
        flags.add(group)
    flags.add("generic", _controllers_flag(descriptors))
    for descriptor in descriptors:
        for spec in descriptor.flags:
            # Several controllers may read the same flag, such as --root-ca-file.
            if spec.flag.name not in flags:
                flags.add(spec.group or descriptor.name, spec.flag)
    for group, flag in upstream_flags.upstream_flags(program):
        if flag.name in flags:
            continue
        if flag.name == "feature-gates":
            gates = ", ".join(effective_gates(descriptors))
            text = f"{flag.help}\n{GATES_HELP_HEADER}\n" + "\n".join(described_gates())
            flags.add(group, msgspec.structs.replace(flag, help=text, note=f"these have an effect: {gates}"))
        elif group.endswith("-controller") and not flag.note:
            # The flags of implemented controllers were added above.
            name = group.removesuffix("-controller")
            note = f"{upstream_flags.NO_EFFECT}, the {name} controller of this release does not use it"
            flags.add(group, msgspec.structs.replace(flag, ignored=True, note=note))
        else:
            flags.add(group, flag)
    add_decision_log_flags(flags, extra=True)
    add_tracing_flags(flags, "manager", extra=True)
    flags.add(
        "global",
        Flag("config", STRING, "", "YAML file with settings by the names of flags; the command line wins", extra=True),
    )
    return flags


def _controllers_flag(descriptors: Sequence[Descriptor]) -> Flag:
    names = sorted(compatibility.upstream_controllers())
    here = [descriptor.name for descriptor in descriptors]
    off = [name for name, controller in compatibility.upstream_controllers().items() if not controller.default_on]
    return Flag(
        "controllers",
        STRINGS,
        ("*",),
        "A list of controllers to enable. '*' enables all on-by-default controllers, 'foo' enables the controller "
        "named 'foo', '-foo' disables the controller named 'foo'; the first match wins.\n"
        f"All controllers: {', '.join(names)}\nDisabled-by-default controllers: {', '.join(sorted(off))}",
        note="" if set(names) <= set(here) else f"this release has {', '.join(sorted(here))}",
        choices=("*", *sorted(here)),
    )


def options_from(parsed: Parsed, descriptors: Sequence[Descriptor], flags: FlagSet | None = None) -> Options:
    """Options from a parsed command line; with ``flags`` also the values for ``/flagz``. Raises ``FlagError`` with all
    errors, as upstream's validation."""
    if parsed.arguments:
        listed = " ".join(map(quoted, parsed.arguments))
        raise FlagError(f'"kube-controller-manager" does not take any arguments, got [{listed}]')
    # Gates are validated first and separately, as upstream.
    gates = gates_from(parsed["feature-gates"])
    options = _options(parsed, descriptors, gates, flags)
    errors = [*validation.validate_options(parsed, options, descriptors), *unsupported_gates(options, descriptors)]
    for descriptor in descriptors:
        desired = options.controller_options.get(descriptor.name)
        # Upstream finds these errors when the controller is built, while it holds the lease.
        if isinstance(desired, CheckedOptions) and is_controller_enabled(descriptor, options):
            errors += desired.validate()
    if errors:
        raise FlagError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
    return options


def _options(parsed: Parsed, descriptors: Sequence[Descriptor], gates: FeatureGates, flags: FlagSet | None) -> Options:
    migrates = parsed["enable-leader-migration"]
    qps, burst = _client_rate(parsed["kube-api-qps"], parsed["kube-api-burst"])
    return Options(
        kubeconfig=parsed["kubeconfig"],
        master=parsed["master"],
        controllers=parsed["controllers"],
        qps=qps,
        burst=burst,
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
        decision_log=decision_log_options(parsed),
        tracing_config_file=parsed[TRACING_FLAG],
        controller_options={
            d.name: _controller_options(d, d.options, parsed, gates) for d in descriptors if d.options is not None
        },
        flag_values=flags.show(parsed) if flags is not None else {},
    )


def _client_rate(qps: float, burst: int) -> tuple[float, int]:
    """QPS and burst of clients. 0 means client-go's defaults (``rest.RESTClientForConfigAndClient``, v0.36), a negative
    QPS no limit."""
    return (CLIENT_QPS, burst or CLIENT_BURST) if qps == 0 else (qps, burst)


def _log_streams(parsed: Parsed) -> Streams:
    kind = "json" if parsed["logging-format"] == "json" else "text"
    size = parsed[f"log-{kind}-info-buffer-size"]
    # The default needs no parsing: parsing a quantity imports modules that would slow the start down.
    return Streams(
        split=parsed[f"log-{kind}-split-stream"],
        info_buffer=max(0, parse_size(size)) if size != "0" else 0,
        flush_seconds=parsed["log-flush-frequency"],
    )


def _controller_options(
    descriptor: Descriptor, kind: type[msgspec.Struct], parsed: Parsed, gates: FeatureGates
) -> msgspec.Struct:
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
        # Off by default upstream, on here unless it is set to false.
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
        certificate_uids=gates.enabled("AllowParsingUserUIDFromCertAuth"),
        authority_rotation=gates.enabled("ClientsAllowCARotation"),
        watch_list=gates.enabled("WatchListClient"),
    )
