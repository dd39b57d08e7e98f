"""The secure port of ``pilothouse manager``, with authorization by kube-apiserver."""

import base64
import datetime
import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.programs import free_port, pilothouse, until
from tests.real_cluster import ADMIN_TOKEN, RealCluster, missing_programs

from pilothouse.serving.certificates import create_authority, issue_client

SHORT = ("--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=1s")
ALL_THREE = "--controllers=replicaset,garbagecollector,namespace"


def get(
    port: int,
    path: str,
    *,
    token: str = "",
    certificate: tuple[Path, Path] | None = None,
    ca: Path | None = None,
    method: str = "GET",
    headers: dict[str, str] | None = None,
) -> tuple[int, str]:
    """Status and body of a page of the secure port."""
    context = ssl.create_default_context(cafile=str(ca)) if ca else ssl._create_unverified_context()
    if certificate is not None:
        context.load_cert_chain(*certificate)
    connection = http.client.HTTPSConnection("localhost", port, timeout=10, context=context)
    try:
        login = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, headers={**login, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def certificate_of(kubeconfig: Path, directory: Path) -> tuple[Path, Path]:
    """The client certificate and key in a kubeconfig, as files."""
    user = json.loads(kubeconfig.read_text())["users"][0]["user"]
    files = directory / "client.crt", directory / "client.key"
    for file, field in zip(files, ("client-certificate-data", "client-key-data"), strict=True):
        file.write_bytes(base64.b64decode(user[field]))
    return files


class Served:
    """A manager with all three controllers and its secure port, delegating to the real API server."""

    def __init__(self, cluster: RealCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.port = free_port()
        kubeconfig = cluster.kubeconfig
        self.program = pilothouse(
            directory,
            "manager",
            ALL_THREE,
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={directory}/certificates",
            "--leader-elect-resource-name=served",
            "--authorization-webhook-cache-unauthorized-ttl=1s",
            "--v=2",
            *SHORT,
        )

    def get(self, path: str, token: str = ADMIN_TOKEN) -> tuple[int, str]:
        return get(self.port, path, token=token)


@pytest.fixture(scope="module")
def served(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(real_cluster, tmp_path_factory.mktemp("served"))
    with served.program as program:
        program.until("Starting controller")
        until(lambda: served.get("/readyz")[0] == 200, "the manager is ready")
        yield served


def test_healthz_is_anonymous_and_lists_every_check(served: Served) -> None:
    assert served.get("/healthz", token="") == (200, "ok")
    status, text = served.get("/healthz?verbose", token="")
    assert status == 200
    assert text.splitlines() == [
        "[+]leaderElection ok",
        "[+]garbage-collector-controller ok",
        "[+]namespace-controller ok",
        "[+]replicaset-controller ok",
        "healthz check passed",
    ]
    assert served.get("/livez", token="") == (200, "ok")
    assert served.get("/readyz", token="") == (200, "ok")
    _, text = served.get("/healthz?verbose&exclude=leaderElection&exclude=other", token="")
    assert "[+]leaderElection excluded: ok" in text
    assert 'warn: some health checks cannot be excluded: no matches for "other"' in text


def test_single_checks_and_unknown_paths(served: Served) -> None:
    assert served.get("/healthz/leaderElection") == (200, "ok")
    assert served.get("/healthz/leaderElection", token="")[0] == 403
    assert served.get("/healthz/nothing")[0] == 404
    assert served.get("/nothing") == (404, "404 page not found\n")


def test_metrics_require_authorization(served: Served, directory: Path) -> None:
    cluster = served.cluster
    assert served.get("/metrics", token="")[0] == 403
    status, text = served.get("/metrics", token="wrong")
    assert (status, json.loads(text)["message"]) == (401, "Unauthorized")
    assert served.get("/healthz", token="wrong")[0] == 401
    status, text = served.get("/metrics")
    assert status == 200
    assert "# TYPE workqueue_depth gauge" in text
    assert 'leader_election_master_status{name="served"} 1' in text
    assert 'running_managed_controllers{name="replicaset-controller",manager="kube-controller-manager"} 1' in text
    rights = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    reader = certificate_of(cluster.user("metrics-reader", rules=rights), directory)
    assert get(served.port, "/metrics", certificate=reader)[0] == 200
    status, text = get(served.port, "/configz", certificate=reader)
    assert (status, json.loads(text)["message"]) == (
        403,
        'forbidden: User "metrics-reader" cannot get path "/configz"',
    )


def test_service_account_token_is_accepted(served: Served) -> None:
    cluster, namespace = served.cluster, served.cluster.namespace("scraper")
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.request("POST", accounts, {"metadata": {"name": "scraper"}})
    token = cluster.request("POST", f"{accounts}/scraper/token", {"spec": {}})["status"]["token"]
    assert served.get("/metrics", token=token)[0] == 403
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    name = f"metrics-{namespace}"
    rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    cluster.request("POST", f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": namespace}],
    }
    cluster.request("POST", f"{rbac}/clusterrolebindings", binding)
    # The no is remembered for a second.
    until(lambda: served.get("/metrics", token=token)[0] == 200, "the new right counts", 10)


def test_configz_has_upstreams_format(served: Served) -> None:
    status, text = served.get("/configz")
    assert status == 200
    document = json.loads(text)["kubecontrollermanager.config.k8s.io"]
    assert document["kind"] == "KubeControllerManagerConfiguration"
    assert document["apiVersion"] == "kubecontrollermanager.config.k8s.io/v1alpha1"
    assert document["Generic"]["Controllers"] == ["replicaset", "garbagecollector", "namespace"]
    assert document["Generic"]["LeaderElection"]["leaseDuration"] == "3s"
    assert document["ReplicaSetController"] == {"ConcurrentRSSyncs": 5}
    assert document["NamespaceController"] == {"ConcurrentNamespaceSyncs": 10, "NamespaceSyncPeriod": "5m0s"}


def test_self_signed_certificate_is_kept_in_cert_dir(served: Served) -> None:
    folder = served.directory / "certificates"
    assert sorted(file.name for file in folder.iterdir()) == [
        "kube-controller-manager.crt",
        "kube-controller-manager.key",
    ]
    assert (folder / "kube-controller-manager.key").stat().st_mode & 0o077 == 0
    assert get(served.port, "/healthz", ca=folder / "kube-controller-manager.crt")[0] == 200


PAGES = (
    "/metrics", "/metrics/slis", "/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/pprof/cmdline",
    "/debug/pprof/goroutine", "/debug/pprof/heap", "/debug/flags/v", "/readyz/controllers",
    "/debug/controllers/garbage-collector-controller/graph", "/nothing",
)  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_every_other_path_requires_authorization(served: Served, directory: Path, method: str) -> None:
    stranger = directory / "eve.crt", directory / "eve.key"
    now = datetime.datetime.now(datetime.UTC)
    issue_client(create_authority("others", now), "eve", ["system:masters"], now).save(*stranger)
    certificate = certificate_of(served.cluster.user("nobody", rules=[]), directory)
    for path in PAGES:
        assert get(served.port, path, method=method)[0] == 403, path
        assert get(served.port, path, method=method, token="wrong")[0] == 401, path
        assert get(served.port, path, method=method, certificate=stranger)[0] == 401, path
        assert get(served.port, path, method=method, certificate=certificate)[0] == 403, path
        vouched = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        assert get(served.port, path, method=method, headers=vouched)[0] == 403, path
        assert get(served.port, path, method=method, certificate=certificate, headers=vouched)[0] == 403, path


def test_invalid_client_certificate_is_unauthorized_unless_a_token_is_valid(served: Served, directory: Path) -> None:
    stranger = directory / "eve.crt", directory / "eve.key"
    now = datetime.datetime.now(datetime.UTC)
    issue_client(create_authority("others", now), "eve", ["system:masters"], now).save(*stranger)
    status, text = get(served.port, "/healthz", certificate=stranger)
    assert (status, json.loads(text)["reason"]) == (401, "Unauthorized")
    assert get(served.port, "/metrics", certificate=stranger, token=ADMIN_TOKEN)[0] == 200


def test_debug_endpoints(served: Served) -> None:
    assert "strict digraph full {" in served.get("/debug/controllers/garbage-collector-controller/graph")[1]
    assert "task lead-served:" in served.get("/debug/pprof/goroutine?debug=2")[1]
    assert "kube-controller-manager statusz" in served.get("/statusz")[1]
    assert (
        'kubernetes_healthchecks_total{name="leaderElection",status="success",type="' in served.get("/metrics/slis")[1]
    )
    assert served.get("/debug/pprof/profile?seconds=1&format=collapsed")[0] == 200


def test_client_ca_config_map_changes_are_applied(served: Served, directory: Path) -> None:
    cluster = served.cluster
    now = datetime.datetime.now(datetime.UTC)
    other = create_authority("rotated", now)
    rotated = directory / "new.crt", directory / "new.key"
    issue_client(other, "newcomer", ["system:masters"], now).save(*rotated)
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    before = cluster.request("GET", path)["data"]["client-ca-file"]

    def says(bundle: str) -> None:
        document = cluster.request("GET", path)
        document["data"]["client-ca-file"] = bundle
        cluster.request("PUT", path, document)

    assert get(served.port, "/metrics", certificate=rotated)[0] == 401
    says(before + other.certificate.decode())
    until(lambda: get(served.port, "/metrics", certificate=rotated)[0] == 200, "the new authority counts", 10)
    says(before)
    until(lambda: get(served.port, "/metrics", certificate=rotated)[0] == 401, "and counts no more", 10)


def test_standby_manager_is_healthy(served: Served, directory: Path) -> None:
    port = free_port()
    flags = [ALL_THREE, "--leader-elect-resource-name=served", f"--secure-port={port}", *SHORT]
    with pilothouse(directory, "manager", f"--kubeconfig={served.cluster.kubeconfig}", *flags) as standby:
        standby.until("Attempting to acquire")
        until(lambda: _answers(port), "the secure port is up before leadership is won")
        assert get(port, "/healthz?verbose") == (200, "[+]leaderElection ok\nhealthz check passed\n")
        assert get(port, "/readyz")[0] == 200
        assert standby.stop() == 0
    assert "acquired lease" not in standby.log


def _answers(port: int) -> bool:
    try:
        return get(port, "/healthz")[0] == 200
    except OSError:
        return False


@pytest.mark.real(cluster="own")
@pytest.mark.skipif(bool(missing_programs()), reason=missing_programs())
def test_client_ca_added_later_is_used(directory: Path) -> None:
    cluster = RealCluster(["--client-ca-file="]).start()
    maps = "/api/v1/namespaces/kube-system/configmaps"
    try:
        until(
            lambda: cluster.try_request("GET", "/api/v1/namespaces/kube-system")[0] == 200,
            "the system's namespace is made",
        )
        assert cluster.try_request("GET", f"{maps}/extension-apiserver-authentication")[0] == 404
        served = Served(cluster, directory)
        with served.program as program:
            program.until("Starting controller")
            now = datetime.datetime.now(datetime.UTC)
            authority = create_authority("late", now)
            certificate = directory / "late.crt", directory / "late.key"
            issue_client(authority, "late", ["system:masters"], now).save(*certificate)
            assert get(served.port, "/metrics", certificate=certificate)[0] == 403, "a certificate proves nothing yet"
            meta = {"name": "extension-apiserver-authentication"}
            cluster.request(
                "POST", maps, {"metadata": meta, "data": {"client-ca-file": authority.certificate.decode()}}
            )
            until(lambda: get(served.port, "/metrics", certificate=certificate)[0] == 200, "the authority counts", 10)
            assert program.stop() == 0
        assert program.log.count("The cluster has no client CAs") == 1
    finally:
        cluster.stop()
