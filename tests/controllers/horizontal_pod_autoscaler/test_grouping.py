"""Pod groups and pod requests.

The rows mirror v1.36 ``pkg/controller/podautoscaler/replica_calculator_test.go`` (``TestGroupPods``,
``TestCalculateRequests``).
"""

import re

import pytest
from tests.controllers.horizontal_pod_autoscaler.builders import DELAYS, NOW, ago, pod
from tests.tables import cases

from pilothouse.api.core import Pod
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.grouping import Groups, calculate_requests, group_pods
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import MetricUnavailable, Sample

KNOWN = Sample(1)
"""A sample that says neither when it was taken nor over how long."""
DONE = "Succeeded"


@cases(
    "pods, known, resource, expected",
    {
        "void": ([], {}, "cpu", Groups(0, (), (), ())),
        "memory is believed from the start": (
            [pod("a", phase=DONE, ready="", started=None)],
            {"a": Sample(1, NOW, 60)},
            "memory",
            Groups(1, (), (), ()),
        ),
        "cpu: no Ready condition": (
            [pod("a", phase=DONE, ready="", started=NOW)],
            {"a": KNOWN},
            "cpu",
            Groups(0, ("a",), (), ()),
        ),
        "cpu: new, but measured since it is ready": (
            [pod("a", started=ago(60), since=ago(30))],
            {"a": Sample(1, NOW, 30)},
            "cpu",
            Groups(1, (), (), ()),
        ),
        "cpu: new, and measured over its start": (
            [pod("a", started=ago(60), since=ago(30))],
            {"a": Sample(1, NOW, 60)},
            "cpu",
            Groups(0, ("a",), (), ()),
        ),
        "cpu: started in the future": (
            [pod("a", started=ago(-86400), since=ago(-86390))],
            {"a": Sample(1, NOW, 60)},
            "cpu",
            Groups(1, (), (), ()),
        ),
        "cpu: never ready after the initial delay": (
            [pod("a", ready="False", started=ago(600), since=ago(594))],
            {"a": KNOWN},
            "cpu",
            Groups(0, ("a",), (), ()),
        ),
        "cpu: old, and the sample too": (
            [pod("a", started=ago(180), since=ago(180))],
            {"a": Sample(1, ago(120), 60)},
            "cpu",
            Groups(1, (), (), ()),
        ),
        "cpu: was ready for a while, and is not now": (
            [pod("a", ready="False", started=ago(600), since=ago(540))],
            {"a": KNOWN},
            "cpu",
            Groups(1, (), (), ()),
        ),
        "cpu: unready just when the delay was over": (
            [pod("a", ready="False", started=ago(600), since=ago(590))],
            {"a": KNOWN},
            "cpu",
            Groups(1, (), (), ()),
        ),
        "no sample": ([pod("a", phase=DONE, ready="", started=ago(180))], {}, "cpu", Groups(0, (), ("a",), ())),
        "several pods": (
            [
                pod("a", phase=DONE, ready="", started=NOW),
                pod("b", phase=DONE, started=ago(180), since=ago(180)),
                pod("c", phase=DONE, ready="", started=ago(180)),
            ],
            {"a": KNOWN, "b": KNOWN},
            "cpu",
            Groups(1, ("a",), ("c",), ()),
        ),
        "pending is not ready": ([pod("a", phase="Pending")], {}, "cpu", Groups(0, ("a",), (), ())),
        "terminating precedes the other states": (
            [pod("a", phase="Pending", deleted=True)],
            {"a": KNOWN},
            "cpu",
            Groups(0, (), (), ("a",)),
        ),
        "failed": ([pod("a", phase="Failed")], {"a": KNOWN}, "cpu", Groups(0, (), (), ("a",))),
    },
)
def test_group_pods(pods: list[Pod], known: dict[str, Sample], resource: str, expected: Groups) -> None:
    assert group_pods(pods, known, resource, DELAYS, NOW) == expected


TWO = {"c1": "100m", "c2": "50m"}


@cases(
    "pods, container, expected",
    {
        "void": ([], "", {}),
        "the containers' requests add up": ([pod("a", requests=TWO)], "", {"a": 150}),
        "pod-level requests take precedence": ([pod("a", requests=TWO, whole={"cpu": "800m"})], "", {"a": 800}),
        "pod-level request, container without request": (
            [pod("a", requests={"c1": "", "c2": "50m"}, whole={"cpu": "800m"})],
            "",
            {"a": 800},
        ),
        "container metric": ([pod("a", requests=TWO)], "c1", {"a": 100}),
        "container metric ignores pod-level requests": (
            [pod("a", requests=TWO, whole={"cpu": "800m"})],
            "c1",
            {"a": 100},
        ),
        "sidecars are counted, init containers are not": (
            [pod("a", requests={"c1": "100m"}, inits={"i": "20m"}, sidecars={"s": "50m"})],
            "",
            {"a": 150},
        ),
        "a sidecar can be named": ([pod("a", requests={"c1": "100m"}, sidecars={"s": "50m"})], "s", {"a": 50}),
        "pod-level request of another resource": ([pod("a", requests=TWO, whole={"memory": "1Gi"})], "", {"a": 150}),
    },
)
def test_calculate_requests(pods: list[Pod], container: str, expected: dict[str, int]) -> None:
    assert calculate_requests(pods, "cpu", container) == expected


def test_pod_level_resources_gate() -> None:
    """TestCalculateRequests, ``PodLevelResources`` disabled."""
    whole = pod("a", requests=TWO, whole={"cpu": "800m"})
    assert calculate_requests([whole], "cpu", pod_level_resources=False) == {"a": 150}
    with pytest.raises(MetricUnavailable, match="missing request for cpu in container c1 of Pod a"):
        calculate_requests([pod("a", requests={"c1": ""}, whole={"cpu": "800m"})], "cpu", pod_level_resources=False)


@cases(
    "metrics, container, message",
    {
        "container without request": (
            pod("a", requests={"c1": "", "c2": "50m"}),
            "",
            "missing request for cpu in container c1 of Pod a",
        ),
        "NonExistentContainer": (pod("a", requests=TWO), "c3", "container c3 not found in Pod a"),
        "pod-level request of another resource, container without request": (
            pod("a", requests={"c1": ""}, whole={"memory": "1Gi"}),
            "",
            "missing pod-level request for cpu in Pod a",
        ),
    },
)
def test_missing_requests_are_an_error(metrics: Pod, container: str, message: str) -> None:
    with pytest.raises(MetricUnavailable, match=f"^{re.escape(message)}$"):
        calculate_requests([metrics], "cpu", container)


def test_pod_level_memory_requests_are_milli_values() -> None:
    whole, parts = pod("a", whole={"memory": "1Mi"}), pod("b", requests={"c1": "1Mi"}, resource="memory")
    assert calculate_requests([whole, parts], "memory") == {"a": 1048576000, "b": 1048576000}
