"""The manager's settings: flags by upstream's names, groups and defaults, and what makes a combination invalid.

Facts: kube-controller-manager v1.36 ``cmd/kube-controller-manager/app/options``. Per-controller flags come from the
controllers' descriptors; this module adds them in upstream's group order. ``app.py`` reads the result.
"""

from collections.abc import Sequence

import msgspec

from pilothouse.controllermanager.compatibility import upstream_flags
from pilothouse.controllermanager.selection import Selection, unknown_names
from pilothouse.machinery.flags import (
    BOOL,
    DURATION,
    FLOAT,
    INT,
    INT32,
    IP,
    LEVEL,
    STRING,
    STRINGS,
    Flag,
    FlagError,
    FlagSet,
    Parsed,
)
from pilothouse.runtime.descriptor import CheckedOptions, Descriptor

PROTOBUF = "application/vnd.kubernetes.protobuf"
HOUR = 3600.0


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True):
    """``--leader-elect*``. Durations are seconds."""

    enabled: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str = "kube-controller-manager"
    resource_namespace: str = "kube-system"


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
    permit_address_sharing: bool = False
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
    qps: float = 20.0
    burst: int = 30
    min_resync_period: float = 12 * HOUR
    start_interval: float = 0.0
    shutdown_timeout: float = 10.0
    use_service_account_credentials: bool = False
    leader_election: LeaderElection = LeaderElection()
    serving: Serving = Serving()
    v: int = 0
    controller_options: dict[str, msgspec.Struct] = {}
    """The options struct of each controller that has one, by the controller's name."""
    flag_values: dict[str, str] = {}
    """Every flag by name, with its value as Go prints it, for ``/flagz``. Empty where there was no command line."""


GROUPS = (
    "debugging",
    "leader-migration",
    "generic",
    "service-lb-controller",
    "secure serving",
    "authentication",
    "authorization",
    "persistentvolume-attach-detach-controller",
    "certificatesigningrequest-signing-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "resourceclaim-controller",
    "statefulset-controller",
    "daemonset-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "cronjob-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "namespace-controller",
    "node-ipam-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
    "metrics",
    "logs",
    "misc",
    "global",
)
"""``--help`` prints groups in this order, which is upstream's."""

USAGE = """The Kubernetes controller manager is a daemon that embeds the core control loops of Kubernetes. This is
pilothouse's: the same loops, flags, events and requests, in Python.

Usage:
  {program} [flags]
"""


def flag_set(program: str, descriptors: Sequence[Descriptor]) -> FlagSet:
    """Every flag that the manager takes."""
    flags = FlagSet(USAGE.format(program=program))
    for group in GROUPS:
        flags.add(group)
    names = ", ".join(d.name for d in descriptors)
    flags.add(
        "generic",
        Flag(
            "controllers",
            STRINGS,
            ("*",),
            "A list of controllers to enable. '*' enables all on-by-default controllers, 'foo' enables the controller "
            f"named 'foo', '-foo' disables it; the first match wins. All controllers: {names}",
        ),
        Flag("controller-shutdown-timeout", DURATION, 10.0, "How long to wait for controllers to stop; 0 is for ever"),
        Flag("controller-start-interval", DURATION, 0.0, "Base of the random delay before each controller starts"),
        Flag("kube-api-burst", INT32, 30, "Burst to use while talking with the API server, per client"),
        Flag("kube-api-content-type", STRING, PROTOBUF, "Content type of requests; here always JSON", ignored=True),
        Flag("kube-api-qps", FLOAT, 20.0, "QPS to use while talking with the API server, per client"),
        Flag("leader-elect", BOOL, True, "Gain leadership before running the controllers"),
        Flag("leader-elect-lease-duration", DURATION, 15.0, "How long others wait before they take a stale lease"),
        Flag("leader-elect-renew-deadline", DURATION, 10.0, "How long the leader tries to renew before it gives up"),
        Flag("leader-elect-retry-period", DURATION, 2.0, "Pause between tries to acquire or renew"),
        Flag("leader-elect-resource-lock", STRING, "leases", "Kind of the lock object; only leases"),
        Flag("leader-elect-resource-name", STRING, "kube-controller-manager", "Name of the lock object"),
        Flag("leader-elect-resource-namespace", STRING, "kube-system", "Namespace of the lock object"),
        Flag(
            "min-resync-period", DURATION, 12 * HOUR, "Informers resync after a random time between this and twice it"
        ),
        Flag("use-service-account-credentials", BOOL, False, "Use a service account of its own for each controller"),
    )
    flags.add(
        "secure serving",
        Flag("bind-address", IP, "0.0.0.0", "Address of the secure port"),  # noqa: S104  # upstream's default
        Flag(
            "cert-dir", STRING, "", "Where the certificate is, or is created; empty keeps a self-signed one in memory"
        ),
        Flag("secure-port", INT, 10257, "Port of the HTTPS server; 0 for none"),
        Flag("tls-cert-file", STRING, "", "Certificate of the HTTPS server"),
        Flag("tls-private-key-file", STRING, "", "Key of that certificate"),
    )
    flags.add(
        "authentication",
        Flag("authentication-kubeconfig", STRING, "", "kubeconfig that may create tokenreviews"),
        Flag("authentication-skip-lookup", BOOL, False, "Do not look up missing settings in the cluster"),
        Flag("authentication-token-webhook-cache-ttl", DURATION, 10.0, "How long answers about tokens are kept"),
        Flag("authentication-tolerate-lookup-failure", BOOL, False, "Go on when that look-up fails"),
        Flag("client-ca-file", STRING, "", "Accept client certificates signed by these authorities"),
    )
    flags.add(
        "authorization",
        Flag("authorization-kubeconfig", STRING, "", "kubeconfig that may create subjectaccessreviews"),
        Flag(
            "authorization-always-allow-paths",
            STRINGS,
            ("/healthz", "/readyz", "/livez"),
            "Paths that need no authorization",
        ),
        Flag("authorization-webhook-cache-authorized-ttl", DURATION, 10.0, "How long a yes is kept"),
        Flag("authorization-webhook-cache-unauthorized-ttl", DURATION, 10.0, "How long a no is kept"),
    )
    for descriptor in descriptors:
        for spec in descriptor.flags:
            flags.add(spec.group or descriptor.name, spec.flag)
    for group, flag in upstream_flags():
        if flag.name not in flags:
            flags.add(group, flag)
    flags.add("logs", Flag("v", LEVEL, 0, "Number for the log level verbosity", shorthand="v"))
    flags.add(
        "misc",
        Flag("kubeconfig", STRING, "", "Path to the kubeconfig file with authorization and API server location"),
        Flag("master", STRING, "", "Address of the API server; overrides the one in the kubeconfig"),
    )
    flags.add(
        "global",
        Flag("help", BOOL, False, "Print this text", shorthand="h"),
        Flag("version", BOOL, False, "Print the version and quit"),
    )
    return flags


def options_from(parsed: Parsed, descriptors: Sequence[Descriptor]) -> Options:
    """Options from a parsed command line.

    Raises ``FlagError`` with every problem found, as upstream's validation lists all of them at once.
    """
    problems = []
    if parsed.arguments:
        listed = " ".join(parsed.arguments)
        problems.append(f'"kube-controller-manager" does not take any arguments, got [{listed}]')
    if parsed["leader-elect-resource-lock"] != "leases":
        problems.append('resourceLock value must be "leases"')
    election = LeaderElection(
        enabled=parsed["leader-elect"],
        lease_duration=parsed["leader-elect-lease-duration"],
        renew_deadline=parsed["leader-elect-renew-deadline"],
        retry_period=parsed["leader-elect-retry-period"],
        resource_name=parsed["leader-elect-resource-name"],
        resource_namespace=parsed["leader-elect-resource-namespace"],
    )
    if election.enabled:
        problems += _election_problems(election)
    if not 0 <= parsed["secure-port"] <= 65535:
        problems.append(
            f"--secure-port {parsed['secure-port']} must be between 0 and 65535, inclusive. "
            "0 for turning off secure port"
        )
    for name in unknown_names(parsed["controllers"], descriptors):
        problems.append(f'"{name}" is not in the list of known controllers')
    if bool(parsed["tls-cert-file"]) != bool(parsed["tls-private-key-file"]):
        problems.append("--tls-cert-file and --tls-private-key-file must be given together")
    if parsed["kube-api-qps"] > 0 and parsed["kube-api-burst"] <= 0:
        problems.append("--kube-api-burst must be above 0 when --kube-api-qps is")
    for name in (spec.flag.name for d in descriptors for spec in d.flags):
        if name.startswith("concurrent") and parsed[name] <= 0:
            problems.append(f"--{name} must be greater than 0, but got {parsed[name]}")
    controller_options = {
        d.name: d.options(**{spec.field: parsed[spec.flag.name] for spec in d.flags})
        for d in descriptors
        if d.options is not None
    }
    chosen = Selection(parsed["controllers"])
    for descriptor in descriptors:
        wanted = controller_options.get(descriptor.name)
        # Upstream finds out when the controller is built, with the lease already in its hands.
        if isinstance(wanted, CheckedOptions) and chosen.enables(descriptor):
            problems += wanted.problems()
    if problems:
        raise FlagError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
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
        leader_election=election,
        serving=Serving(
            bind_address=parsed["bind-address"],
            port=parsed["secure-port"],
            cert_dir=parsed["cert-dir"],
            cert_file=parsed["tls-cert-file"],
            key_file=parsed["tls-private-key-file"],
            client_ca_file=parsed["client-ca-file"],
            authentication_kubeconfig=parsed["authentication-kubeconfig"],
            authentication_skip_lookup=parsed["authentication-skip-lookup"],
            authentication_tolerate_lookup_failure=parsed["authentication-tolerate-lookup-failure"],
            authentication_cache_seconds=parsed["authentication-token-webhook-cache-ttl"],
            authorization_kubeconfig=parsed["authorization-kubeconfig"],
            always_allow_paths=parsed["authorization-always-allow-paths"],
            authorized_cache_seconds=parsed["authorization-webhook-cache-authorized-ttl"],
            unauthorized_cache_seconds=parsed["authorization-webhook-cache-unauthorized-ttl"],
        ),
        v=parsed["v"],
        controller_options=controller_options,
    )


def _election_problems(election: LeaderElection) -> list[str]:
    """client-go ``leaderelection.NewLeaderElector`` and KCM's own validation (v1.36)."""
    problems = []
    if election.lease_duration <= election.renew_deadline:
        problems.append("leaseDuration must be greater than renewDeadline")
    if election.renew_deadline <= 1.2 * election.retry_period:
        problems.append("renewDeadline must be greater than retryPeriod*JitterFactor")
    for name, value in (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    ):
        if value <= 0:
            problems.append(f"{name} must be greater than zero")
    for name, text in (("resourceName", election.resource_name), ("resourceNamespace", election.resource_namespace)):
        if not text:
            problems.append(f"{name} is required")
    return problems
