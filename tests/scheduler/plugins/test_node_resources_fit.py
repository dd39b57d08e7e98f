"""As kube-scheduler v1.36 ``plugins/noderesources/fit_test.go`` and ``least_allocated_test.go``."""

from typing import Any

import pytest
from tests.scheduler.build import filter_status, info, node, pod

from pilothouse.api.core import Node, Pod
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.node_resources_fit import least_allocated

GPU = "example.com/gpu"


def init(cpu: str, policy: str = "") -> dict[str, Any]:
    return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **({"restartPolicy": policy} if policy else {})}


@pytest.mark.parametrize(
    ("wanted", "placed", "reasons", "unresolvable"),
    [
        # noderesources/fit_test.go: TestEnoughRequests, TestNotEnoughRequests, TestRestartableInitContainers,
        # TestPodLevelResources
        pytest.param(pod(), pod("q", "4", "8Gi"), (), False, id="a pod without requests always fits"),
        pytest.param(pod("p", "2"), pod("q", "2"), (), False, id="fits exactly"),
        pytest.param(
            pod("p", "1", "1Gi"), pod("q", "4", "8Gi"), ("cpu", "memory"), False, id="cpu and memory are insufficient"
        ),
        pytest.param(pod("p", "1"), pod("q", "4"), ("cpu",), False, id="cpu is insufficient"),
        pytest.param(pod("p", "", "1Gi"), pod("q", "4", "8Gi"), ("memory",), False, id="memory is insufficient"),
        pytest.param(pod("p", "5"), pod("q"), ("cpu",), True, id="more than allocatable: unresolvable"),
        pytest.param(pod(more={GPU: "2"}), pod("q"), (), False, id="an extended resource"),
        pytest.param(
            pod(more={GPU: "2"}), pod("q", more={GPU: "1"}), (GPU,), False, id="an extended resource is insufficient"
        ),
        pytest.param(
            pod(more={"example.com/x": "1"}),
            pod("q"),
            ("example.com/x",),
            True,
            id="an extended resource that the node lacks",
        ),
        pytest.param(pod(more={"ephemeral-storage": "1Gi"}), pod("q"), ("ephemeral-storage",), True, id="storage"),
        pytest.param(
            pod(more={GPU: "3", "cpu": "9", "ephemeral-storage": "1"}),
            pod("q"),
            ("cpu", "ephemeral-storage", GPU),
            True,
            id="all insufficient resources, extended ones last",
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("3")]), pod("q", "1"), (), False, id="init containers run first"
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("4")]), pod("q", "1"), ("cpu",), False, id="the largest init container"
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("3"), init("3")]),
            pod("q", "1"),
            (),
            False,
            id="init containers run one after the other",
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("3", "Always")]),
            pod("q", "1"),
            ("cpu",),
            False,
            id="sidecars keep running",
        ),
        pytest.param(
            pod("p", "1", initContainers=[init("2", "Always"), init("2")]),
            pod("q", "1"),
            ("cpu",),
            False,
            id="a sidecar runs beside later init containers",
        ),
        pytest.param(pod("p", "1", overhead={"cpu": "3"}), pod("q", "1"), ("cpu",), False, id="overhead is added"),
        pytest.param(
            pod("p", "1", resources={"requests": {"cpu": "4"}}), pod("q", "1"), ("cpu",), False, id="pod-level requests"
        ),
    ],
)
def test_filter(wanted: Pod, placed: Pod, reasons: tuple[str, ...], unresolvable: bool) -> None:
    found = filter_status(wanted, node(more={GPU: "2"}), placed)
    if not reasons:
        assert found is None
    else:
        expected = tuple(f"Insufficient {name}" for name in reasons)
        assert found == Status("NodeResourcesFit", expected, unresolvable)


def test_the_number_of_pods_is_limited() -> None:
    full = node(pods="1")
    assert filter_status(pod(), full, pod("q")) == Status("NodeResourcesFit", ("Too many pods",))
    both = Status("NodeResourcesFit", ("Too many pods", "Insufficient cpu"), unresolvable=True)
    assert filter_status(pod("p", "5"), full, pod("q")) == both


@pytest.mark.parametrize(
    ("wanted", "there", "placed", "expected"),
    [
        # noderesources/least_allocated_test.go
        pytest.param(pod("p", "0", "0"), node(cpu="4", memory="10000"), [], 100, id="no requests"),
        pytest.param(
            pod("p", "3", "5000"), node(cpu="4", memory="10000"), [], (25 + 50) // 2, id="a quarter and a half left"
        ),
        pytest.param(pod("p", "3", "5000"), node(cpu="6", memory="10000"), [], (50 + 50) // 2, id="half and half left"),
        pytest.param(
            pod("p", "0", "0"),
            node(cpu="10", memory="20000"),
            [pod("q", "3", "0"), pod("r", "3", "5000")],
            (40 + 75) // 2,
            id="requests of pods on the node",
        ),
        pytest.param(
            pod("p", "3", "5000"),
            node(cpu="10", memory="20000"),
            [pod("q", "3", "0"), pod("r", "3", "5000")],
            (10 + 50) // 2,
            id="requests of pods on the node and of the pod",
        ),
        pytest.param(pod("p", "5", "0"), node(cpu="4", memory="10000"), [], (0 + 100) // 2, id="more than there is"),
        pytest.param(
            pod("p", "1", "0"), node(cpu="4", memory="0"), [], 75, id="a resource that the node lacks is left out"
        ),
        # noderesources/resource_allocation_test.go: a container without requests counts as 100m and 200Mi
        pytest.param(
            pod(), node(cpu="1", memory="2000Mi"), [], (90 + 90) // 2, id="defaults for a pod without requests"
        ),
        pytest.param(
            pod(containers=[{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "400m"}}}]),
            node(cpu="1", memory="2000Mi"),
            [],
            (50 + 80) // 2,
            id="defaults container by container",
        ),
    ],
)
def test_least_allocated(wanted: Pod, there: Node, placed: list[Pod], expected: int) -> None:
    assert least_allocated(PodInfo(wanted), info(there, *placed)) == expected
