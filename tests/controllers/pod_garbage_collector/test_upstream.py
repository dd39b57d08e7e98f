"""Cases of v1.36 ``pkg/controller/podgc/gc_controller_test.go``, and their coverage."""

import asyncio
from pathlib import Path

import msgspec
from tests.controllers.node_world import NODES, PODS, World
from tests.controllers.upstream_coverage import Cases, missing
from tests.tables import cases

from pilothouse.controllers.cleanup.pod_garbage_collector import DESCRIPTOR, PodGarbageCollectorOptions

OUT = "node.kubernetes.io/out-of-service"

COVERED: Cases = {
    "TestGCTerminated: delete pod a which is PodFailed and pod b which is PodSucceeded": (
        "test_terminated_pods_above_the_threshold"
    ),
    "TestGCTerminated: threshold = 0, disables terminated pod deletion": "test_terminated_pods_above_the_threshold",
    "TestGCTerminated: threshold = 1, delete pod a which is PodFailed and pod b which is PodSucceeded": (
        "test_terminated_pods_above_the_threshold"
    ),
    "TestGCTerminated: threshold = 1, delete pod b which is PodSucceeded": "test_terminated_pods_above_the_threshold",
    "TestGCTerminated: threshold = 1, delete pod a which is PodFailed": "test_terminated_pods_above_the_threshold",
    "TestGCTerminated: threshold = 5, don't delete pod": "test_terminated_pods_above_the_threshold",
    "TestGCTerminated: (evicted first)": "test_terminated_pods_above_the_threshold",
    "TestGCTerminated: (evicted first, one running)": "test_terminated_pods_above_the_threshold",
    "TestGCOrphaned: nodes present in lister": "test_gc_orphaned",
    "TestGCOrphaned: nodes present in client": "test_gc_orphaned",
    "TestGCOrphaned: no nodes": "test_gc_orphaned",
    "TestGCOrphaned: no nodes, one running pod": "test_gc_orphaned",
    "TestGCOrphaned: quarantine not finished": "test_gc_orphaned",
    "TestGCOrphaned: wrong nodes": "test_gc_orphaned",
    "TestGCOrphaned: some nodes missing": "test_gc_orphaned",
    "TestGCOrphaned: node added to client after quarantine": "test_gc_orphaned",
    "TestGCOrphaned: node added to informer after quarantine": "test_gc_orphaned",
    "TestGCOrphaned: node deleted from client after quarantine": "test_gc_orphaned",
    "TestGCOrphaned: node deleted from informer after quarantine": "test_gc_orphaned",
    "TestGCUnscheduledTerminating: Unscheduled pod in any phase must be deleted": "test_gc_unscheduled_terminating",
    "TestGCUnscheduledTerminating: Scheduled pod in any phase must not be deleted": "test_gc_unscheduled_terminating",
    "TestGCTerminating: pods have deletion timestamp set and the corresponding nodes are not ready": (
        "test_gc_terminating"
    ),
    "TestGCTerminating: some of the corresponding nodes have an outofservice taint that are not ready": (
        "test_gc_terminating"
    ),
    "TestGCTerminating: pods deleted from node tainted out-of-service": (
        "test_terminated_pod_of_an_out_of_service_node_gets_no_condition"
    ),
    "TestGCInspectingPatchedPodBeforeDeletion: orphaned pod should have DisruptionTarget condition": (
        "test_orphan_condition_patch_is_upstreams"
    ),
}


def test_every_upstream_case_is_covered() -> None:
    assert missing(COVERED, Path(__file__).parent) == []


class Row(msgspec.Struct):
    """Pods by name as (node, phase), existing nodes, the changes in second 50, and the deleted and marked pods."""

    pods: dict[str, tuple[str, str]]
    known: tuple[str, ...] = ()
    """To the server and to the cache."""
    unseen: tuple[str, ...] = ()
    """To the server only."""
    added: tuple[str, ...] = ()
    added_unseen: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    end: float = 85.0
    deleted: str = ""
    marked: str = ""


@cases(
    "row",
    {
        "the cache has the nodes (nodes present in lister)": Row(
            pods={"a": ("n1", "Running"), "b": ("n2", "Failed"), "c": ("n2", "Succeeded")}, known=("n1", "n2")
        ),
        "only the server has them (nodes present in client)": Row(
            pods={"a": ("n1", "Running"), "b": ("n2", "Failed"), "c": ("n2", "Succeeded")}, unseen=("n1", "n2")
        ),
        "no nodes": Row(pods={"a": ("gone", "Failed"), "b": ("gone", "Succeeded")}, deleted="ab"),
        "no nodes, one running pod": Row(
            pods={"a": ("gone", "Failed"), "b": ("gone", "Succeeded"), "c": ("gone", "Running")},
            deleted="abc",
            marked="c",
        ),
        "quarantine not finished": Row(pods={"a": ("gone", "Failed")}, end=55.0),
        "wrong nodes": Row(pods={"a": ("gone", "Running")}, known=("n1",), deleted="a", marked="a"),
        "some nodes missing": Row(
            pods={
                "a": ("gone", "Failed"),
                "b": ("n1", "Failed"),
                "c": ("gone", "Succeeded"),
                "d": ("gone", "Running"),
            },
            known=("n1",),
            deleted="acd",
            marked="d",
        ),
        "node added to client after quarantine": Row(pods={"a": ("n1", "Running")}, added_unseen=("n1",)),
        "node added to informer after quarantine": Row(pods={"a": ("n1", "Failed")}, added=("n1",)),
        "node deleted from client after quarantine": Row(
            pods={"a": ("n1", "Failed")}, unseen=("n1",), removed=("n1",), deleted="a"
        ),
        "node deleted from informer after quarantine": Row(
            pods={"a": ("n1", "Succeeded")}, known=("n1",), removed=("n1",)
        ),
    },
)
async def test_gc_orphaned(world: World, row: Row) -> None:
    """TestGCOrphaned. Passes are in seconds 0, 20, 40, …; a node that is missing in second 20 is looked up in 60."""
    await world.start(DESCRIPTOR)
    await asyncio.sleep(1)
    for name in row.known:
        await world.node(name)
    await asyncio.sleep(1)
    hold = world.faults.hold(resource="nodes") if row.unseen or row.added_unseen else None
    if hold is not None:
        hold.__enter__()
    for name in row.unseen:
        await world.node(name)
    for pod, (node, phase) in row.pods.items():
        await world.pod(pod, node=node, phase=phase)
    await asyncio.sleep(48)
    assert "delete" not in {text.split()[0] for text in world.requests()}
    for name in (*row.added, *row.added_unseen):
        await world.node(name)
    for name in row.removed:
        await world.delete(f"{NODES}/{name}")
    await asyncio.sleep(row.end - 50)
    await assert_deleted_and_marked(world, row.deleted, row.marked, "orphaned")
    if hold is not None:
        hold.__exit__(None, None, None)


async def assert_deleted_and_marked(world: World, deleted: str, marked: str, reason: str) -> None:
    """Which pods were deleted, and patched before; and the metric."""
    requests = world.requests(reads=False)
    assert sorted(text.split()[-1] for text in requests if text.startswith("delete pods")) == sorted(deleted)
    assert sorted(text.split()[-1] for text in requests if text.startswith("patch pods/status")) == sorted(marked)
    assert world.metrics.value("pod_gc_collector_force_delete_pods_total", "default", reason) == len(deleted)
    assert world.metrics.value("pod_gc_collector_force_delete_pod_errors_total", "default", reason) == 0


@cases(
    "node, leaving, deleted, marked",
    {
        "Unscheduled pod in any phase must be deleted": ("", "abc", "abc", "c"),
        "unscheduled pods that are not terminating": ("", "", "", ""),
        "bound (Scheduled pod in any phase must not be deleted)": ("n1", "c", "", ""),
    },
)
async def test_gc_unscheduled_terminating(world: World, node: str, leaving: str, deleted: str, marked: str) -> None:
    """TestGCUnscheduledTerminating. Finalizers keep pods that an API server would remove immediately."""
    await world.start(DESCRIPTOR, PodGarbageCollectorOptions(terminated_threshold=-1))
    await world.node("n1")
    for name, phase in (("a", "Failed"), ("b", "Succeeded"), ("c", "Running")):
        await world.pod(name, node=node, phase=phase, finalizers=["example.com/hold"])
    for name in leaving:
        await world.merge(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
        await world.delete(f"{PODS}/{name}", grace=30)
        phase = {"a": "Failed", "b": "Succeeded", "c": "Running"}[name]
        await world.merge(f"{PODS}/{name}/status", {"status": {"phase": phase}})
    grace_periods = [p["metadata"].get("deletionGracePeriodSeconds") for p in (await world.must_get(PODS))["items"]]
    assert node or all(seconds == 0 for seconds in grace_periods if seconds is not None), "unbound pods get no grace"
    await asyncio.sleep(25)
    # An ended pod that is held by finalizers alone is left alone: the API server has deleted it already.
    message = "".join(name for name in deleted if name in marked)
    await assert_deleted_and_marked(world, message, marked, "unscheduled")


@cases(
    "nodes, pods, deleted",
    {
        "nodes not ready without out-of-service taint": (
            {"n0": ("False", ""), "n1": ("False", "")},
            {"a": ("n0", True), "b": ("n1", True)},
            "",
        ),
        "terminating pods of nodes not ready with out-of-service taint": (
            {
                "n0": ("False", "NoExecute"),
                "n1": ("False", ""),
                "n2": ("True", ""),
                "n3": ("False", "NoSchedule"),
                "n4": ("False", "PreferNoSchedule"),
                "n5": ("Unknown", "NoExecute"),
                "n6": ("True", "NoExecute"),
            },
            {
                "a": ("n0", True),
                "b": ("n1", True),
                "c": ("n2", True),
                "d": ("n3", True),
                "e": ("n4", True),
                "f": ("n5", True),
                "g": ("n6", True),
                "h": ("n0", False),
                "i": ("n3", False),
            },
            "adef",
        ),
    },
)
async def test_gc_terminating(
    world: World, nodes: dict[str, tuple[str, str]], pods: dict[str, tuple[str, bool]], deleted: str
) -> None:
    """TestGCTerminating."""
    await world.start(DESCRIPTOR)
    for name, (ready, effect) in nodes.items():
        taints = ({"key": OUT, "effect": effect},) if effect else ()
        await world.node(name, conditions={"Ready": ready}, taints=taints)
    for name, (node, leaving) in pods.items():
        await world.pod(name, node=node)
        if leaving:
            await world.delete(f"{PODS}/{name}")
    await asyncio.sleep(25)
    await assert_deleted_and_marked(world, deleted, deleted, "out-of-service")


async def test_terminated_pod_of_an_out_of_service_node_gets_no_condition(world: World) -> None:
    """TestGCTerminating 'pods deleted from node tainted out-of-service'."""
    await world.start(DESCRIPTOR)
    await world.node("n", conditions={"Ready": "False"}, taints=({"key": OUT, "effect": "NoExecute"},))
    for name, phase in (("a", "Running"), ("b", "Failed"), ("c", "Succeeded")):
        await world.pod(name, node="n")
        await world.delete(f"{PODS}/{name}")
        await world.merge(f"{PODS}/{name}/status", {"status": {"phase": phase}})
    await asyncio.sleep(25)
    await assert_deleted_and_marked(world, "abc", "a", "out-of-service")
