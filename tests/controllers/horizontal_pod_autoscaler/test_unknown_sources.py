"""Metric specs that the API server rejects are errors in the controller too."""

import asyncio

import pytest
from tests.controllers.horizontal_pod_autoscaler.builders import workload
from tests.tables import cases

from pilothouse.api.autoscaling import (
    ExternalMetricSource,
    MetricSpec,
    ObjectMetricSource,
    ResourceMetricSource,
)
from pilothouse.api.meta import LabelSelector, LabelSelectorRequirement
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.metric_apis import MetricApis
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.proposals import MetricFailed, Proposals
from pilothouse.machinery.labels import EVERYTHING

NONE = "neither a value target nor an average value target was set"
BAD = LabelSelector(match_expressions=(LabelSelectorRequirement(key="a", operator="Like", values=("b",)),))


@cases(
    "spec, reason, message, by_spec",
    {
        "TestConditionInvalidSourceType": (
            MetricSpec(type="CheddarCheese"),
            "InvalidMetricSourceType",
            'unknown metric source type "CheddarCheese"',
            True,
        ),
        "a resource without a target": (
            MetricSpec(type="Resource", resource=ResourceMetricSource(name="cpu")),
            "FailedGetResourceMetric",
            "invalid resource metric source: neither an average utilization target nor an average value (usage) target "
            "was set",
            False,
        ),
        "an object without a target": (
            MetricSpec(type="Object", object=ObjectMetricSource()),
            "FailedGetObjectMetric",
            f"invalid object metric source: {NONE}",
            False,
        ),
        "External metric without target": (
            MetricSpec(type="External", external=ExternalMetricSource()),
            "FailedGetExternalMetric",
            f"invalid external metric source: {NONE}",
            False,
        ),
    },
)
def test_invalid_metric_source_fails_without_requests(
    spec: MetricSpec, reason: str, message: str, by_spec: bool
) -> None:
    proposals = Proposals(MetricApis.__new__(MetricApis), "default", EVERYTHING, workload(1))
    with pytest.raises(MetricFailed) as failed:
        asyncio.run(proposals.propose(spec))
    assert (failed.value.reason, failed.value.message, failed.value.by_spec) == (reason, message, by_spec)
