"""Which pods are garbage. Rows mirror ``pkg/controller/podgc/gc_controller_test.go`` of v1.36 where they say so."""

import datetime

import pytest

from pilothouse.api.core import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodCondition, PodSpec, PodStatus, Taint
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.cleanup.pod_garbage_collector.decide import (
    in_order_of_deletion,
    index_by_garbage,
    is_out_of_service,
    surplus,
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


@pytest.mark.parametrize(
    ("pods", "threshold", "expected"),
    [
        pytest.param(
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1)],
            0,
            [],
            id="threshold 0: nothing is too many (TestGCTerminated 'threshold = 0 disables terminated pod deletion')",
        ),
        pytest.param(
            [pod("a", "Failed", age=3), pod("b", "Succeeded", age=2), pod("c", "Failed", age=1)],
            1,
            ["a", "b"],
            id="two above the threshold: the two oldest (TestGCTerminated 'threshold = 1, disruption conditions')",
        ),
        pytest.param(
            [pod("a", "Running", age=3), pod("b", "Succeeded", age=2), pod("c", "Failed", age=1)],
            1,
            ["b"],
            id="a running pod does not count (TestGCTerminated)",
        ),
        pytest.param(
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1)],
            1,
            ["a"],
            id="one above: the oldest (TestGCTerminated)",
        ),
        pytest.param(
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1)],
            5,
            [],
            id="below the threshold: none (TestGCTerminated)",
        ),
        pytest.param(
            [pod("a", "Failed", age=2), pod("b", "Succeeded", age=1), pod("c", "Failed", reason="Evicted")],
            1,
            ["c", "a"],
            id="the evicted one first, though it is the youngest (TestGCTerminated, TestSortByEvictionAndCreation…)",
        ),
        pytest.param(
            [pod("a", "Running", age=2), pod("b", "Succeeded", age=1), pod("c", "Failed", reason="Evicted")],
            1,
            ["c"],
            id="the evicted one, while another runs (TestGCTerminated)",
        ),
        pytest.param([pod("a", ""), pod("b", "Failed")], 1, ["a"], id="a pod without a phase counts as finished"),
        pytest.param([pod("a", "Unknown"), pod("b", "Pending")], 1, [], id="Unknown and Pending have not ended"),
    ],
)
def test_finished_pods_that_are_too_many(pods: list[Pod], threshold: int, expected: list[str]) -> None:
    assert [p.metadata.name for p in surplus(terminated(pods), threshold)] == expected


def test_pods_of_one_age_go_by_name() -> None:
    found = in_order_of_deletion([pod("b", "Failed"), pod("c", "Succeeded", reason="Evicted"), pod("a", "Failed")])
    assert [p.metadata.name for p in found] == ["a", "b", "c"], "Evicted says something only of a Failed pod"


@pytest.mark.parametrize(
    ("one", "kinds"),
    [
        pytest.param(pod("a", "Running"), (), id="a running pod is nothing"),
        pytest.param(pod("a", "Running", leaving=True), ("leaving",), id="a bound one that is being deleted"),
        pytest.param(pod("a", "Failed", node="", leaving=True), ("terminated", "unscheduled"), id="finished, unbound"),
        pytest.param(pod("a", "Pending", node=""), (), id="unbound, and nobody deletes it"),
    ],
)
def test_what_a_pod_may_be_collected_as(one: Pod, kinds: tuple[str, ...]) -> None:
    assert index_by_garbage(one) == kinds


def node(ready: str | None, *taints: tuple[str, str]) -> Node:
    conditions = () if ready is None else (NodeCondition(type="Ready", status=ready),)
    return Node(
        spec=NodeSpec(taints=tuple(Taint(key=key, effect=effect) for key, effect in taints)),
        status=NodeStatus(conditions=conditions),
    )


OUT = "node.kubernetes.io/out-of-service"


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        pytest.param(node("False", (OUT, "NoExecute")), True, id="not ready and tainted (TestGCTerminating)"),
        pytest.param(node("Unknown", (OUT, "NoSchedule")), True, id="Unknown is not ready; the effect does not matter"),
        pytest.param(node(None, (OUT, "NoExecute")), True, id="no condition Ready is not ready"),
        pytest.param(node("True", (OUT, "NoExecute")), False, id="tainted, but ready (TestGCTerminating)"),
        pytest.param(node("False"), False, id="not ready, but not tainted (TestGCTerminating)"),
        pytest.param(node("False", ("other", "NoExecute")), False, id="another taint"),
    ],
)
def test_out_of_service(one: Node, expected: bool) -> None:
    assert is_out_of_service(one) is expected


def test_the_patch_of_an_orphan_is_upstreams() -> None:
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


def test_a_condition_that_says_it_already_is_not_written_again() -> None:
    old = PodCondition(type="DisruptionTarget", status="True", reason="R", message="M", observed_generation=1)
    marked = Pod(metadata=ObjectMeta(generation=2), status=PodStatus(conditions=(old,)))
    assert status_patch(marked, EPOCH, condition=disruption_target(marked, "R", "M")) is None
    changed = status_patch(marked, EPOCH, condition=disruption_target(marked, "Other", "M"))
    assert changed is not None
    assert changed["status"]["conditions"] == [
        {"type": "DisruptionTarget", "reason": "Other", "observedGeneration": 2}
    ], "the status is the same, so its time stays"
