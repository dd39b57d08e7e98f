"""The manager with the rights of upstream's v1.36 roles only, on kube-apiserver."""

import re
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.programs import Program, free_port, pilothouse, until
from tests.real.cluster_view import View, replica_set, three_ready
from tests.real.conftest import role_of_v1_36

pytestmark = pytest.mark.usefixtures("machines")

ROLE = "system:controller:replicaset-controller"
LOCKING = "system::leader-locking-kube-controller-manager"


def answers(port: int) -> dict[str, int]:
    """How many answers of each status the manager has had so far, by its own metrics."""
    unverified = ssl._create_unverified_context()
    with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", context=unverified) as page:
        lines = page.read().decode().splitlines()
    counts: dict[str, int] = {}
    for line in lines:
        match = re.match(r'rest_client_requests_total\{code="(\d+)".*\} (\d+)', line)
        if match is not None:
            counts[match[1]] = counts.get(match[1], 0) + int(match[2])
    return counts


def start(directory: Path, kubeconfig: Path, port: int, *flags: str) -> Program:
    """The manager with one controller, whose metrics are public."""
    always = [f"--kubeconfig={kubeconfig}", "--controllers=replicaset", f"--secure-port={port}", "--v=4"]
    return pilothouse(directory, "manager", *always, "--authorization-always-allow-paths=/metrics", *flags)


def complaints(manager: Program) -> list[str]:
    """Errors and warnings that it logged, but for nodes of other tests that changed under its hands."""
    lines: list[str] = re.findall(r"^[EW]\d{4} .*$", manager.log, re.MULTILINE)
    return [line for line in lines if "the object has been modified" not in line]


def run_its_scenario(view: View) -> None:
    """Create, replace, adopt, scale: every permission is used."""
    view.create(replica_set("web", 3))
    first = three_ready(view)
    view.kubectl("delete", "pod", sorted(first)[0], "--wait=true")
    until(lambda: len(view.ready()) == 3, "the deleted pod is replaced")
    view.kubectl("label", "pod", sorted(view.ready())[0], "app=other", "--overwrite")
    until(lambda: len(view.ready()) == 4 and view.status("web").get("readyReplicas") == 3, "one is released")
    view.kubectl("label", "pods", "--all", "app=web", "--overwrite")
    until(lambda: len(view.pods()) == 3, "it is adopted again, and is one too many")
    view.scale("web", 1)
    until(lambda: len(view.pods()) == 1 and view.status("web").get("replicas") == 1, "one pod is left")
    until(lambda: view.events("SuccessfulDelete"), "events arrive")


def check(view: View, manager: Program, port: int) -> None:
    """The scenario succeeds, and no request was forbidden."""
    with manager:
        run_its_scenario(view)
        counts = answers(port)
        assert manager.stop() == 0
    assert counts["201"] >= 4, "the metrics count requests"
    assert "403" not in counts
    assert complaints(manager) == []


def test_replica_set_controller_role_is_sufficient(view: View, directory: Path) -> None:
    user = view.cluster.user("only-replicaset", rules=role_of_v1_36("clusterroles", ROLE)["rules"])
    port = free_port()
    check(view, start(directory, user, port, "--leader-elect=false"), port)


def test_missing_role_is_visible_in_the_metrics(view: View, directory: Path) -> None:
    """The check of the other tests can fail, and the manager keeps running."""
    port = free_port()
    with start(directory, view.cluster.user("nobody"), port, "--leader-elect=false") as manager:
        manager.until("replicasets.apps is forbidden", 20)
        until(lambda: "403" in answers(port), "refusals are counted")
        assert manager.stop() == 0
    assert "Traceback" not in manager.log


def test_leader_locking_role_is_sufficient(view: View, directory: Path) -> None:
    cluster, name = view.cluster, f"v1.36{LOCKING}"
    user = cluster.user("replicaset-leader", rules=role_of_v1_36("clusterroles", ROLE)["rules"])
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system"
    rules = role_of_v1_36("roles", LOCKING)["rules"]
    cluster.request("POST", f"{rbac}/roles", {"metadata": {"name": name}, "rules": rules})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "replicaset-leader"}],
    }
    cluster.request("POST", f"{rbac}/rolebindings", binding)
    port = free_port()
    manager = start(directory, user, port)
    check(view, manager, port)
    assert "Successfully acquired lease" in manager.log
    assert "Released lease" in manager.log


NODE_ROLES = ("system:controller:node-controller", "system:controller:pod-garbage-collector")
READ_ALL = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}
"""What system:kube-controller-manager has for the informers that all controllers share."""


def test_node_and_pod_gc_controller_roles_are_sufficient(view: View, directory: Path) -> None:
    """A node never reports again: Unknown, taints, labels, pods marked, evicted, and forced off when it is out of
    service. The other nodes renew their Leases every ten seconds."""
    cluster, name, port = view.cluster, "silent-0", free_port()
    node = f"/api/v1/nodes/{name}"
    rules = [rule for role in NODE_ROLES for rule in role_of_v1_36("clusterroles", role)["rules"]]
    user = cluster.user("only-nodes", rules=[*rules, READ_ALL])
    words = [f"--kubeconfig={user}", "--controllers=nodelifecycle,taint-eviction-controller,podgc", "--v=4"]
    timing = ["--node-monitor-period=500ms", "--node-monitor-grace-period=13s", "--node-eviction-rate=5"]
    serving = [f"--secure-port={port}", "--authorization-always-allow-paths=/metrics", "--leader-elect=false"]

    def merge(path: str, body: dict[str, Any]) -> None:
        cluster.request("PATCH", path, body, content_type="application/merge-patch+json")

    def conditions(path: str) -> dict[str, str]:
        return {c["type"]: c["status"] for c in cluster.request("GET", path)["status"].get("conditions", ())}

    labels = {"kubernetes.io/os": "linux"}
    cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    merge(f"{node}/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    pod = f"{view.pods_path}/p"
    cluster.request(
        "POST",
        view.pods_path,
        {"metadata": {"name": "p"}, "spec": {"nodeName": name, "containers": [{"name": "main", "image": "pause"}]}},
    )
    ready = [{"type": "Ready", "status": "True"}]
    merge(f"{pod}/status", {"status": {"phase": "Running", "conditions": ready}})
    try:
        with pilothouse(directory, "manager", *words, *timing, *serving) as manager:
            until(lambda: conditions(node)["Ready"] == "Unknown", "the node is called silent")
            until(lambda: conditions(pod)["Ready"] == "False", "its pod is marked")
            obj = cluster.request("GET", node)
            assert obj["metadata"]["labels"]["beta.kubernetes.io/os"] == "linux"
            until(lambda: len(cluster.request("GET", node)["spec"].get("taints", ())) == 2, "it is tainted twice")
            out = {"key": "node.kubernetes.io/out-of-service", "value": "x", "effect": "NoExecute"}
            merge(node, {"spec": {"taints": [*cluster.request("GET", node)["spec"]["taints"], out]}})
            until(lambda: view.events("TaintManagerEviction"), "its pod must leave at once")
            until(
                lambda: not cluster.request("GET", view.pods_path)["items"], "and is forced off in the next pass", 40.0
            )
            counts = answers(port)
            assert manager.stop() == 0
    finally:
        cluster.request("DELETE", node)
    assert counts["200"] >= 8, "the metrics count requests"
    assert "403" not in counts
    assert complaints(manager) == []
