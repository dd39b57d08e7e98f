"""The command line of kube-controller-manager v1.36."""

from typing import Any

import msgspec
import pytest
from tests.tables import cases

from pilothouse.controllermanager.compatibility import own_controllers, upstream_controllers, upstream_names
from pilothouse.controllermanager.configz import page
from pilothouse.controllermanager.flags import flag_set, options_from
from pilothouse.controllermanager.options import Options
from pilothouse.controllermanager.selection import Selection, unimplemented_names, unknown_names
from pilothouse.controllermanager.upstream_flags import GROUPS
from pilothouse.controllers.registry import DESCRIPTORS
from pilothouse.env.logging import Streams
from pilothouse.machinery.flags import FlagError

KUBEADM = """--allocate-node-cidrs=true --authentication-kubeconfig=/etc/kubernetes/controller-manager.conf
--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf --bind-address=127.0.0.1
--client-ca-file=/etc/kubernetes/pki/ca.crt --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes
--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt --cluster-signing-key-file=/etc/kubernetes/pki/ca.key
--controllers=*,bootstrapsigner,tokencleaner --kubeconfig=/etc/kubernetes/controller-manager.conf --leader-elect=true
--requestheader-client-ca-file=/etc/kubernetes/pki/front-proxy-ca.crt --root-ca-file=/etc/kubernetes/pki/ca.crt
--service-account-private-key-file=/etc/kubernetes/pki/sa.key --service-cluster-ip-range=10.96.0.0/12
--use-service-account-credentials=true"""


def parse(*words: str) -> Options:
    flags = flag_set("pilothouse manager", DESCRIPTORS)
    return options_from(flags.parse(words), DESCRIPTORS, flags)


def test_defaults() -> None:
    """The structs' defaults and the flags' are written down twice; they agree."""
    by_default = {d.name: d.default_options() for d in DESCRIPTORS if d.options is not None}
    expected = Options(controller_options={name: o for name, o in by_default.items() if o is not None})
    assert msgspec.structs.replace(parse(), flag_values={}) == expected


@pytest.mark.parametrize(
    ("word", "path", "value"),
    [
        ("--kubeconfig=a", "kubeconfig", "a"),
        ("--master=https://x", "master", "https://x"),
        ("--controllers=a", "controllers", None),
        ("--kube-api-qps=50", "qps", 50.0),
        ("--kube-api-burst=60", "burst", 60),
        ("--min-resync-period=1h", "min_resync_period", 3600.0),
        ("--controller-start-interval=1s", "start_interval", 1.0),
        ("--controller-shutdown-timeout=3s", "shutdown_timeout", 3.0),
        ("--use-service-account-credentials", "use_service_account_credentials", True),
        ("--leader-elect=false", "leader_election.enabled", False),
        ("--leader-elect-lease-duration=1m", "leader_election.lease_duration", 60.0),
        ("--leader-elect-renew-deadline=9s", "leader_election.renew_deadline", 9.0),
        ("--leader-elect-retry-period=1s", "leader_election.retry_period", 1.0),
        ("--leader-elect-resource-name=n", "leader_election.resource_name", "n"),
        ("--leader-elect-resource-namespace=s", "leader_election.resource_namespace", "s"),
        ("--secure-port=0", "serving.port", 0),
        ("--bind-address=127.0.0.1", "serving.bind_address", "127.0.0.1"),
        ("--cert-dir=d", "serving.cert_dir", "d"),
        ("--authentication-kubeconfig=k", "serving.authentication_kubeconfig", "k"),
        ("--authentication-skip-lookup", "serving.authentication_skip_lookup", True),
        ("--authentication-tolerate-lookup-failure", "serving.authentication_tolerate_lookup_failure", True),
        ("--authentication-token-webhook-cache-ttl=2s", "serving.authentication_cache_seconds", 2.0),
        ("--client-ca-file=c", "serving.client_ca_file", "c"),
        ("--authorization-kubeconfig=k", "serving.authorization_kubeconfig", "k"),
        ("--authorization-always-allow-paths=/x", "serving.always_allow_paths", ("/x",)),
        ("--authorization-webhook-cache-authorized-ttl=3s", "serving.authorized_cache_seconds", 3.0),
        ("--authorization-webhook-cache-unauthorized-ttl=4s", "serving.unauthorized_cache_seconds", 4.0),
        ("--concurrent-replicaset-syncs=9", "controller_options.replicaset-controller.workers", 9),
        ("--concurrent-gc-syncs=9", "controller_options.garbage-collector-controller.concurrent_syncs", 9),
        ("--enable-garbage-collector=false", "controller_options.garbage-collector-controller.enabled", False),
        ("--concurrent-namespace-syncs=9", "controller_options.namespace-controller.concurrent_syncs", 9),
        ("--namespace-sync-period=1m", "controller_options.namespace-controller.sync_period", 60.0),
        ("-v=4", "v", 4),
        ("--vmodule=a=1,b*=2", "vmodule", ("a=1", "b*=2")),
        ("--logging-format=json", "logging_format", "json"),
        ("--log-flush-frequency=1m", "log_streams.flush_seconds", 60.0),
        ("--version=v1.36.2-x", "version", "v1.36.2-x"),
        ("--version=false", "version", ""),
        ("--profiling=false", "serving.profiling", False),
        ("--tls-min-version=VersionTLS13", "serving.tls_min_version", "VersionTLS13"),
        ("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA", "serving.tls_cipher_suites", ("TLS_RSA_WITH_RC4_128_SHA",)),
        ("--tls-curve-preferences=23,29", "serving.tls_curve_preferences", (23, 29)),
        ("--permit-port-sharing", "serving.permit_port_sharing", True),
        ("--requestheader-client-ca-file=p", "serving.request_header.client_ca_file", "p"),
        ("--requestheader-allowed-names=a,b", "serving.request_header.allowed_names", ("a", "b")),
        ("--requestheader-username-headers=u", "serving.request_header.username_headers", ("u",)),
        ("--requestheader-group-headers=g", "serving.request_header.group_headers", ("g",)),
        ("--requestheader-uid-headers=i", "serving.request_header.uid_headers", ("i",)),
        ("--requestheader-extra-headers-prefix=x-", "serving.request_header.extra_headers_prefix", ("x-",)),
        ("--feature-gates=ComponentFlagz=false", "serving.flagz", False),
        ("--feature-gates=ComponentStatusz=false", "serving.statusz", False),
        (
            "--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=false",
            "leader_election.release_on_stop",
            False,
        ),
        (
            "--feature-gates=kube:PodDeletionCost=false",
            "controller_options.replicaset-controller.use_deletion_cost",
            False,
        ),
        (
            "--feature-gates=DeploymentReplicaSetTerminatingReplicas=false",
            "controller_options.replicaset-controller.report_terminating",
            False,
        ),
        (
            "--feature-gates=StaleControllerConsistencyReplicaSet=false",
            "controller_options.replicaset-controller.wait_for_own_writes",
            False,
        ),
        (
            "--feature-gates=StaleControllerConsistencyDaemonSet=false",
            "controller_options.daemonset-controller.wait_for_own_writes",
            False,
        ),
        ("--enable-leader-migration", "leader_migration.leader_name", "cloud-provider-extraction-migration"),
    ],
)
def test_every_flag_sets_its_option(word: str, path: str, value: Any) -> None:
    if path == "controllers":
        word, value = "--controllers=replicaset,-namespace", ("replicaset", "-namespace")
    result: Any = parse(word)
    for part in path.split("."):
        result = result[part] if isinstance(result, dict) else getattr(result, part)
    assert result == value


@cases(
    "format_, streams",
    {
        "text": ("text", Streams(split=True, info_buffer=1500)),
        "JSON": ("json", Streams(split=False, info_buffer=4096)),
    },
)
def test_log_streams_of_the_selected_format(format_: str, streams: Streams) -> None:
    line = (
        f"--logging-format={format_} --feature-gates=LoggingAlphaOptions=true --log-text-split-stream"
        " --log-text-info-buffer-size=1.5k --log-json-info-buffer-size=4Ki"
    )
    assert parse(*line.split()).log_streams == streams


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--leader-elect-resource-lock=endpoints", 'resourceLock value must be "leases"'),
        ("--leader-elect-lease-duration=10s", "leaseDuration must be greater than renewDeadline"),
        ("--leader-elect-renew-deadline=2s", "renewDeadline must be greater than retryPeriod*JitterFactor"),
        ("--leader-elect-resource-name=", "resourceName is required"),
        ("--secure-port=-1", "--secure-port -1 must be between 0 and 65535"),
        ("--controllers=none", '"none" is not in the list of known controllers'),
        ("--tls-cert-file=a", "--tls-cert-file and --tls-private-key-file"),
        ("--kube-api-burst=0", "burst is required to be greater than 0"),
        ("--tls-min-version=VersionTLS99", 'unknown tls version "VersionTLS99"'),
        ("--tls-cipher-suites=X", "Cipher suite X not supported or doesn't exist"),
        ("--tls-curve-preferences=0", "--tls-curve-preferences: curve preference 0 is out of range (must be 1-65535)"),
        ("--tls-curve-preferences=23,23", "duplicate curve preference 23"),
        ("--tls-curve-preferences=9999", "curve preference 9999 is not supported"),
        ("--authorization-always-allow-paths=/a*b", 'only trailing * allowed in "a*b"'),
        ("--requestheader-username-headers=,a", 'empty value in "requestheader-username-headers"'),
        ("--max-endpoints-per-slice=0", "max-endpoints-per-slice must not be less than 1, but got 0"),
        (
            "--mirroring-concurrent-service-endpoint-syncs=99",
            "mirroring-concurrent-service-endpoint-syncs must not be more than 50, but got 99",
        ),
        (
            "--cluster-signing-kubelet-client-cert-file=b",
            '"cluster-signing-kubelet-client": cannot specify cert without key',
        ),
        (
            "--cluster-signing-cert-file=a --cluster-signing-legacy-unknown-key-file=b",
            "cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same",
        ),
        ("--attach-detach-reconcile-sync-period=999ms", "must be greater than one second"),
        ("--cloud-provider=aws", "unsupported cloud provider: aws"),
        ("--logging-format=xml", "Unsupported log format"),
        ("--logging-format=json --vmodule=a=1", "vmodule: Forbidden: Only supported for text log format"),
        ("--log-json-split-stream", "options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled"),
        (
            "--log-text-info-buffer-size=1Ki --log-json-info-buffer-size=0M",
            "options.text.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        ("--log-flush-frequency=0s", 'flushFrequency: Invalid value: "0s": Must be greater than zero'),
        (
            "--show-hidden-metrics-for-version=1.30",
            "--show-hidden-metrics-for-version must be omitted or have the value '1.35'",
        ),
        ("--emulated-version=1.20", "emulation version 1.20 is not between"),
        ("--emulated-version=etcd=1.36", "component not registered: etcd"),
        (
            "--emulated-version=1.34 --min-compatibility-version=1.36",
            "minCompatibilityVersion version 1.36 is not between [1.33, 1.34]",
        ),
        ("--enable-leader-migration --leader-elect=false", "needs --leader-elect"),
        (
            "--requestheader-uid-headers=x --feature-gates=RemoteRequestHeaderUID=false",
            "--requestheader-uid-headers needs feature gate RemoteRequestHeaderUID",
        ),
        (
            "--enable-garbage-collector=false --feature-gates=StorageVersionMigrator=true",
            "storage version migrator requires garbage collector",
        ),
        ("now", '"kube-controller-manager" does not take any arguments, got ["now"]'),
    ],
)
def test_incompatible_flags(line: str, message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(*line.split())
    assert message in str(caught.value)


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(FlagError) as caught:
        parse("--secure-port=-1", "--controllers=none")
    assert str(caught.value).startswith("[")
    assert "--secure-port" in str(caught.value)
    assert '"none"' in str(caught.value)


def test_leader_election_flags_are_not_validated_when_disabled() -> None:
    assert not parse("--leader-elect=false", "--leader-elect-lease-duration=1s").leader_election.enabled


def test_kubeadms_command_line_is_accepted() -> None:
    flags = flag_set("kube-controller-manager", DESCRIPTORS)
    parsed = flags.parse(KUBEADM.split())
    options = options_from(parsed, DESCRIPTORS)
    assert options.use_service_account_credentials
    assert unimplemented_names(options.controllers, DESCRIPTORS) == []
    ignored = [name for name in parsed.given if flags.flag(name).ignored]
    assert ignored == []


@pytest.mark.parametrize("word", ["--port=0", "--address=x", "--pod-eviction-timeout=5m", "--logtostderr"])
def test_flags_removed_upstream_are_unknown(word: str) -> None:
    with pytest.raises(FlagError, match="unknown flag"):
        parse(word)


def test_help_has_upstreams_flag_sets() -> None:
    lines = flag_set("pilothouse manager", DESCRIPTORS).help(100).splitlines()
    titles = [line.removesuffix(" flags:").lower() for line in lines if line.endswith(" flags:")]
    expected = [group for group in GROUPS if group in titles]
    assert [title for title in titles if title not in ("decision log", "traces")] == expected
    assert {"generic", "replicaset-controller", "namespace-controller", "secure serving", "misc"} <= set(titles)
    assert max(map(len, lines)) <= 100 + 20
    text = "\n".join(lines)
    assert "--concurrent-replicaset-syncs int32" in text
    assert "(default 15s)" in text


def test_configz() -> None:
    document = msgspec.json.decode(page(parse("--kube-api-qps=5", "--kubeconfig=k", "--cluster-name=7")))
    inner = document["kubecontrollermanager.config.k8s.io"]
    assert (inner["kind"], inner["apiVersion"]) == (
        "KubeControllerManagerConfiguration",
        "kubecontrollermanager.config.k8s.io/v1alpha1",
    )
    # As kube-controller-manager v1.36.2 has it: the insecure port, and nothing about the shutdown.
    assert inner["Generic"]["Port"] == 0
    assert "ControllerShutdownTimeout" not in inner["Generic"]
    assert inner["AttachDetachController"]["disableForceDetachOnTimeout"] is False
    assert inner["NodeLifecycleController"]["PodEvictionTimeout"] == "0s"
    assert inner["Generic"]["MinResyncPeriod"] == "12h0m0s"
    assert inner["Generic"]["ClientConnection"]["qps"] == 5.0
    assert inner["Generic"]["LeaderElection"]["resourceName"] == "kube-controller-manager"
    assert inner["GarbageCollectorController"] == {
        "ConcurrentGCSyncs": 20,
        "EnableGarbageCollector": True,
        "GCIgnoredResources": [
            {"Group": "", "Resource": "events"},
            {"Group": "events.k8s.io", "Resource": "events"},
        ],
    }
    assert inner["KubeCloudShared"]["ClusterName"] == "7"
    assert inner["DeploymentController"] == {"ConcurrentDeploymentSyncs": 5}
    assert inner["HPAController"]["HorizontalPodAutoscalerTolerance"] == 0.1
    assert inner["PersistentVolumeBinderController"]["VolumeConfiguration"]["EnableDynamicProvisioning"] is True
    assert inner["ReplicaSetController"] == {"ConcurrentRSSyncs": 5}


RS, GC, NS = ("replicaset-controller", "garbage-collector-controller", "namespace-controller")


@cases(
    "words, running",
    {
        "a star is everything that is on by default": (["*"], {RS, GC, NS}),
        "an alias": (["replicaset"], {RS}),
        "a name": (["replicaset-controller"], {RS}),
        "all but one": (["*", "-replicaset"], {GC, NS}),
        "the order of star and minus is free": (["-replicaset-controller", "*"], {GC, NS}),
        "the first match wins: on": (["replicaset", "-replicaset"], {RS}),
        "the first match wins: off": (["-replicaset", "replicaset"], set()),
        "name and alias are the same": (["-replicaset", "replicaset-controller"], set()),
        "an empty list runs no controllers": ([], set()),
        "upstream's others are not here": (["storage-version-migrator-controller"], set()),
    },
)
def test_controller_selection(words: list[str], running: set[str]) -> None:
    selection = Selection(tuple(words))
    assert {d.name for d in DESCRIPTORS if d.name in {RS, GC, NS} and selection.enables(d)} == running


def test_controller_disabled_by_default_must_be_named() -> None:
    off = msgspec.structs.replace(DESCRIPTORS[0], default_on=False)
    assert not Selection(("*",)).enables(off)
    assert Selection(("*", off.name)).enables(off)


def test_unknown_controller_names() -> None:
    words = ["*", "replicaset", "-what", "job-controller", "ever"]
    others = [descriptor for descriptor in DESCRIPTORS if descriptor.name != "job-controller"]
    assert unknown_names(words, others) == ["what", "ever"]
    assert unimplemented_names([*words, "-cronjob-controller"], others) == ["job-controller"]
    assert "statefulset-controller" in upstream_names()


def test_upstream_controller_names() -> None:
    known = upstream_controllers()
    assert len(known) == 52
    assert [name for name, one in known.items() if not one.default_on] == [
        "selinux-warning-controller",
        "bootstrap-signer-controller",
        "token-cleaner-controller",
    ]
    own = own_controllers(DESCRIPTORS)
    for descriptor in [item for item in DESCRIPTORS if item not in own]:
        alias = known[descriptor.name].alias
        assert descriptor.aliases == ((alias,) if alias else ())
        assert descriptor.default_on is known[descriptor.name].default_on
