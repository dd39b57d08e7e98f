"""Pods to collect. Rows mirror ``pkg/controller/podgc/gc_controller_test.go`` of v1.36 where they say so."""

import datetime

from tests.tables import cases

from pilothouse.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodCondition, PodSpec, PodStatus, Taint
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.cleanup.pod_garbage_collector.decide import (
    index_by_garbage,
    is_out_of_service,
    pods_over_threshold,
    sorted_for_deletion,
)
from pilothouse.controllers.shared.disruption import disruption_target, status_patch

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def pod(name: str, phase: str, *, age: int = 0, reason: str = "", node: str = "node", leaving: bool = False) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            generation=3,
            creation_timestamp=EPOCH - datetime.timedelta(hours=age),
            deletion_timestamp=EPOCH if leaving else None,
        ),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, reason=reason),
    )


def terminated(pods: list[Pod]) -> list[Pod]:
    return [p for p in pods if "terminated" in index_by_garbage(p)]


@cases(
    "pods, threshold, expected",
    {
        "threshold = 0 disables terminated pod deletion (TestGCTerminated)": (
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1)],
            0,
            [],
        ),
        "threshold = 1, disruption conditions (TestGCTerminated)": (
            [pod("a", "Failed", age=3), pod("b", "Succeeded", age=2), pod("c", "Failed", age=1)],
            1,
            ["a", "b"],
        ),
        "running pod is not counted (TestGCTerminated)": (
            [pod("a", "Running", age=3), pod("b", "Succeeded", age=2), pod("c", "Failed", age=1)],
            1,
            ["b"],
        ),
        "one above threshold (TestGCTerminated)": (
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1)],
            1,
            ["a"],
        ),
        "below threshold (TestGCTerminated)": (
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1)],
            5,
            [],
        ),
        "the evicted one first, though it is the youngest (TestGCTerminated, TestSortByEvictionAndCreation…)": (
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1), pod("c", "Failed", reason="Evicted")],
            1,
            ["c", "a"],
        ),
        "the evicted one, while another runs (TestGCTerminated)": (
            [pod("a", "Running", age=2), pod("b", "Succeeded", age=1), pod("c", "Failed", reason="Evicted")],
            1,
            ["c"],
        ),
        "a pod without phase is terminated": ([pod("a", ""), pod("b", "Failed")], 1, ["a"]),
        "Unknown and Pending have not ended": ([pod("a", "Unknown"), pod("b", "Pending")], 1, []),
    },
)
def test_terminated_pods_above_the_threshold(pods: list[Pod], threshold: int, expected: list[str]) -> None:
    assert [p.metadata.name for p in pods_over_threshold(terminated(pods), threshold)] == expected


def test_equal_ages_are_ordered_by_name() -> None:
    result = sorted_for_deletion([pod("b", "Failed"), pod("c", "Succeeded", reason="Evicted"), pod("a", "Failed")])
    assert [p.metadata.name for p in result] == ["a", "b", "c"], "Evicted says something only of a Failed pod"


@cases(
    "one, kinds",
    {
        "a running pod is nothing": (pod("a", "Running"), ()),
        "a bound one that is being deleted": (pod("a", "Running", leaving=True), ("leaving",)),
        "finished, unbound": (pod("a", "Failed", node="", leaving=True), ("terminated", "unscheduled")),
        "unbound, and not terminating": (pod("a", "Pending", node=""), ()),
    },
)
def test_garbage_kind_of_a_pod(one: Pod, kinds: tuple[str, ...]) -> None:
    assert index_by_garbage(one) == kinds


def node(ready: str | None, *taints: tuple[str, str]) -> Node:
    conditions = () if ready is None else (NodeCondition(type="Ready", status=ready),)
    return Node(
        spec=NodeSpec(taints=tuple(Taint(key=key, effect=effect) for key, effect in taints)),
        status=NodeStatus(conditions=conditions),
    )


OUT = "node.kubernetes.io/out-of-service"


@cases(
    "one, expected",
    {
        "not ready and tainted (TestGCTerminating)": (node("False", (OUT, "NoExecute")), True),
        "Ready Unknown, NoSchedule effect": (node("Unknown", (OUT, "NoSchedule")), True),
        "no Ready condition": (node(None, (OUT, "NoExecute")), True),
        "tainted, but ready (TestGCTerminating)": (node("True", (OUT, "NoExecute")), False),
        "not ready, but not tainted (TestGCTerminating)": (node("False"), False),
        "another taint": (node("False", ("other", "NoExecute")), False),
    },
)
def test_out_of_service_nodes(one: Node, expected: bool) -> None:
    assert is_out_of_service(one) is expected


def test_patch_of_the_first_condition_has_no_order() -> None:
    """As v1.36.2 sends it: a list that the pod does not have is added as a whole, not merged."""
    patch = status_patch(
        Pod(metadata=ObjectMeta(uid="UID3", generation=1)), EPOCH, condition=disruption_target(Pod(), "r", "m")
    )
    assert patch is not None
    assert list(patch["status"]) == ["conditions"]


def test_orphan_condition_patch_is_upstreams() -> None:
    """The body of traces 13b (v1.36.2), field by field."""
    orphan = Pod(
        metadata=ObjectMeta(uid="UID3", generation=1),
        status=PodStatus(phase="Running", conditions=(PodCondition(type="Ready", status="True"),)),
    )
    condition = disruption_target(orphan, "DeletionByPodGC", "PodGC: node no longer exists")
    assert status_patch(orphan, EPOCH, condition=condition, phase="Failed") == {
        "metadata": {"uid": "UID3"},
        "status": {
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "DisruptionTarget"}],
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "observedGeneration": 1,
                    "lastProbeTime": None,
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
            "observedGeneration": 1,
            "phase": "Failed",
        },
    }


def test_unchanged_condition_is_not_patched() -> None:
    old = PodCondition(type="DisruptionTarget", status="True", reason="R", message="M", observed_generation=1)
    marked = Pod(metadata=ObjectMeta(generation=2), status=PodStatus(conditions=(old,)))
    assert status_patch(marked, EPOCH, condition=disruption_target(marked, "R", "M")) is None
    changed = status_patch(marked, EPOCH, condition=disruption_target(marked, "Other", "M"))
    assert changed is not None
    assert changed["status"]["conditions"] == [
        {"type": "DisruptionTarget", "reason": "Other", "observedGeneration": 2}
    ], "the status is the same, so its time stays"
