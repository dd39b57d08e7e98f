"""The command line of kube-controller-manager, as v1.36 has it."""

from typing import Any

import msgspec
import pytest

from pilothouse.controllermanager.compatibility import ABSENT_CONTROLLERS
from pilothouse.controllermanager.configz import page
from pilothouse.controllermanager.options import GROUPS, Options, flag_set, options_from
from pilothouse.controllermanager.selection import Selection, absent_names, unknown_names
from pilothouse.controllers.registry import DESCRIPTORS
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
    return options_from(flag_set("pilothouse manager", DESCRIPTORS).parse(words), DESCRIPTORS)


def test_without_flags_the_options_have_their_defaults() -> None:
    """The structs' defaults and the flags' are written down twice; they agree."""
    by_default = {d.name: d.default_options() for d in DESCRIPTORS if d.options is not None}
    assert parse() == Options(controller_options={name: o for name, o in by_default.items() if o is not None})


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
    ],
)
def test_each_flag_reaches_its_option(word: str, path: str, value: Any) -> None:
    if path == "controllers":
        word, value = "--controllers=replicaset,-namespace", ("replicaset", "-namespace")
    found: Any = parse(word)
    for part in path.split("."):
        found = found[part] if isinstance(found, dict) else getattr(found, part)
    assert found == value


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--leader-elect-resource-lock=endpoints"], 'resourceLock value must be "leases"', id="lock kind"),
        pytest.param(
            ["--leader-elect-lease-duration=10s"], "leaseDuration must be greater than renewDeadline", id="no margin"
        ),
        pytest.param(
            ["--leader-elect-renew-deadline=2s"],
            "renewDeadline must be greater than retryPeriod*JitterFactor",
            id="no second try",
        ),
        pytest.param(["--leader-elect-resource-name="], "resourceName is required", id="no lock name"),
        pytest.param(["--secure-port=-1"], "--secure-port -1 must be between 0 and 65535", id="a port below 0"),
        pytest.param(["--controllers=none"], '"none" is not in the list of known controllers', id="unknown controller"),
        pytest.param(["--tls-cert-file=a"], "--tls-cert-file and --tls-private-key-file", id="half a pair"),
        pytest.param(["--kube-api-burst=0"], "--kube-api-burst must be above 0 when --kube-api-qps is", id="no burst"),
        pytest.param(
            ["--concurrent-replicaset-syncs=0"], "--concurrent-replicaset-syncs must be greater than 0", id="no workers"
        ),
        pytest.param(["now"], '"kube-controller-manager" does not take any arguments, got [now]', id="a word"),
    ],
)
def test_what_does_not_go_together(words: list[str], message: str) -> None:
    with pytest.raises(FlagError) as caught:
        parse(*words)
    assert message in str(caught.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(FlagError) as caught:
        parse("--secure-port=-1", "--controllers=none")
    assert str(caught.value).startswith("[")
    assert "--secure-port" in str(caught.value)
    assert '"none"' in str(caught.value)


def test_the_rules_of_the_election_do_not_matter_without_one() -> None:
    assert not parse("--leader-elect=false", "--leader-elect-lease-duration=1s").leader_election.enabled


def test_kubeadms_command_line_is_understood() -> None:
    flags = flag_set("kube-controller-manager", DESCRIPTORS)
    parsed = flags.parse(KUBEADM.split())
    options = options_from(parsed, DESCRIPTORS)
    assert options.use_service_account_credentials
    assert absent_names(options.controllers, DESCRIPTORS) == ["bootstrapsigner", "tokencleaner"]
    ignored = [name for name in parsed.given if flags.flag(name).ignored]
    assert ignored == [
        "cluster-name",
        "cluster-signing-cert-file",
        "cluster-signing-key-file",
        "requestheader-client-ca-file",
        "root-ca-file",
        "service-account-private-key-file",
    ]


@pytest.mark.parametrize(
    "word", ["--port=0", "--address=x", "--pod-eviction-timeout=5m", "--logtostderr", "--config=x"]
)
def test_flags_that_upstream_dropped_are_unknown(word: str) -> None:
    with pytest.raises(FlagError, match="unknown flag"):
        parse(word)


def test_help_has_upstreams_groups_in_upstreams_order() -> None:
    lines = flag_set("pilothouse manager", DESCRIPTORS).help(100).splitlines()
    titles = [line.removesuffix(" flags:").lower() for line in lines if line.endswith(" flags:")]
    expected = [group for group in GROUPS if group in titles]
    assert titles == expected
    assert {"generic", "replicaset-controller", "namespace-controller", "secure serving", "misc"} <= set(titles)
    assert max(map(len, lines)) <= 100 + 20
    text = "\n".join(lines)
    assert "--concurrent-replicaset-syncs int32" in text
    assert "(default 15s)" in text


def test_configz_is_the_versioned_configuration() -> None:
    document = msgspec.json.decode(page(parse("--kube-api-qps=5", "--kubeconfig=k")))
    inner = document["kubecontrollermanager.config.k8s.io"]
    assert (inner["kind"], inner["apiVersion"]) == (
        "KubeControllerManagerConfiguration",
        "kubecontrollermanager.config.k8s.io/v1alpha1",
    )
    assert inner["Generic"]["MinResyncPeriod"] == "12h0m0s"
    assert inner["Generic"]["ClientConnection"]["qps"] == 5.0
    assert inner["Generic"]["LeaderElection"]["resourceName"] == "kube-controller-manager"
    assert inner["GarbageCollectorController"] == {"ConcurrentGCSyncs": 20, "EnableGarbageCollector": True}
    assert inner["ReplicaSetController"] == {"ConcurrentRSSyncs": 5}


RS, GC, NS = ("replicaset-controller", "garbage-collector-controller", "namespace-controller")


@pytest.mark.parametrize(
    ("words", "running"),
    [
        pytest.param(["*"], {RS, GC, NS}, id="a star is everything that is on by default"),
        pytest.param(["replicaset"], {RS}, id="an alias"),
        pytest.param(["replicaset-controller"], {RS}, id="a name"),
        pytest.param(["*", "-replicaset"], {GC, NS}, id="everything but one"),
        pytest.param(["-replicaset-controller", "*"], {GC, NS}, id="the order of star and minus is free"),
        pytest.param(["replicaset", "-replicaset"], {RS}, id="the first match wins: on"),
        pytest.param(["-replicaset", "replicaset"], set(), id="the first match wins: off"),
        pytest.param(["-replicaset", "replicaset-controller"], set(), id="name and alias are the same"),
        pytest.param([], set(), id="nothing asked, nothing runs"),
        pytest.param(["deployment"], set(), id="upstream's others are not here"),
    ],
)
def test_selection(words: list[str], running: set[str]) -> None:
    selection = Selection(tuple(words))
    assert {d.name for d in DESCRIPTORS if d.name in {RS, GC, NS} and selection.enables(d)} == running


def test_a_controller_that_is_off_by_default_wants_its_name() -> None:
    off = msgspec.structs.replace(DESCRIPTORS[0], default_on=False)
    assert not Selection(("*",)).enables(off)
    assert Selection(("*", off.name)).enables(off)


def test_names_that_nobody_knows() -> None:
    words = ["*", "replicaset", "-what", "deployment", "ever"]
    assert unknown_names(words, DESCRIPTORS) == ["what", "ever"]
    assert absent_names([*words, "-job"], DESCRIPTORS) == ["deployment"]
    assert "deployment-controller" in ABSENT_CONTROLLERS
