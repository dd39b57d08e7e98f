"""A node fails in a cluster with kube-apiserver, in real time, with short periods: ``pilothouse manager`` with our
nodes and scheduler.

What takes a minute because no flag shortens it (pod garbage collection) runs with ``--soak``; with short periods and
without programs it is in ``tests/controllers/node_lifecycle/test_real.py``.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs import Program, pilothouse, until
from tests.real.cluster_view import View, is_ready, replica_set
from tests.real_cluster import RealCluster

pytestmark = pytest.mark.usefixtures("machines")

NODES = "/api/v1/nodes"
DOWN = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
GRACE, STAYS = 13.0, 4
"""Simulated nodes renew their Leases every ten seconds."""
FLAGS = (
    "--controllers=replicaset,nodelifecycle,taint-eviction-controller,podgc",
    "--node-monitor-period=500ms",
    f"--node-monitor-grace-period={GRACE:.0f}s",
    "--node-eviction-rate=5",
    "--leader-elect=false",
    "--secure-port=0",
    "--v=2",
)


@pytest.fixture
def manager(real_cluster: RealCluster, machines: None, tmp_path: Path) -> Iterator[Program]:
    """As administrator: the roles of old servers do not allow the node controller to read pods."""
    with pilothouse(tmp_path, "manager", f"--kubeconfig={real_cluster.kubeconfig}", *FLAGS) as program:
        yield program


@pytest.fixture
def doomed(real_cluster: RealCluster, manager: Program, tmp_path: Path) -> Iterator[Program]:
    """A separate machine, whose node is ``doomed-0``."""
    words = ("nodes", f"--kubeconfig={real_cluster.kubeconfig}", "--node-prefix=doomed-", "--nodes=1")
    with pilothouse(tmp_path, *words, "--pod-start-delay=50ms", name="doomed") as program:
        yield program
    real_cluster.request("DELETE", f"{NODES}/doomed-0")


def tolerating(document: dict[str, Any], *tolerations: dict[str, Any]) -> dict[str, Any]:
    document["spec"]["template"]["spec"]["tolerations"] = list(tolerations)
    return document


def test_pods_of_a_dead_node_are_evicted_and_replaced(
    view: View, manager: Program, doomed: Program, soak: bool
) -> None:
    cluster = view.cluster

    def node() -> dict[str, Any]:
        obj: dict[str, Any] = cluster.request("GET", f"{NODES}/doomed-0")
        return obj

    def taints() -> set[str]:
        return {f"{taint['key']}:{taint['effect']}" for taint in node()["spec"].get("taints", ())}

    def ready() -> str:
        conditions: dict[str, str] = {c["type"]: c["status"] for c in node()["status"]["conditions"]}
        return conditions["Ready"]

    def all_pods() -> dict[str, dict[str, Any]]:
        return {pod["metadata"]["name"]: pod for pod in cluster.request("GET", view.pods_path)["items"]}

    def on_it(pods: dict[str, dict[str, Any]]) -> set[str]:
        return {name for name, pod in pods.items() if pod["spec"].get("nodeName") == "doomed-0"}

    until(lambda: view.kubectl("get", "nodes", "-o", "name").count("doomed-0"), "the machine has registered")
    until(lambda: ready() == "True" and not taints(), "and is ready for pods")
    brief = [{"key": k, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAYS} for k in DOWN]
    view.create(tolerating(replica_set("brief", 12), *brief))
    daemon = replica_set("daemon", 8, labels={"app": "daemon"})
    view.create(tolerating(daemon, {"operator": "Exists"}))
    until(lambda: len(view.ready()) == 20, "all pods are ready")
    remaining = on_it(view.pods())
    staying = {name for name in remaining if name.startswith("daemon")}
    leaving = remaining - staying
    assert leaving, "some of the pods are on the machine"
    assert staying

    doomed.kill()
    died = time.monotonic()
    until(lambda: ready() == "Unknown", "its silence is noticed", 60.0)
    assert time.monotonic() - died > GRACE - 11.0, "not before the grace period after its last renewal"
    until(lambda: not any(is_ready(all_pods()[name]) for name in remaining), "its pods are not ready")
    until(lambda: f"{DOWN[1]}:NoExecute" in taints(), "its pods are to leave")
    tainted = time.monotonic()
    assert set(view.pods()) >= leaving, "but not at once"
    until(lambda: not set(view.pods()) & leaving, "whoever tolerates for a time is deleted")
    assert time.monotonic() - tainted > STAYS - 1.5
    assert set(view.pods()) >= staying, "whoever tolerates forever stays"
    until(lambda: len([n for n in view.ready() if n.startswith("brief")]) == 12, "the others are replaced")
    assert on_it({name: pod for name, pod in view.pods().items() if name.startswith("brief")}) == set()
    targets = {
        c["reason"] for n in leaving for c in all_pods()[n]["status"]["conditions"] if c["type"] == "DisruptionTarget"
    }
    assert targets == {"DeletionByTaintManager"}
    assert {event["reason"] for event in view.events("TaintManagerEviction")} == {"TaintManagerEviction"}
    assert set(all_pods()) >= remaining, "nobody is there to say that they have ended"

    if soak:
        cluster.request("DELETE", f"{NODES}/doomed-0")
        until(lambda: not on_it(all_pods()), "the pods of a node that is gone are collected", 120.0)
        until(lambda: len(view.ready()) == 20, "and those that tolerated are replaced too")
        cluster.request("POST", NODES, {"metadata": {"name": "doomed-0"}})
    view.clear()
    assert "Traceback" not in manager.log
