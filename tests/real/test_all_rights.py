"""Every controller with the roles of v1.36 only, on kube-apiserver with RBAC.

Checked by the API server's audit log, which has each request of each account and the authorizer's decision. One
scenario (``rights_scenario``) exercises all paths of the controllers; its coverage is measured by the roles: every rule
that a role grants was used, or is in ``UNUSED`` with the reason.

A v1.20 server drops ``maxSurge``. That rollout, with the same roles, is 04c in ``tests/traces/test_roles.py``.
"""

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.controllermanager.metric_table import METRICS, SLIS, SOMETIMES, Metric, families, parsed, total
from tests.controllermanager.usual import SERVED
from tests.programs import Program, free_port, pilothouse, until
from tests.real import rights_scenario
from tests.real.audited import MANAGER, Asked, Audit, audited
from tests.real.conftest import role_of_v1_36
from tests.real.test_rights import answers
from tests.real.test_secure_port import get
from tests.real_cluster import ADMIN_TOKEN, RealCluster, missing_programs
from tests.traces.records import recorded

from pilothouse.apiserver.authorization.bootstrap_policy import bootstrap_objects

# One scenario for all tests of this module: workers must not each run it.
pytestmark = pytest.mark.real(cluster="own")

NOT_SERVED = {
    "cronjob-controller",
    "device-taint-eviction-controller",
    "disruption-controller",
    "endpointslice-controller",
    "endpointslicemirroring-controller",
    "horizontal-pod-autoscaler",
    "resource-claim-controller",
    "service-cidrs-controller",
    "validatingadmissionpolicy-status-controller",
    "volumeattributesclass-protection-controller",
}
"""v1.20 lacks CronJobs, disruption budgets and autoscalers of today's version, ``discovery.k8s.io/v1``, claims for
devices, ServiceCIDRs, classes of volume attributes and policies of admission, so that they are left out. Their requests
are judged by replays (08, 09, 10, 10b, 14), those about devices by
``tests/controllers/resourceclaim/test_rights.py``."""
CLIENTS = sorted({item.client_name for item in SERVED} - NOT_SERVED)
"""Controllers with their own account. The token controller uses the manager's own."""
FLAGS = (
    "--controllers=*,bootstrapsigner,tokencleaner,selinux-warning-controller",
    "--use-service-account-credentials",
    "--allocate-node-cidrs",
    "--cluster-cidr=10.128.0.0/24",
    "--cloud-loops=simulated",
    "--node-cidr-mask-size=26",
    "--node-monitor-period=500ms",
    "--node-monitor-grace-period=13s",
    "--node-eviction-rate=5",
    "--terminated-pod-gc-threshold=1",
    "--enable-hostpath-provisioner",
    "--kube-api-qps=200",
    "--kube-api-burst=400",
    "--authorization-always-allow-paths=/metrics",
    "--v=4",
)

SILENT = {"ephemeral-volume-controller", "job-controller", "ttl-after-finished-controller"}
"""Controllers without work here: a v1.20 server drops ``ephemeral`` volumes, ``uncountedTerminatedPods`` and
``ttlSecondsAfterFinished``."""

Right = tuple[str, str, str, str]
"""Account, verb, API group, resource."""


class Outcome(NamedTuple):
    """The results of the scenario, after the manager has stopped."""

    audited_requests: list[Asked]
    log: str
    code: int
    metrics: str
    slis: str
    doomed: str
    """The namespace that was deleted with all its content."""
    certificate: bytes
    """What a kubelet that joined was given, and logged in with."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RealCluster, Audit]]:
    """An API server of this module's own, with the roles of v1.36."""
    problem = missing_programs()
    if problem:
        pytest.skip(problem)
    with audited(tmp_path_factory.mktemp("audited")) as server_url:
        yield server_url


def start(directory: Path, cluster: RealCluster, port: int, *flags: str) -> Program:
    """The manager as the user of v1.36's bindings.

    The server has a host name, the CA is a file, the certificate is from a plugin: each of these has metrics.
    """
    user = cluster.user(MANAGER)
    config = json.loads(user.read_text())
    authority, plugin, kubeconfig = directory / "authority.crt", directory / "plugin", directory / "kubeconfig"
    shutil.copy(cluster.ca_file, authority)
    certificate, key = (
        base64.b64decode(config["users"][0]["user"][f"client-{part}-data"]).decode() for part in ("certificate", "key")
    )
    version = "client.authentication.k8s.io/v1"
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    credential = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})
    plugin.write_text(f"#!/bin/sh\ncat <<'END'\n{credential}\nEND\n")
    plugin.chmod(0o700)
    server = cluster.server.replace("127.0.0.1", "localhost")
    config["clusters"][0]["cluster"] = {"server": server, "certificate-authority": str(authority)}
    login = {"apiVersion": version, "command": str(plugin), "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": login}
    kubeconfig.write_text(json.dumps(config))
    delegated = [f"--{flag}={user}" for flag in ("authentication-kubeconfig", "authorization-kubeconfig")]
    signing = [f"--cluster-signing-cert-file={cluster.ca_file}", f"--cluster-signing-key-file={cluster.ca_key_file}"]
    signing.append(f"--service-account-private-key-file={cluster.service_account_key_file}")
    words = [f"--kubeconfig={kubeconfig}", *delegated, *signing, f"--secure-port={port}", *FLAGS, *flags]
    return pilothouse(directory, "manager", *words)


@pytest.fixture(scope="module")
def outcome(server: tuple[RealCluster, Audit], tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The scenario, once."""
    cluster, audit = server
    directory, port = tmp_path_factory.mktemp("scenario"), free_port()
    login = f"--kubeconfig={cluster.kubeconfig}"
    rights_scenario.prepare(cluster)
    delays = ["--pod-start-delay=50ms", "--pod-ready-delay=50ms", "--pod-stop-delay=50ms"]
    with (
        pilothouse(directory, "nodes", login, "--storage", "--nodes=3", *delays),
        pilothouse(directory, "scheduler", login),
        start(directory, cluster, port) as manager,
    ):
        manager.until("Starting controller")
        shutil.copy(cluster.ca_file, directory / "authority.crt")  # later connections read it again
        scenario = rights_scenario.Scenario(cluster, port)
        scenario.run()
        assert get(port, "/healthz", token=ADMIN_TOKEN)[0] == 200
        metrics, slis = (get(port, path, token=ADMIN_TOKEN)[1] for path in ("/metrics", "/metrics/slis"))
        audited_requests = audit()
        code = manager.stop()
        return Outcome(audited_requests, manager.log, code, metrics, slis, scenario.doomed, scenario.certificate)


def test_bootstrap_roles_allow_every_request(outcome: Outcome) -> None:
    assert len(outcome.audited_requests) > 500
    assert {item.user for item in outcome.audited_requests} == {MANAGER, *CLIENTS} - SILENT
    assert [item for item in outcome.audited_requests if item.forbidden] == []


def test_manager_metrics_have_no_forbidden_responses_outside_terminating_namespaces(outcome: Outcome) -> None:
    """Creates in terminating namespaces are rejected by admission, not by authorization; upstream's are, too (trace
    11)."""
    refused = [item for item in outcome.audited_requests if item.code == 403]
    assert {(item.verb, item.namespace) for item in refused} <= {("create", outcome.doomed)}
    assert total(outcome.metrics, "rest_client_requests_total", code="403") == len(refused)
    assert total(outcome.metrics, "rest_client_requests_total", code="200") > 300


KNOWN = (
    "there are no remaining CIDRs left",
    "unable to get REST mapping for rights.example.com/v1/Widget",
    "Deleting the content of a namespace failed",
    "is being terminated",
    "invalid bearer token",
    # The status update of a ReplicaSet that was deleted with its namespace fails.
    'replicasets.apps \\"web\\" not found',
    # What was deleted while its status was on the way.
    "Precondition failed: UID in precondition",
    "Skipping controller: the API server does not serve",
)
"""Deliberate failures, which are reported as upstream reports them."""


def test_manager_exits_cleanly_without_other_errors(outcome: Outcome) -> None:
    assert outcome.code == 0
    assert "Traceback" not in outcome.log
    complaints = re.findall(r"^[EW]\d{4} .*", outcome.log, re.MULTILINE)
    assert [line for line in complaints if not any(words in line for words in KNOWN)] == []


def test_user_agents_of_the_manager_are_upstreams(outcome: Outcome) -> None:
    """The last part of the User-Agent, by which the metrics and logs of API servers distinguish clients."""
    upstream: dict[tuple[str, str], set[str]] = {}
    for scenario in ("14-startup", "14-accounts", "16-leader-election"):
        for record in recorded(scenario):
            if record.user == "kube-controller-manager" and record.verb != "watch":
                upstream.setdefault((record.verb, record.resource), set()).add(record.agent)
    own = [item for item in outcome.audited_requests if item.user == MANAGER and item.verb not in {"list", "watch"}]
    # The manager of the traces had no key to fill Secrets with.
    actual = {(item.verb, item.resource, item.agent) for item in own if item.agent != "tokens-controller"}
    compared = [(verb, resource) for verb, resource, _agent in actual if (verb, resource) in upstream]
    assert {"leases", "events", "serviceaccounts", "serviceaccounts/token"} <= {
        resource for _verb, resource in compared
    }
    assert {item for item in actual if item[:2] in upstream and item[2] not in upstream[item[:2]]} == set()


def used(audit: list[Asked]) -> set[Right]:
    """The requests as RBAC rules describe them."""
    return {(item.user, item.verb, item.group, item.resource) for item in audit if item.resource}


def granted(account: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each verb with its groups and resources, in the whole cluster or in a namespace."""
    name = f"system:controller:{account}"
    roles = [obj for kind, obj in bootstrap_objects() if kind.endswith("roles") and obj["metadata"]["name"] == name]
    assert roles
    for rule in (rule for role in roles for rule in role["rules"]):
        for verb in rule["verbs"]:
            if rule["resources"] == ["events"] and verb != "create":
                continue  # repeated events are patched, through one recorder for all controllers
            if verb in {"list", "watch"} and account != "namespace-controller":
                continue  # informers are shared, and the manager's own
            yield verb, rule["apiGroups"], rule["resources"]


UNUSED = {
    ("bootstrap-signer", "create", "events"): "it has no events to record",
    ("bootstrap-signer", "get", "configmaps"): "the cache does it",
    ("bootstrap-signer", "get", "secrets"): "the cache does it",
    ("legacy-service-account-token-cleaner", "delete", "secrets"): "this server does not track who uses them",
    ("legacy-service-account-token-cleaner", "patch", "secrets"): "this server does not track who uses them",
    ("token-cleaner", "create", "events"): "it has no events to record",
    ("token-cleaner", "get", "secrets"): "the cache does it",
    ("attachdetach-controller", "get", "csidrivers"): "the cache does it",
    ("attachdetach-controller", "get", "csinodes"): "nothing that was migrated to CSI is attached here",
    ("attachdetach-controller", "get", "volumeattachments"): "the cache does it, but once in a long while",
    ("attachdetach-controller", "update", "nodes/status"): "a patch does it",
    ("certificate-controller", "approve", "signers"): "what admission asks, no request",
    ("certificate-controller", "create", "events"): "it has no events to record",
    ("certificate-controller", "get", "certificatesigningrequests"): "the cache does it",
    ("certificate-controller", "sign", "signers"): "what admission asks, no request",
    ("clusterrole-aggregation-controller", "escalate", "clusterroles"): "what an API server asks itself, no request",
    ("clusterrole-aggregation-controller", "get", "clusterroles"): "the cache does it",
    ("clusterrole-aggregation-controller", "update", "clusterroles"): "for servers without server-side apply",
    ("daemon-set-controller", "create", "pods/binding"): "binding is the scheduler's since v1.12",
    ("daemon-set-controller", "get", "controllerrevisions"): "after a collision of hashes only",
    ("daemon-set-controller", "update", "daemonsets/finalizers"): "for OwnerReferencesPermissionEnforcement",
    ("deployment-controller", "get", "pods"): "the cache does it",
    ("deployment-controller", "get", "replicasets"): "after a collision of hashes only",
    ("deployment-controller", "update", "deployments/finalizers"): "for OwnerReferencesPermissionEnforcement",
    ("deployment-controller", "update", "pods"): "the pods of old releases were labelled by it",
    ("endpoint-controller", "create", "endpoints/restricted"): "for an admission plugin that upstream does not have",
    ("endpoint-controller", "create", "events"): "only when a write fails",
    ("endpoint-controller", "get", "endpoints"): "the cache does it",
    ("endpoint-controller", "get", "pods"): "the cache does it",
    ("endpoint-controller", "get", "services"): "the cache does it",
    ("ephemeral-volume-controller", "create", "events"): "this server drops ephemeral volumes",
    ("ephemeral-volume-controller", "create", "persistentvolumeclaims"): "this server drops ephemeral volumes",
    ("ephemeral-volume-controller", "get", "persistentvolumeclaims"): "the cache does it",
    ("ephemeral-volume-controller", "get", "pods"): "the cache does it",
    ("ephemeral-volume-controller", "update", "pods/finalizers"): "for OwnerReferencesPermissionEnforcement",
    ("expand-controller", "get", "persistentvolumeclaims"): "the cache does it",
    ("expand-controller", "patch", "persistentvolumes"): "no plugin of this program expands anything",
    ("expand-controller", "update", "persistentvolumeclaims/status"): "a patch does it",
    ("expand-controller", "update", "persistentvolumes"): "no plugin of this program expands anything",
    ("generic-garbage-collector", "update", "*"): "patches do it",
    ("job-controller", "create", "events"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "create", "pods"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "delete", "pods"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "get", "jobs"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "patch", "jobs"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "patch", "pods"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "update", "jobs"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "update", "jobs/finalizers"): "Jobs need a server of today, see tests/clients",
    ("job-controller", "update", "jobs/status"): "Jobs need a server of today, see tests/clients",
    ("namespace-controller", "delete", "namespaces"): "finalize does it",
    ("namespace-controller", "list", "namespaces"): "informers are the manager's own",
    ("namespace-controller", "watch", "*"): "informers are the manager's own",
    ("namespace-controller", "watch", "namespaces"): "informers are the manager's own",
    ("node-controller", "patch", "nodes/status"): "an update does it",
    ("node-controller", "update", "nodes"): "patches do it",
    ("persistent-volume-binder", "create", "pods"): "nothing recycles volumes here",
    ("persistent-volume-binder", "delete", "pods"): "nothing recycles volumes here",
    ("persistent-volume-binder", "get", "pods"): "nothing recycles volumes here",
    ("persistent-volume-binder", "get", "storageclasses"): "the cache does it",
    ("pv-protection-controller", "create", "events"): "it has no events to record",
    ("pv-protection-controller", "get", "persistentvolumes"): "the cache does it",
    ("pvc-protection-controller", "create", "events"): "it has no events to record",
    ("pvc-protection-controller", "get", "persistentvolumeclaims"): "the cache does it",
    ("pvc-protection-controller", "get", "pods"): "a list does it",
    ("pvc-protection-controller", "update", "persistentvolumeclaims/status"): "behind a gate that is off",
    ("replicaset-controller", "update", "replicasets"): "the Deployment controller does that",
    ("replicaset-controller", "update", "replicasets/finalizers"): "for OwnerReferencesPermissionEnforcement",
    ("replication-controller", "update", "replicationcontrollers"): "deployments of its time did that",
    (
        "replication-controller",
        "update",
        "replicationcontrollers/finalizers",
    ): "for OwnerReferencesPermissionEnforcement",
    ("resourcequota-controller", "create", "events"): "it has no events to record",
    ("root-ca-cert-publisher", "create", "events"): "it has no events to record",
    ("route-controller", "create", "events"): "only when a route cannot be made",
    ("selinux-warning-controller", "get", "csidrivers"): "the cache does it",
    ("selinux-warning-controller", "get", "persistentvolumeclaims"): "the cache does it",
    ("selinux-warning-controller", "get", "persistentvolumes"): "the cache does it",
    ("selinux-warning-controller", "get", "pods"): "the cache does it",
    ("service-account-controller", "create", "events"): "it has no events to record",
    ("service-controller", "update", "services/status"): "a patch does it",
    ("statefulset-controller", "delete", "persistentvolumeclaims"): "the garbage collector does it",
    ("statefulset-controller", "get", "persistentvolumeclaims"): "the cache does it",
    ("statefulset-controller", "update", "persistentvolumeclaims"): "this server drops the retention policy",
    ("statefulset-controller", "update", "pods/finalizers"): "for OwnerReferencesPermissionEnforcement",
    ("statefulset-controller", "update", "statefulsets/finalizers"): "for OwnerReferencesPermissionEnforcement",
    ("ttl-after-finished-controller", "create", "events"): "it has no events to record",
    ("ttl-after-finished-controller", "delete", "jobs"): "this server drops ttlSecondsAfterFinished",
    ("ttl-after-finished-controller", "get", "jobs"): "this server drops ttlSecondsAfterFinished",
    ("ttl-controller", "create", "events"): "it has no events to record",
    ("ttl-controller", "update", "nodes"): "a patch does it",
}
"""What the roles grant and no path needs."""


@pytest.mark.parametrize("account", CLIENTS)
def test_scenario_uses_every_rule_of_the_role(outcome: Outcome, account: str) -> None:
    used_rules = {right[1:] for right in used(outcome.audited_requests) if right[0] == account}

    def was_used(verb: str, groups: list[str], resource: str) -> bool:
        return any(verb == v and resource in {"*", r} and ("*" in groups or g in groups) for v, g, r in used_rules)

    idle = {
        (account, verb, resource)
        for verb, groups, resources in granted(account)
        for resource in resources
        if not was_used(verb, groups, resource)
    }
    assert idle == {right for right in UNUSED if right[0] == account}


def test_openssl_verifies_the_certificate_of_a_joining_kubelet(
    outcome: Outcome, server: tuple[RealCluster, Audit], tmp_path: Path
) -> None:
    """That it logs in is part of the scenario."""
    (tmp_path / "joined.crt").write_bytes(outcome.certificate)
    words = ["-x509_strict", "-purpose", "sslclient", "-CAfile", str(server[0].ca_file), str(tmp_path / "joined.crt")]
    done = subprocess.run(["openssl", "verify", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    writes = [
        (item.verb, item.resource, item.name)
        for item in outcome.audited_requests
        if item.user == "certificate-controller"
    ]
    assert writes.count(("update", "certificatesigningrequests/approval", "joins")) == 1
    assert writes.count(("update", "certificatesigningrequests/status", "joins")) == 1
    assert ("delete", "certificatesigningrequests", rights_scenario.ENDED) in writes
    key = server[0].ca_key_file.read_text().splitlines()[1]
    assert key not in outcome.log + outcome.metrics


def test_missing_rule_is_detected(outcome: Outcome, server: tuple[RealCluster, Audit], tmp_path: Path) -> None:
    """The checks of the other tests can fail: by the audit log, by the metrics, by the log."""
    cluster, audit = server
    name = "system:controller:ttl-controller"
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"
    whole = role_of_v1_36("clusterroles", name)
    less = [{**rule, "verbs": [v for v in rule["verbs"] if v != "patch"]} for rule in whole["rules"]]
    cluster.request("PUT", path, {**whole, "rules": less})
    port = free_port()
    try:
        with start(tmp_path, cluster, port, "--controllers=ttl") as manager:
            cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": "newcomer"}})
            manager.until('cannot patch resource ..?"nodes', 40)
            until(lambda: answers(port).get("403", 0) > 0, "the metrics count it")
            assert manager.stop() == 0
    finally:
        cluster.request("DELETE", "/api/v1/nodes/newcomer")
        cluster.request("PUT", path, whole)
    refused = {(a.user, a.verb, a.resource) for a in audit()[len(outcome.audited_requests) :] if a.forbidden}
    assert refused == {("ttl-controller", "patch", "nodes")}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_upstream_metric_has_values(outcome: Outcome, metric: Metric) -> None:
    """Those of the manager in the facts of v1.36, at ``/metrics`` or ``/metrics/slis``."""
    exposed = families(outcome.slis if metric.name.startswith(SLIS) else outcome.metrics)
    if metric.name in SOMETIMES and metric.name not in exposed:
        return  # registered all the same: tests/controllermanager/test_metric_names.py
    assert exposed[metric.name] == metric


def test_every_upstream_workqueue_is_exposed(outcome: Outcome) -> None:
    names = {series.labels["name"] for series in parsed(outcome.metrics) if series.name == "workqueue_adds_total"}
    assert names >= QUEUES


QUEUES = {
    "bootstrap_signer_queue",
    "serviceaccount_tokens_service",
    "token_cleaner",
    "certificate",
    "claims",
    "volumes",
    "pvcprotection",
    "pvprotection",
    "ephemeral_volume",
    "selinux_warning",
    "volume_expand",
    "pvcs",
    "resourcequota_primary",
    "resourcequota_priority",
    "ClusterRoleAggregator",
    "replicaset",
    "daemonset",
    "daemonset-node-updates",
    "statefulset",
    "node_lifecycle_controller",
    "node_lifecycle_controller_pods",
    "noexec_taint_node",
    "noexec_taint_pod",
    "ttlcontroller",
    "orphaned_pods_nodes",
    "namespace",
    "garbage_collector_attempt_to_delete",
    "garbage_collector_attempt_to_orphan",
    "serviceaccount",
    "root_ca_cert_publisher",
}
"""Work queues of the controllers that there are, by upstream's names. ``garbage_collector_graph_changes`` and
``resource_quota_controller_resource_changes`` are not among them: events are looked at when they arrive
(docs/controllers/garbage_collector.md, resourcequota.md)."""


def test_metrics_agree_with_the_scenario(outcome: Outcome) -> None:
    """Counts of writes agree with the API server's, others with the scenario."""

    def writes(verb: str) -> int:
        return sum(1 for item in outcome.audited_requests if item.verb == verb)

    for method, verbs in (("POST", ["create"]), ("PUT", ["update"]), ("DELETE", ["delete", "deletecollection"])):
        # The Lease is renewed, and events are sent, between two reads.
        assert total(outcome.metrics, "rest_client_requests_total", method=method) == pytest.approx(
            sum(map(writes, verbs)), abs=8
        )
    assert total(outcome.metrics, "taint_eviction_controller_pod_deletions_total") >= 2
    assert total(outcome.metrics, "node_collector_evictions_total") >= 1
    for reason in ("orphaned", "out-of-service", "unscheduled", "terminated"):
        assert total(outcome.metrics, "pod_gc_collector_force_delete_pods_total", reason=reason) >= 1, reason
    assert total(outcome.metrics, "node_ipam_controller_cidrset_cidrs_releases_total") >= 1
    assert total(outcome.metrics, "node_ipam_controller_cidrset_usage_cidrs") == 1
    assert total(outcome.metrics, "leader_election_master_status", name="kube-controller-manager") == 1
    assert total(outcome.metrics, "rest_client_transport_create_calls_total", result="miss") == 3 + len(CLIENTS)
    assert total(outcome.metrics, "rest_client_transport_cache_entries") == 3 + len(CLIENTS)
    assert total(outcome.metrics, "rest_client_exec_plugin_call_total", code="0") >= 1
    assert total(outcome.metrics, "rest_client_dns_resolution_duration_seconds_count", host="localhost") >= 1
