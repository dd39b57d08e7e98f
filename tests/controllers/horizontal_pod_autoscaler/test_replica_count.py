"""Desired replicas for a metric.

The rows mirror v1.36 ``pkg/controller/podautoscaler/replica_calculator_test.go``; ids without spaces are its names
without ``TestReplicaCalc`` or ``TestPlainMetricReplicaCalc``.
"""

import re

import pytest
from msgspec.structs import replace
from tests.controllers.horizontal_pod_autoscaler.builders import NOW, ago, doubled, samples, workload
from tests.tables import cases

from pilothouse.controllers.workloads.horizontal_pod_autoscaler.replica_count import (
    Count,
    Pods,
    Tolerances,
    by_average,
    by_share,
    by_utilization,
    by_value,
    total_of,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import (
    MAX_INT32,
    MAX_INT64,
    MetricUnavailable,
    Sample,
)

HOT, COOL = NOW, ago(180)
"""Started just now, and beyond the two minutes in which cpu is not believed."""
ONE = ["1.0"] * 7
RUN, FAILED, PENDING = "Running", "Failed", "Pending"
FIVE = (100, 300, 500, 250, 250)
UNEVEN = ("0.9", "1.0", "1.1")


def _without_computation(count: Count) -> Count:
    assert count.computation is not None
    return replace(count, computation=None)


@cases(
    "pods, known, target, expected",
    {
        "up, in proportion (scale up)": (workload(3, requests=ONE), doubled(300, 500, 700), 30, Count(5, 1000, 50)),
        "unready pod scales less": (
            workload(3, requests=ONE, ready="nyy"),
            doubled(300, 500, 700),
            30,
            Count(4, 1200, 60),
        ),
        "hot-CPU pod scales less": (
            workload(3, requests=ONE, started=(HOT, COOL, COOL)),
            doubled(300, 500, 700),
            30,
            Count(4, 1200, 60),
        ),
        "idle ones turn the direction: nothing (unready pods ignored)": (
            workload(3, requests=ONE, ready="ynn"),
            doubled(400, 500, 700),
            30,
            Count(3, 800, 40),
        ),
        "hot-CPU pods ignored": (
            workload(3, requests=ONE, ready="ynn", started=(COOL, HOT, HOT)),
            doubled(400, 500, 700),
            30,
            Count(3, 800, 40),
        ),
        "failed pods ignored": (
            workload(2, requests=ONE, ready="yynn", phases=(RUN, RUN, FAILED, FAILED)),
            doubled(500, 700),
            30,
            Count(4, 1200, 60),
        ),
        "pods being deleted are ignored": (
            workload(2, requests=ONE, ready="yynn", phases=(RUN,) * 4, deleted="nnyy"),
            doubled(500, 700),
            30,
            Count(4, 1200, 60),
        ),
        "down (scale down)": (workload(5, requests=ONE), doubled(*FIVE), 50, Count(3, 560, 28)),
        "exclude unready pods": (
            workload(5, requests=ONE, ready="yyynn"),
            doubled(*FIVE),
            50,
            Count(2, 600, 30),
        ),
        "down: nor those without a node (exclude unscheduled pods)": (
            workload(5, requests=ONE, ready="ynnnn", phases=(RUN, *[PENDING] * 4)),
            doubled(100),
            50,
            Count(1, 200, 10),
        ),
        "down: nor those that have just started (ignore hot-CPU pods)": (
            workload(5, requests=ONE, started=(COOL, COOL, COOL, HOT, HOT)),
            doubled(*FIVE),
            50,
            Count(2, 600, 30),
        ),
        "failed pods ignored when scaling down": (
            workload(5, requests=ONE, ready="yyyyynn", phases=(*[RUN] * 5, FAILED, FAILED)),
            doubled(*FIVE),
            50,
            Count(3, 560, 28),
        ),
        "down: nor those being deleted, kubernetes#83561 (still-running pods being deleted are ignored)": (
            workload(5, requests=ONE, ready="yyyyynn", phases=(RUN,) * 7, deleted="nnnnnyy"),
            doubled(*FIVE),
            50,
            Count(3, 560, 28),
        ),
        "Tolerance": (
            workload(3, requests=UNEVEN),
            doubled(1010, 1030, 1020),
            100,
            Count(3, 2040, 102),
        ),
        "Outside of a 0% tolerance": (
            workload(3, requests=UNEVEN, tolerances=Tolerances(0.0, 0.0)),
            doubled(909, 1010, 1111),
            100,
            Count(4, 2020, 101),
        ),
        "Within a 200% scale-up tolerance": (
            workload(3, requests=UNEVEN, tolerances=Tolerances(0.1, 2.0)),
            doubled(1890, 1910, 1900),
            100,
            Count(3, 3800, 190),
        ),
        "Outside 8% scale-up tolerance": (
            workload(3, requests=UNEVEN, tolerances=Tolerances(2.0, 0.08)),
            doubled(1100, 1080, 1090),
            100,
            Count(4, 2180, 109),
        ),
        "Within a 36% scale-down tolerance": (
            workload(3, requests=UNEVEN, tolerances=Tolerances(0.36, 0.1)),
            doubled(660, 640, 650),
            100,
            Count(3, 1300, 65),
        ),
        "Outside a 34% scale-down tolerance": (
            workload(3, requests=UNEVEN, tolerances=Tolerances(0.34, 0.1)),
            doubled(660, 640, 650),
            100,
            Count(2, 1300, 65),
        ),
        "SuperfluousMetrics": (
            workload(4, requests=ONE),
            doubled(4000, 9500, 3000, 7000, 3200, 2000),
            100,
            Count(24, 11750, 587),
        ),
        "down: pods without a sample use all they may (MissingMetrics)": (
            workload(4, requests=ONE),
            doubled(400, 95),
            100,
            Count(3, 495, 24),
        ),
        "MissingMetricsNoChangeEq": (
            workload(2, requests=ONE),
            doubled(1000),
            100,
            Count(2, 2000, 100),
        ),
        "up: pods without a sample are idle, and damp it (MissingMetricsNoChangeGt)": (
            workload(2, requests=ONE),
            doubled(1900),
            100,
            Count(2, 3800, 190),
        ),
        "down: pods without a sample damp it (MissingMetricsNoChangeLt)": (
            workload(2, requests=ONE),
            doubled(600),
            100,
            Count(2, 1200, 60),
        ),
        "MissingMetricsUnreadyChange": (
            workload(3, requests=ONE, ready="nyy"),
            doubled(100, 450),
            50,
            Count(3, 900, 45),
        ),
        "MissingMetricsHotCpuNoChange": (
            workload(3, requests=ONE, started=(HOT, COOL, COOL)),
            doubled(100, 450),
            50,
            Count(3, 900, 45),
        ),
        "MissingMetricsUnreadyScaleUp": (
            workload(3, requests=ONE, ready="nyy"),
            doubled(100, 2000),
            50,
            Count(4, 4000, 200),
        ),
        "up, with one that has just started (MissingMetricsHotCpuScaleUp)": (
            workload(3, requests=ONE, ready="nyy", started=(HOT, COOL, COOL)),
            doubled(100, 2000),
            50,
            Count(4, 4000, 200),
        ),
        "MissingMetricsUnreadyScaleDown": (
            workload(4, requests=ONE, ready="nyyy"),
            doubled(100, 100, 100),
            50,
            Count(3, 200, 10),
        ),
        "down: beyond 100 % the target is what a pod may use (MissingMetricsScaleDownTargetOver100)": (
            workload(4, requests=("1.0", "1.0", "2.0", "2.0"), ready="nyyy"),
            doubled(200, 100, 100),
            300,
            Count(2, 200, 6),
        ),
        "a surplus pod of a rollout turns nothing round (DuringRollingUpdateWithMaxSurge)": (
            workload(2, requests=ONE, phases=(RUN,) * 3),
            doubled(100, 100),
            50,
            Count(2, 200, 10),
        ),
    },
)
def test_resource_utilization(pods: Pods, known: dict[str, Sample], target: int, expected: Count) -> None:
    assert _without_computation(by_utilization(pods, known, "cpu", "", target)) == expected


@cases(
    "pods, known, target, expected",
    {
        "container metric": (workload(3, requests=ONE), samples(300, 500, 700), 30, Count(5, 500, 50)),
        "hot-CPU container scales less": (
            workload(3, requests=ONE, started=(HOT, COOL, COOL)),
            samples(300, 500, 700),
            30,
            Count(4, 600, 60),
        ),
        "container metrics with failed pods ignored": (
            workload(2, requests=ONE, ready="yynn", phases=(RUN, RUN, FAILED, FAILED)),
            samples(500, 700),
            30,
            Count(4, 600, 60),
        ),
        "scale down: container": (workload(5, requests=ONE), samples(*FIVE), 50, Count(3, 280, 28)),
        "container metric excludes unready pods": (
            workload(5, requests=ONE, ready="yyynn"),
            samples(*FIVE),
            50,
            Count(2, 300, 30),
        ),
        "container metric excludes unscheduled pods": (
            workload(5, requests=ONE, ready="ynnnn", phases=(RUN, *[PENDING] * 4)),
            samples(*FIVE),
            50,
            Count(1, 100, 10),
        ),
    },
)
def test_container_resource_utilization(pods: Pods, known: dict[str, Sample], target: int, expected: Count) -> None:
    assert _without_computation(by_utilization(pods, known, "cpu", "c2", target)) == expected


def test_tolerance() -> None:
    """TestReplicaCalcComputedToleranceAlgImplementation: half of the requests are used; at a target of 56 % that is
    just beyond a tenth too little, at 55 % just within."""
    spread = (100, -100, 10, -10, 2, -2, 1, -1, 0, 0)
    pods = workload(10, requests=[f"{300 + more}m" for more in spread])
    known = doubled(*[150] * 10)
    assert _without_computation(by_utilization(pods, known, "cpu", "", 56)) == Count(9, 300, 50)
    assert _without_computation(by_utilization(pods, known, "cpu", "", 55)) == Count(10, 300, 50)


@cases(
    "pods, known, message",
    {
        "samples of other pods only (DisjointResourcesMetrics)": (
            workload(1, requests=ONE),
            {"an-older-pod": Sample(100)},
            "no metrics returned matched known pods",
        ),
        "EmptyCPURequest": (workload(1), doubled(200), "missing request for cpu in container c1 of Pod p0"),
        "no pods": (workload(0), doubled(200), "no pods returned by selector while calculating replica count"),
        "no ready pods": (
            workload(2, requests=ONE, ready="nn"),
            doubled(200, 200),
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
    },
)
def test_missing_metrics_are_an_error(pods: Pods, known: dict[str, Sample], message: str) -> None:
    with pytest.raises(MetricUnavailable, match=f"^{re.escape(message)}$"):
        by_utilization(pods, known, "cpu", "", 100)


@cases(
    "pods, known, target, expected",
    {
        "up (ScaleUpCM)": (workload(3), samples(20000, 10000, 30000), 15000, Count(4, 20000)),
        "ScaleUpCMUnreadyHotCpuNoLessScale": (
            workload(3, ready="yyn", started=(COOL, COOL, HOT)),
            samples(50000, 10000, 30000),
            15000,
            Count(6, 30000),
        ),
        "ScaleUpCMUnreadyHotCpuScaleWouldScaleDown": (
            workload(3, ready="nyn", started=(HOT, COOL, HOT)),
            samples(50000, 15000, 30000),
            15000,
            Count(7, 31666),
        ),
        "down (ScaleDownCM)": (workload(5), samples(*[12000] * 5), 20000, Count(3, 12000)),
        "ToleranceCM": (workload(3), samples(20000, 21000, 21000), 20000, Count(3, 20666)),
        "ConfigurableToleranceCM": (
            workload(3, tolerances=Tolerances(0.1, 0.01)),
            samples(20000, 21000, 21000),
            20000,
            Count(4, 20666),
        ),
        "PlainMetricReplicaCalcMissingMetricsNoChangeEq": (
            workload(5),
            samples(20000, 19000, 21000),
            20000,
            Count(5, 20000),
        ),
        "a surplus pod of a rollout turns nothing round (DuringRollingUpdateWithMaxSurgeCM)": (
            workload(2, phases=(RUN,) * 3),
            samples(10000, 10000),
            17000,
            Count(2, 10000),
        ),
    },
)
def test_per_pod_averages(pods: Pods, known: dict[str, Sample], target: int, expected: Count) -> None:
    assert _without_computation(by_average(pods, known, target)) == expected


@cases(
    "pods, value, target, expected",
    {
        "ScaleUpCMObject": (workload(3), 20000, 15000, 4),
        "ScaleUpCMObjectIgnoresUnreadyPods": (workload(3, ready="nyn"), 50000, 10000, 5),
        "ScaleUpCMExternalIgnoresUnreadyPods": (workload(3, ready="nyn"), 8600, 4400, 2),
        "ScaleDownCMObject": (workload(5), 12000, 20000, 3),
        "ScaleDownCMExternal": (workload(5), 8600, 14334, 3),
        "ToleranceCMObject": (workload(3), 20666, 20000, 3),
        "ToleranceCMExternal": (workload(3), 8600, 8888, 3),
        "ConfigurableToleranceCMObject": (workload(3, tolerances=Tolerances(0.1, 0.01)), 20666, 20000, 4),
        "ConfigurableToleranceCMExternal": (workload(3, tolerances=Tolerances(0.1, 0.01)), 8900, 8800, 4),
        "ScaleUpOverflow": (workload(3), MAX_INT64, 1, MAX_INT32),
        "from 0 at once to what is needed": (workload(0), 500000, 100000, 5),
        "scaled from zero": (workload(0), 1, 100000, 1),
        "zero usage at zero replicas": (workload(0), 0, 100000, 0),
    },
)
def test_object_and_external_values(pods: Pods, value: int, target: int, expected: int) -> None:
    assert by_value(pods, value, target) == expected


@cases(
    "pods, value, target, expected",
    {
        "ScaleUpCMPerPodObject": (workload(3), 20000, 5000, Count(4, 6667)),
        "ScaleUpPerPodCMExternal": (workload(3), 8600, 2150, Count(4, 2867)),
        "ScaleDownPerPodCMObject": (workload(5), 6000, 2000, Count(3, 1200)),
        "ScaleDownPerPodCMExternal": (workload(5), 8600, 2867, Count(3, 1720)),
        "TolerancePerPodCMObject": (workload(4), 20166, 5000, Count(4, 5042)),
        "TolerancePerPodCMExternal": (workload(3), 8600, 2900, Count(3, 2867)),
        "ConfigurableTolerancePerPodCMObject": (
            workload(4, tolerances=Tolerances(0.1, 0.01)),
            20208,
            5000,
            Count(5, 5052),
        ),
        "ConfigurableTolerancePerPodCMExternal": (
            workload(3, tolerances=Tolerances(0.1, 0.01)),
            8600,
            2800,
            Count(4, 2867),
        ),
        "ExternalPerPodMetricReplicaOverflow": (workload(1), MAX_INT64, 1, Count(MAX_INT32, MAX_INT64)),
        "ExternalPerPodMetricUsageOverflow": (workload(1), MAX_INT64, MAX_INT64, Count(1, MAX_INT64)),
        "per pod without reported replicas": (workload(2, reported=0), 8000, 2000, Count(4, 8000)),
    },
)
def test_object_and_external_per_pod_values(pods: Pods, value: int, target: int, expected: Count) -> None:
    assert by_share(pods, value, target) == expected


def test_external_metric_sum_saturates() -> None:
    """TestReplicaCalcExternalMetricUsageOverflow."""
    half = MAX_INT64 // 2 + 1
    assert total_of([half, half]) == MAX_INT64
    assert total_of([1, 2, -4]) == -1
    assert by_value(workload(3), total_of([half, half]), MAX_INT64) == 3


def test_object_metric_requires_ready_pods() -> None:
    pods = workload(0)
    none = Pods(pods=(), current=2, reported=0, tolerances=pods.tolerances, delays=pods.delays, now=NOW)
    with pytest.raises(MetricUnavailable, match="unable to calculate ready pods: no pods returned by selector"):
        by_value(none, 500, 100)
