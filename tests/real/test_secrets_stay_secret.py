"""No secret leaves the manager: neither by its log at any verbosity, nor by any path of its secure port."""

import base64
import json
from pathlib import Path

import pytest
from tests.programs import free_port, pilothouse, until
from tests.real.cluster_view import View, replica_set
from tests.real.test_secure_port import get
from tests.real_cluster import ADMIN_TOKEN, RealCluster

CANARY = "canary-5bd1e1b6"
PAGES = (
    "/healthz?verbose",
    "/readyz?verbose",
    "/metrics",
    "/metrics/slis",
    "/configz",
    "/flagz",
    "/statusz",
    "/debug/pprof/",
    "/debug/pprof/cmdline",
    "/debug/pprof/goroutine?debug=1",
    "/debug/pprof/goroutine?debug=2",
    "/debug/pprof/heap",
    "/debug/pprof/profile?seconds=1&debug=1",
    "/debug/controllers/garbage-collector-controller/graph",
)


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_do_not_leak_into_logs_or_endpoints(real_cluster: RealCluster, directory: Path, form: str) -> None:
    view = View(real_cluster, real_cluster.namespace("secrets"))
    secrets = f"/api/v1/namespaces/{view.namespace}/secrets"
    real_cluster.request("POST", secrets, {"metadata": {"name": "treasure"}, "stringData": {"password": CANARY}})
    account = {"metadata": {"name": "robot", "namespace": view.namespace}}
    real_cluster.request("POST", f"/api/v1/namespaces/{view.namespace}/serviceaccounts", account)
    meta = {"name": "robot", "annotations": {"kubernetes.io/service-account.name": "robot"}}
    real_cluster.request("POST", secrets, {"metadata": meta, "type": "kubernetes.io/service-account-token"})
    invited = {"token-id": "canary", "token-secret": f"{CANARY}-secret", "usage-bootstrap-signing": "true"}
    system, name = "/api/v1/namespaces/kube-system/secrets", "bootstrap-token-canary"
    token_secret = {"metadata": {"name": name}, "type": "bootstrap.kubernetes.io/token", "stringData": invited}
    real_cluster.request("POST", system, token_secret)
    kubeconfig = real_cluster.user("system:kube-controller-manager", groups=["system:masters"])
    user = json.loads(kubeconfig.read_text())["users"][0]["user"]
    port = free_port()
    with pilothouse(
        directory,
        "manager",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--controllers=replicaset,garbagecollector,namespace,tokencleaner,bootstrapsigner",
        f"--service-account-private-key-file={real_cluster.service_account_key_file}",
        "--use-service-account-credentials",
        "--leader-elect=false",
        f"--secure-port={port}",
        f"--logging-format={form}",
        "--v=10",
    ) as manager:
        manager.until("Serving securely")
        view.create(replica_set("web", 1, grace=0))
        until(lambda: len(view.pods()) == 1, "a pod comes")
        # Wrong credentials are secrets, too: mistyped ones, or those for another server.
        assert get(port, "/metrics", token=f"{CANARY}-token")[0] == 401
        assert get(port, f"/metrics?token={CANARY}", token=ADMIN_TOKEN)[0] == 200
        assert get(port, "/metrics", headers={"Authorization": f"Basic {CANARY}"})[0] == 403
        until(lambda: real_cluster.request("GET", f"{secrets}/robot").get("data"), "a Secret is filled")
        token = base64.b64decode(real_cluster.request("GET", f"{secrets}/robot")["data"]["token"]).decode()
        over = {"stringData": {"expiration": "2020-01-01T00:00:00Z"}}
        real_cluster.request("PATCH", f"{system}/{name}", over, content_type="application/merge-patch+json")
        until(
            lambda: real_cluster.try_request("GET", f"{system}/{name}")[0] == 404,
            "the cleaner has looked at the other one",
        )
        view.kubectl("delete", "rs", "web")
        until(lambda: not view.pods(), "the garbage collector has its graph")
        view.kubectl("delete", "namespace", view.namespace, "--timeout=30s")
        pages = {page: get(port, page, token=ADMIN_TOKEN) for page in PAGES}
        assert {status for status, _text in pages.values()} == {200}
        assert manager.stop() == 0
    assert "GET" in manager.log or "Caches" in manager.log, "the log is a talkative one"
    key = base64.b64decode(user["client-key-data"]).decode().splitlines()[1]
    # The beginning of JSON Web Tokens, such as those of service accounts.
    signs = real_cluster.service_account_key_file.read_text().splitlines()[1]
    encoded = [base64.b64encode(text.encode()).decode() for text in (CANARY, token)]
    signature = token.rpartition(".")[2]
    for part in (CANARY, *encoded, ADMIN_TOKEN, key, signs, token, signature, "eyJhbGciOi", "PRIVATE KEY"):
        assert part not in manager.log, part
        for page, (_status, text) in pages.items():
            assert part not in text, (page, part)
