"""``pilothouse scheduler`` as upstream's user, with the rights of v1.36, against a real kube-apiserver."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.programs import pilothouse
from tests.real.conftest import apply_v1_36
from tests.real_cluster import RealCluster
from tests.scheduler.build import HOSTNAME, ZONE, spread

NAME = "trial"
USER = "system:kube-scheduler"
NODES = ("trial-a1", "trial-a2", "trial-b1")
PATIENCE = 15.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def namespace(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A namespace, three nodes in two zones, a priority class, and the scheduler."""
    apply_v1_36(real_cluster, "clusterroles", USER)
    for node in NODES:
        labels = {HOSTNAME: node, ZONE: node[-2], "pool": NAME}
        resources = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        status = {"allocatable": resources, "capacity": resources}
        real_cluster.request("POST", "/api/v1/nodes", {"metadata": {"name": node, "labels": labels}, "status": status})
        # No node lifecycle controller runs, which would remove the taint of new nodes.
        patch = {"spec": {"taints": None}}
        real_cluster.request("PATCH", f"/api/v1/nodes/{node}", patch, content_type="application/merge-patch+json")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    real_cluster.request("POST", classes, {"metadata": {"name": NAME}, "value": 1000})
    kubeconfig = real_cluster.user(USER, cluster_roles=[USER])
    directory: Path = tmp_path_factory.mktemp("scheduler")
    with pilothouse(directory, "scheduler", f"--kubeconfig={kubeconfig}", f"--scheduler-name={NAME}"):
        yield real_cluster.namespace("scheduler")
    real_cluster.request("DELETE", f"{classes}/{NAME}")
    for node in NODES:
        real_cluster.request("DELETE", f"/api/v1/nodes/{node}")


class Pods:
    """The pods of the namespace."""

    def __init__(self, cluster: RealCluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str, cpu: str = "100m", **spec: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "schedulerName": NAME, "nodeSelector": {"pool": NAME}, **spec}
        self._cluster.request("POST", self._path, {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})

    def get(self, name: str) -> dict[str, Any]:
        obj: dict[str, Any] = self._cluster.request("GET", f"{self._path}/{name}")
        return obj

    def node(self, name: str) -> str:
        return str(self.get(name)["spec"].get("nodeName", ""))

    def condition(self, name: str, kind: str) -> dict[str, Any]:
        conditions = self.get(name)["status"].get("conditions", ())
        return next((c for c in conditions if c["type"] == kind), {})

    def end(self, *names: str) -> None:
        for name in names:
            self._cluster.request("DELETE", f"{self._path}/{name}?gracePeriodSeconds=0")

    def events(self, reason: str) -> list[str]:
        obj = self._cluster.request("GET", f"/api/v1/namespaces/{self._namespace}/events")
        return [event["message"] for event in obj["items"] if event["reason"] == reason]


@pytest.fixture
def pods(real_cluster: RealCluster, namespace: str) -> Pods:
    return Pods(real_cluster, namespace)


def test_pods_are_spread_over_zones(pods: Pods) -> None:
    names = [f"p{number}" for number in range(8)]
    for name in names:
        pods.create(name, topologySpreadConstraints=[spread(ZONE)])
    until(lambda: all(pods.node(name) for name in names))
    assert Counter(pods.node(name)[-2] for name in names) == {"a": 4, "b": 4}
    pods.end(*names)


def test_a_pod_of_high_priority_preempts_one_of_lower_priority(pods: Pods) -> None:
    low = ["low-0", "low-1", "low-2"]
    for name in low:
        pods.create(name, "3")
    until(lambda: all(pods.node(name) for name in low))
    pods.create("vip", "2", priorityClassName=NAME)
    until(lambda: pods.get("vip")["status"].get("nominatedNodeName"))
    vip = pods.get("vip")
    node = vip["status"]["nominatedNodeName"]
    (victim,) = [name for name in low if pods.node(name) == node]
    until(lambda: pods.get(victim)["metadata"].get("deletionTimestamp"))
    reason = pods.condition(victim, "DisruptionTarget")
    assert (reason["status"], reason["reason"]) == ("True", "PreemptionByScheduler")
    condition = pods.condition("vip", "PodScheduled")
    message = "3 Insufficient cpu"
    assert (condition["reason"], message in condition["message"]) == ("Unschedulable", True)
    until(lambda: pods.events("Preempted"))
    assert pods.events("Preempted") == [f"Preempted by pod {vip['metadata']['uid']} on node {node}"]
    pods.end(victim)  # as its kubelet would
    until(lambda: pods.node("vip"))
    assert pods.node("vip") == node  # v1.20 keeps nominatedNodeName, newer servers clear it
    pods.end("vip", *(name for name in low if name != victim))
