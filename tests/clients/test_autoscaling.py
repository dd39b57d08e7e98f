"""``pilothouse up`` with kubectl: resource usage in ``kubectl top``, and an autoscaler that follows it.

The manager runs beside, because a look every second is a flag of its own.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.test_kubectl import KUBECTL
from tests.clients.test_up import Terminal, start
from tests.programs import pilothouse, until

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl in $KUBEBUILDER_ASSETS or on the PATH")

LABELS = {"app": "web"}
LOAD = "simulated.pilothouse.dev/cpu-load"
MANAGER = (
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
    "--leader-elect=false",
    "--secure-port=0",
)


def deployment() -> dict[str, Any]:
    resources = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    container = {"name": "main", "image": "nginx", "resources": resources}
    pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
    template = {"metadata": {"labels": LABELS}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def autoscaler() -> dict[str, Any]:
    """As ``kubectl autoscale`` creates it, with a shorter window."""
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 5,
        "metrics": [{"type": "Resource", "resource": cpu}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 3}},
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    directory = tmp_path_factory.mktemp("autoscaling")
    with start(directory, "--nodes=2", "--no-manager") as up:
        up.until("is ready")
        with pilothouse(directory, "manager", "--kubeconfig=.pilothouse/kubeconfig", *MANAGER) as manager:
            manager.until("Starting controller")
            yield Terminal(directory)
            assert manager.stop() == 0
            assert "Traceback" not in manager.log
        assert up.stop() == 0
        assert "Traceback" not in up.log


def test_replicas_follow_the_load(terminal: Terminal) -> None:
    terminal("create", "-f", "-", stdin=deployment())
    terminal.until_ready(1)
    rows = [row.split() for row in terminal("top", "pods").splitlines()]
    assert rows[0] == ["NAME", "CPU(cores)", "MEMORY(bytes)"]
    assert [row[1:] for row in rows[1:]] == [["10m", "32Mi"]]
    assert [row.split()[1:] for row in terminal("top", "pods", "--containers", "--no-headers").splitlines()] == [
        ["main", "10m", "32Mi"]
    ]
    assert {row.split()[0] for row in terminal("top", "nodes", "--no-headers").splitlines()} == {"node-0", "node-1"}

    terminal("create", "-f", "-", stdin=autoscaler())
    until(lambda: "cpu: 10%/50%" in terminal("get", "hpa"), "it is looked at")
    terminal("annotate", "deployment", "web", f"{LOAD}=200m")
    terminal.until_ready(4)
    until(lambda: "cpu: 50%/50%" in terminal("get", "hpa"), "each of four has its share")
    assert {row.split()[1] for row in terminal("top", "pods", "--no-headers").splitlines()} == {"50m"}
    assert "New size: 4; reason: cpu resource utilization (percentage of request) above target" in terminal(
        "get", "events", "--field-selector=reason=SuccessfulRescale"
    )
    description = terminal("describe", "hpa", "web")
    assert "ValidMetricFound" in description
    assert "DesiredWithinRange" in description

    terminal("annotate", "deployment", "web", f"{LOAD}=3", "--overwrite")
    terminal.until_ready(5)
    until(lambda: "TooManyReplicas" in terminal("describe", "hpa", "web"), "more is wanted than may be")
    terminal("annotate", "deployment", "web", f"{LOAD}-")
    terminal.until_ready(1)
    obj = terminal.get("hpa", "web")["status"]
    assert (obj["currentReplicas"], obj["desiredReplicas"]) in {(5, 1), (1, 1)}
    terminal("delete", "hpa", "web")
    terminal("delete", "deployment", "web")


def test_metrics_api_is_listed(terminal: Terminal) -> None:
    assert [row.split()[0] for row in terminal("get", "nodes.metrics.k8s.io").splitlines()] == [
        "NAME",
        "node-0",
        "node-1",
    ]
    assert "NodeMetrics" in terminal("api-resources", "--api-group=metrics.k8s.io")
    assert terminal("get", "apiservice", "v1beta1.metrics.k8s.io", "--no-headers").split()[2] == "True"


def test_kubectl_top_without_metrics_fails(tmp_path_factory: pytest.TempPathFactory) -> None:
    directory = tmp_path_factory.mktemp("no-metrics")
    with start(directory, "--nodes=1", "--no-manager", "--no-metrics") as up:
        up.until("is ready")
        with pytest.raises(AssertionError, match="error: Metrics API not available"):
            Terminal(directory)("top", "nodes")
