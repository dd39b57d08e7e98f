"""``kubectl drain`` on ``pilothouse up`` respects disruption budgets.

The disruption controller keeps the budget, the API server asks it at each eviction, the ReplicaSet and the nodes bring
up the successors. A pod takes a second to be ready here, so that a drain that did not wait would take all at once.
"""

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.clients.test_up import Terminal, replica_set
from tests.programs import pilothouse, until

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")

REPLICAS = 6
FLAGS = ("--nodes=2", "--pod-start-delay=50ms", "--pod-ready-delay=1s", "--pod-stop-delay=50ms")


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    directory = tmp_path_factory.mktemp("drain")
    with pilothouse(directory, "up", "--port=0", *FLAGS) as up:
        up.until("pilothouse is ready")
        yield Terminal(directory)
        assert up.stop() == 0
        assert "Traceback" not in up.log


class PodWatcher:
    """Watches the pods: the smallest number of pods that were ready and not terminating."""

    def __init__(self, kubectl: Terminal) -> None:
        self._kubectl = kubectl
        self._over = threading.Event()
        self.fewest = REPLICAS
        self.looks = 0
        self._thread = threading.Thread(target=self._observe)

    def __enter__(self) -> "PodWatcher":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()

    def _observe(self) -> None:
        while not self._over.is_set():
            healthy = [pod for pod in self._kubectl.pods().values() if is_ready(pod)]
            self.fewest = min(self.fewest, len(healthy))
            self.looks += 1
            time.sleep(0.02)


def is_ready(pod: Any) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))


def budget(kubectl: Terminal) -> dict[str, Any]:
    obj: dict[str, Any] = kubectl.get("pdb", "web")["status"]
    return obj


def busiest(kubectl: Terminal) -> str:
    nodes: list[str] = [pod["spec"]["nodeName"] for pod in kubectl.pods().values()]
    return max(sorted(set(nodes)), key=nodes.count)


def test_drain_respects_the_disruption_budget(kubectl: Terminal) -> None:
    kubectl("create", "-f", "-", stdin=replica_set(replicas=REPLICAS))
    kubectl("create", "pdb", "web", "--selector=app=web", "--max-unavailable=1")
    kubectl.until_ready(REPLICAS)
    until(lambda: budget(kubectl)["disruptionsAllowed"] == 1, "one may go")
    row = kubectl("get", "pdb", "web", "--no-headers").split()
    assert row[:4] == ["web", "N/A", "1", "1"]
    node = busiest(kubectl)
    leaving = [name for name, pod in kubectl.pods().items() if pod["spec"]["nodeName"] == node]
    assert len(leaving) >= 3
    began = time.monotonic()
    with PodWatcher(kubectl) as lookout:
        drained = run(kubectl, "drain", node, "--timeout=60s")
    took = time.monotonic() - began
    assert drained.returncode == 0, drained.stderr
    assert f"node/{node} drained" in drained.stdout
    assert "Cannot evict pod as it would violate the pod's disruption budget" in drained.stderr
    assert lookout.looks > 5
    assert lookout.fewest >= REPLICAS - 1
    assert took > len(leaving) - 1, "each successor takes a second"
    kubectl.until_ready(REPLICAS)
    assert not {pod["spec"]["nodeName"] for pod in kubectl.pods().values()} & {node}
    until(lambda: budget(kubectl)["disruptionsAllowed"] == 1, "one may go again")
    assert "disruptedPods" not in budget(kubectl)
    kubectl("uncordon", node)


def test_drain_waits_while_no_disruption_is_allowed(kubectl: Terminal) -> None:
    kubectl("patch", "pdb", "web", "--type=merge", "-p", '{"spec":{"maxUnavailable":0}}')
    until(lambda: budget(kubectl)["disruptionsAllowed"] == 0, "nobody may go")
    node = busiest(kubectl)
    before = set(kubectl.pods())
    drained = run(kubectl, "drain", node, "--timeout=8s")
    assert drained.returncode == 1
    assert "global timeout reached: 8s" in drained.stderr
    assert set(kubectl.pods()) == before
    assert "InsufficientPods" in kubectl("get", "pdb", "web", "-o", "yaml")
    kubectl("delete", "pdb", "web")
    assert run(kubectl, "drain", node, "--timeout=60s").returncode == 0
    kubectl("uncordon", node)
    kubectl.until_ready(REPLICAS)


def test_describe_shows_the_budget_and_its_events(kubectl: Terminal) -> None:
    kubectl("create", "pdb", "nobody", "--selector=app=nobody", "--min-available=50%")
    until(lambda: "No matching pods found" in kubectl("describe", "pdb", "nobody"), "it is told of")
    described = kubectl("describe", "pdb", "nobody")
    for words in (
        "Min available:  50%",
        "Allowed disruptions:  0",
        "Current:              0",
        "Total:                0",
    ):
        assert words in described
    assert "controllermanager" in described


def run(kubectl: Terminal, *words: str) -> subprocess.CompletedProcess[str]:
    """kubectl, however it ends."""
    assert KUBECTL is not None
    command = [KUBECTL, "--kubeconfig", str(Path(kubectl.directory) / ".pilothouse/kubeconfig"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
