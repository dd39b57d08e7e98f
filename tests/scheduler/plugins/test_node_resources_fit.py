"""As kube-scheduler v1.36 ``plugins/noderesources/fit_test.go`` and ``least_allocated_test.go``."""

import asyncio
from typing import Any

from tests.nodes.world import World
from tests.scheduler.build import filter_status, info, node, pod
from tests.tables import cases

from pilothouse.api.core import PODS, Node, Pod
from pilothouse.client import merge_patch
from pilothouse.scheduler.framework.status import Status
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.plugins.node_resources_fit import least_allocated

GPU = "example.com/gpu"


def init(cpu: str, policy: str = "") -> dict[str, Any]:
    return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **({"restartPolicy": policy} if policy else {})}


@cases(
    "wanted, placed, reasons, unresolvable",
    {
        # noderesources/fit_test.go: TestEnoughRequests, TestNotEnoughRequests, TestRestartableInitContainers,
        # TestPodLevelResources
        "a pod without requests always fits": (pod(), pod("q", "4", "8Gi"), (), False),
        "exact fit": (pod("p", "2"), pod("q", "2"), (), False),
        "cpu and memory are insufficient": (pod("p", "1", "1Gi"), pod("q", "4", "8Gi"), ("cpu", "memory"), False),
        "cpu is insufficient": (pod("p", "1"), pod("q", "4"), ("cpu",), False),
        "memory is insufficient": (pod("p", "", "1Gi"), pod("q", "4", "8Gi"), ("memory",), False),
        "more than allocatable: unresolvable": (pod("p", "5"), pod("q"), ("cpu",), True),
        "an extended resource": (pod(more={GPU: "2"}), pod("q"), (), False),
        "an extended resource is insufficient": (pod(more={GPU: "2"}), pod("q", more={GPU: "1"}), (GPU,), False),
        "an extended resource that the node lacks": (
            pod(more={"example.com/x": "1"}),
            pod("q"),
            ("example.com/x",),
            True,
        ),
        "storage": (pod(more={"ephemeral-storage": "1Gi"}), pod("q"), ("ephemeral-storage",), True),
        "all insufficient resources, extended ones last": (
            pod(more={GPU: "3", "cpu": "9", "ephemeral-storage": "1"}),
            pod("q"),
            ("cpu", "ephemeral-storage", GPU),
            True,
        ),
        "init containers run first": (pod("p", "1", initContainers=[init("3")]), pod("q", "1"), (), False),
        "the largest init container": (pod("p", "1", initContainers=[init("4")]), pod("q", "1"), ("cpu",), False),
        "init containers run one after the other": (
            pod("p", "1", initContainers=[init("3"), init("3")]),
            pod("q", "1"),
            (),
            False,
        ),
        "sidecars keep running": (pod("p", "1", initContainers=[init("3", "Always")]), pod("q", "1"), ("cpu",), False),
        "a sidecar runs beside later init containers": (
            pod("p", "1", initContainers=[init("2", "Always"), init("2")]),
            pod("q", "1"),
            ("cpu",),
            False,
        ),
        "overhead is added": (pod("p", "1", overhead={"cpu": "3"}), pod("q", "1"), ("cpu",), False),
        "pod-level requests": (pod("p", "1", resources={"requests": {"cpu": "4"}}), pod("q", "1"), ("cpu",), False),
    },
)
def test_filter(wanted: Pod, placed: Pod, reasons: tuple[str, ...], unresolvable: bool) -> None:
    result = filter_status(wanted, node(more={GPU: "2"}), placed)
    if not reasons:
        assert result is None
    else:
        expected = tuple(f"Insufficient {name}" for name in reasons)
        assert result == Status("NodeResourcesFit", expected, unresolvable)


def resized(requested: str, allocated: str, actual: str, **status: Any) -> Pod:
    """A pod on a node whose resize from ``actual`` is in progress."""
    container = {"name": "c", "allocatedResources": {"cpu": allocated}, "resources": {"requests": {"cpu": actual}}}
    return pod("q", requested, status={"containerStatuses": [container], **status})


INFEASIBLE = {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]}


@cases(
    "placed, cpu",
    {
        # component-helpers resource/helpers_test.go
        "nothing allocated yet": (pod("q", "1"), 1),
        "grows": (resized("3", "1", "1"), 3),
        "shrinks": (resized("1", "1", "3"), 3),
        "allocated, not actuated": (resized("1", "2", "1"), 2),
        "infeasible": (resized("3", "1", "2", **INFEASIBLE), 2),
        "pod level grows": (
            pod("q", "1", resources={"requests": {"cpu": "2"}}, status={"resources": {"requests": {"cpu": "3"}}}), 3,
        ),
    },
)  # fmt: skip
def test_a_pod_that_is_being_resized_counts_with_the_maximum(placed: Pod, cpu: int) -> None:
    assert filter_status(pod("p", str(4 - cpu)), node(), placed) is None
    assert filter_status(pod("p", f"{4 - cpu}001m"), node(), placed) is not None


async def test_a_pod_that_has_shrunk_makes_room(world: World) -> None:
    await world.create_node("a")
    await world.create_pod("big", cpu="1", node="a")
    await set_actual(world, "3")
    await asyncio.sleep(1)
    await world.create_pod(cpu="2")
    await asyncio.sleep(20)
    assert (await world.existing()).spec.node_name == ""
    await set_actual(world, "1")
    await asyncio.sleep(1)
    assert (await world.existing()).spec.node_name == "a"


async def set_actual(w: World, cpu: str) -> None:
    status = {"name": "c", "image": "app:v1", "imageID": "", "ready": True, "restartCount": 0}
    patch = merge_patch({"status": {"containerStatuses": [{**status, "resources": {"requests": {"cpu": cpu}}}]}})
    await w.client.patch(PODS.raw, "big", patch, "default", subresource="status")


def test_the_number_of_pods_is_limited() -> None:
    full = node(pods="1")
    assert filter_status(pod(), full, pod("q")) == Status("NodeResourcesFit", ("Too many pods",))
    both = Status("NodeResourcesFit", ("Too many pods", "Insufficient cpu"), unresolvable=True)
    assert filter_status(pod("p", "5"), full, pod("q")) == both


@cases(
    "wanted, existing, placed, expected",
    {
        # noderesources/least_allocated_test.go
        "no requests": (pod("p", "0", "0"), node(cpu="4", memory="10000"), [], 100),
        "25 % and 50 % free": (pod("p", "3", "5000"), node(cpu="4", memory="10000"), [], (25 + 50) // 2),
        "50 % and 50 % free": (pod("p", "3", "5000"), node(cpu="6", memory="10000"), [], (50 + 50) // 2),
        "requests of pods on the node": (
            pod("p", "0", "0"),
            node(cpu="10", memory="20000"),
            [pod("q", "3", "0"), pod("r", "3", "5000")],
            (40 + 75) // 2,
        ),
        "requests of pods on the node and of the pod": (
            pod("p", "3", "5000"),
            node(cpu="10", memory="20000"),
            [pod("q", "3", "0"), pod("r", "3", "5000")],
            (10 + 50) // 2,
        ),
        "request above allocatable": (pod("p", "5", "0"), node(cpu="4", memory="10000"), [], (0 + 100) // 2),
        "resource without allocatable is skipped": (pod("p", "1", "0"), node(cpu="4", memory="0"), [], 75),
        # noderesources/resource_allocation_test.go: a container without requests counts as 100m and 200Mi
        "defaults for a pod without requests": (pod(), node(cpu="1", memory="2000Mi"), [], (90 + 90) // 2),
        "pod-level requests of the pod do not count": (
            pod("p", "2", resources={"requests": {"cpu": "5", "memory": "6000Mi"}}),
            node(cpu="10", memory="10000Mi"),
            [],
            (80 + 98) // 2,
        ),
        "pod-level requests of pods on the node do": (
            pod("p", "0", "0"),
            node(cpu="10", memory="10000Mi"),
            [pod("q", "2", resources={"requests": {"memory": "6000Mi"}})],
            (80 + 40) // 2,
        ),
        "with them there are defaults only of what nothing requests": (
            pod("p", "0", "0"),
            node(cpu="1", memory="10000Mi"),
            [
                pod(
                    "q",
                    containers=[{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "400m"}}}],
                    resources={"requests": {"hugepages-2Mi": "2Mi"}},
                )
            ],
            (60 + 96) // 2,
        ),
        "defaults container by container": (
            pod(containers=[{"name": "a"}, {"name": "b", "resources": {"requests": {"cpu": "400m"}}}]),
            node(cpu="1", memory="2000Mi"),
            [],
            (50 + 80) // 2,
        ),
    },
)
def test_least_allocated(wanted: Pod, existing: Node, placed: list[Pod], expected: int) -> None:
    assert least_allocated(PodInfo(wanted), info(existing, *placed)) == expected
