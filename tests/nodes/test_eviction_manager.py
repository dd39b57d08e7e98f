"""Whom a node evicts first, and with what words.

Mirrors kubelet v1.36 ``pkg/kubelet/eviction/helpers_test.go`` (``TestOrderedBy*``, ``TestRank*``,
``TestEvictonMessage*``).
"""

from typing import Any

import pytest
from tests.nodes.pods import PLAIN, pod
from tests.tables import cases

from pilothouse.nodes.behaviour import behaviour_of
from pilothouse.nodes.commands import Commands, commands_of
from pilothouse.nodes.eviction_manager import Usage, message, rank, usage_of
from pilothouse.nodes.views import NodePod


def using(name: str, used: str = "", request: str = "", priority: int = 0, resource: str = "memory") -> NodePod:
    key = {"memory": "memory", "disk": "ephemeral-storage", "pids": ""}[resource]
    requests = {key: request} if request and key else {}
    usage = {"memory": "memory-usage", "disk": "disk-usage", "pids": "pids"}[resource]
    spec: dict[str, Any] = {"containers": [{"name": name, "resources": {"requests": requests}}], "priority": priority}
    return pod(annotations={usage: used} if used else None, **spec)


def order(resource: str, *pods: NodePod) -> list[str]:
    ranked = sorted(pods, key=lambda p: rank(p, usage_of(p, behaviour_of(p, PLAIN), resource), resource))
    return [p.spec.containers[0].name for p in ranked]


@pytest.mark.parametrize("resource", ["memory", "disk"])
@cases(
    "rows, expected",
    {
        "usage above the request first": ([("in", "1Gi", "2Gi"), ("over", "300Mi", "200Mi")], ["over", "in"]),
        "among those low priority": ([("vip", "9Gi", "1Gi", 100), ("low", "2Gi", "1Gi", 1)], ["low", "vip"]),
        "equal priority: larger excess first": ([("bit", "2Gi", "1Gi"), ("much", "4Gi", "1Gi")], ["much", "bit"]),
        "usage within the request is not compared": ([("big", "9Gi", "9Gi"), ("some", "2Gi", "1Gi")], ["some", "big"]),
        "best effort exceeds always": ([("kept", "", "1Gi"), ("free", "")], ["free", "kept"]),
        "excess precedes priority": (
            [("vip in", "1Mi", "2Mi", 9), ("low in", "1Mi", "2Mi", 1), ("vip over", "3Mi", "2Mi", 9)],
            ["vip over", "low in", "vip in"],
        ),
    },
)
def test_ranking_by_memory_and_disk(resource: str, rows: list[tuple[Any, ...]], expected: list[str]) -> None:
    assert order(resource, *[using(*row, resource=resource) for row in rows]) == expected  # type: ignore[misc]  # rows are of four at most


def test_ranking_by_process_ids() -> None:
    rows = [("few", "5", "", 1), ("many", "50", "", 1), ("vip", "500", "", 9), ("unsaid", "", "", 1)]
    assert order("pids", *[using(*row, resource="pids") for row in rows]) == ["many", "few", "unsaid", "vip"]


def test_messages() -> None:
    low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. "
    assert message(using("c"), Usage(1 << 20, 2 << 20), "memory") == low
    over = "Container c was using 300Mi, request is 0, has larger consumption of memory. "
    assert message(using("c"), Usage(300 << 20, 0), "memory") == low + over


@cases(
    "annotations, expected",
    {
        "no annotation": ({}, Commands()),
        "silent": ({"fault": "silent"}, Commands(silent=True)),
        "slow": ({"fault": "slow"}, Commands(slow_seconds=5)),
        "slow with a duration": ({"fault": "slow=2m"}, Commands(slow_seconds=120)),
        "gone (node object deleted)": ({"fault": "gone"}, Commands(gone=True)),
        "out of service": ({"fault": "out-of-service"}, Commands(out_of_service=True)),
        "several faults": ({"fault": "silent, slow=1s", "boot": "2"}, Commands(silent=True, slow_seconds=1, boot="2")),
        "pressure": ({"pressure": "memory"}, Commands(pressures={"memory": None})),
        "pressure with amounts": (
            {"pressure": "memory=1Gi,pids=5"},
            Commands(pressures={"memory": 1 << 30, "pids": 5}),
        ),
    },
)
def test_commands(annotations: dict[str, str], expected: Commands) -> None:
    prefixed = {f"simulated.pilothouse.dev/{key}": text for key, text in annotations.items()}
    assert commands_of({"other": "x", **prefixed}) == expected


@cases(
    "annotations, complaint",
    {
        "fault": ({"fault": "tired"}, "fault: 'tired' is none of silent, slow, gone, out-of-service"),
        "duration": ({"fault": "slow=x"}, 'fault: time: invalid duration "x"'),
        "pressure": ({"pressure": "time"}, "pressure: 'time' is none of memory, disk, pids"),
        "amount": ({"pressure": "memory=x"}, "pressure: "),
        "key": ({"colour": "red"}, "colour: no such key"),
    },
)
def test_commands_that_cannot_be_understood(annotations: dict[str, str], complaint: str) -> None:
    result = commands_of({f"simulated.pilothouse.dev/{key}": text for key, text in annotations.items()})
    (invalid_annotations,) = result.invalid_annotations
    assert complaint in invalid_annotations
    assert not result.faults
