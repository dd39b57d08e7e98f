"""The replicas that each metric of a spec proposes, and its status.

Upstream: ``computeReplicasForMetric`` and ``computeStatusFor…`` of v1.36
``pkg/controller/podautoscaler/horizontal.go``.
"""

import msgspec

from pilothouse.api.autoscaling import (
    ContainerResourceMetricStatus,
    ExternalMetricSource,
    ExternalMetricStatus,
    HPAScalingRules,
    MetricSpec,
    MetricStatus,
    MetricTarget,
    MetricValueStatus,
    ObjectMetricSource,
    ObjectMetricStatus,
    PodsMetricSource,
    PodsMetricStatus,
    ResourceMetricStatus,
)
from pilothouse.api.meta import LabelSelector
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.metric_apis import MetricApis
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.replica_count import (
    Computation,
    Count,
    Pods,
    Tolerances,
    by_average,
    by_share,
    by_utilization,
    by_value,
    total_of,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import MetricUnavailable
from pilothouse.machinery.go_text import print_selector, quote
from pilothouse.machinery.labels import Selector, SelectorError, selector_from
from pilothouse.machinery.quantities import BINARY, DECIMAL, Quantity, QuantityError, parse_quantity


class Proposal(msgspec.Struct, frozen=True):
    """The proposal of one metric. ``name`` is used in messages; ``computation`` is None if the metric is not one of
    pods."""

    replicas: int
    name: str
    status: MetricStatus
    computation: Computation | None = None


class MetricFailed(Exception):
    """A metric cannot be read. ``message`` is the message of its event and condition; the text names the metric."""

    def __init__(self, reason: str, message: str, text: str, *, by_spec: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.message = message
        self.by_spec = by_spec
        """Whether the spec of the autoscaler is wrong."""


def tolerances_of(
    up: HPAScalingRules | None, down: HPAScalingRules | None, default: float, *, configurable: bool
) -> Tolerances:
    """The tolerances of an autoscaler: its own if allowed and set, else the default."""
    return Tolerances(
        _tolerance(down, default, configurable=configurable), _tolerance(up, default, configurable=configurable)
    )


def _tolerance(rules: HPAScalingRules | None, default: float, *, configurable: bool) -> float:
    if not configurable or rules is None or rules.tolerance is None:
        return default
    quantity = parse_quantity(rules.tolerance)
    return float(quantity.mantissa * 10.0**quantity.exponent)


class Proposals(msgspec.Struct, frozen=True):
    apis: MetricApis
    namespace: str
    selector: Selector
    pods: Pods

    async def propose(self, spec: MetricSpec) -> Proposal:
        """Raises ``MetricFailed``."""
        if spec.type == "Resource" and spec.resource is not None:
            source = spec.resource
            return await self._resource(source.name, source.target, "")
        if spec.type == "ContainerResource" and spec.container_resource is not None:
            container_source = spec.container_resource
            return await self._resource(container_source.name, container_source.target, container_source.container)
        if spec.type == "Pods" and spec.pods is not None:
            return await self._each_pod(spec.pods)
        if spec.type == "Object" and spec.object is not None:
            return await self._object(spec.object)
        if spec.type == "External" and spec.external is not None:
            return await self._external(spec.external)
        reason = f"unknown metric source type {quote(spec.type)}"
        raise MetricFailed("InvalidMetricSourceType", reason, reason, by_spec=True)

    async def _resource(self, resource: str, target: MetricTarget, container: str) -> Proposal:
        try:
            count, name, current = await self._resource_count(resource, target, container)
        except MetricUnavailable as error:
            if container:
                text = f"failed to get {container} container metric value: {error}"
                raise MetricFailed("FailedGetContainerResourceMetric", str(error), text) from error
            text = f"failed to get {resource} resource metric value: {error}"
            raise MetricFailed("FailedGetResourceMetric", str(error), text) from error
        if container:
            container_status = ContainerResourceMetricStatus(name=resource, container=container, current=current)
            metric_status = MetricStatus(type="ContainerResource", container_resource=container_status)
        else:
            metric_status = MetricStatus(type="Resource", resource=ResourceMetricStatus(name=resource, current=current))
        return Proposal(count.replicas, name, metric_status, count.computation)

    async def _resource_count(
        self, resource: str, target: MetricTarget, container: str
    ) -> tuple[Count, str, MetricValueStatus]:
        desired, percent = target.average_value, target.average_utilization
        if desired is None and percent is None:
            raise MetricUnavailable(
                "invalid resource metric source: neither an average utilization target nor an average value (usage) "
                "target was set"
            )
        value_kind = "usage" if desired is not None else "utilization"
        try:
            try:
                samples = await self.apis.resource(resource, self.namespace, self.selector, container)
            except MetricUnavailable as error:
                raise MetricUnavailable(f"unable to get metrics for resource {resource}: {error}") from error
            if desired is not None:
                count = by_average(self.pods, samples, _milli(desired), resource)
            else:
                assert percent is not None, "one of the two is set"
                count = by_utilization(self.pods, samples, resource, container, percent)
        except MetricUnavailable as error:
            raise MetricUnavailable(f"failed to get {resource} {value_kind}: {error}") from error
        average = _shown(count.average, BINARY if resource == "memory" else DECIMAL)
        if desired is not None:
            return count, f"{resource} resource", MetricValueStatus(average_value=average)
        kind = "container resource" if container else "resource"
        name = f"{resource} {kind} utilization (percentage of request)"
        current = MetricValueStatus(average_value=average, average_utilization=count.utilization)
        return count, name, current

    async def _each_pod(self, source: PodsMetricSource) -> Proposal:
        metric = source.metric
        try:
            try:
                samples = await self.apis.pods(
                    metric.name, self.namespace, self.selector, _selector_of(metric.selector)
                )
            except MetricUnavailable as error:
                raise MetricUnavailable(f"unable to get metric {metric.name}: {error}") from error
            count = by_average(self.pods, samples, _milli(source.target.average_value or ""))
        except MetricUnavailable as error:
            text = f"failed to get pods metric value: {error}"
            raise MetricFailed("FailedGetPodsMetric", str(error), text) from error
        current = MetricValueStatus(average_value=_shown(count.average))
        status = MetricStatus(type="Pods", pods=PodsMetricStatus(metric=metric, current=current))
        return Proposal(count.replicas, f"pods metric {metric.name}", status, count.computation)

    async def _object(self, source: ObjectMetricSource) -> Proposal:
        try:
            replicas, name, current = await self._object_count(source)
        except _Reason as error:
            text = f"failed to get object metric value: {error}"
            raise MetricFailed("FailedGetObjectMetric", error.message, text) from error
        object_status = ObjectMetricStatus(
            metric=source.metric, current=current, described_object=source.described_object
        )
        return Proposal(replicas, name, MetricStatus(type="Object", object=object_status))

    async def _object_count(self, source: ObjectMetricSource) -> tuple[int, str, MetricValueStatus]:
        metric, target, reference = source.metric, source.target, source.described_object
        shared = target.type == "AverageValue" and target.average_value is not None
        if not shared and not (target.type == "Value" and target.value is not None):
            raise _Reason("invalid object metric source: neither a value target nor an average value target was set")
        try:
            selector = _selector_of(metric.selector)
            try:
                value = await self.apis.object(metric.name, self.namespace, reference, selector)
            except MetricUnavailable as error:
                # Upstream's arguments are in this order (``GetObjectMetricReplicas`` in replica_calculator.go, v1.36).
                described = f"{reference.kind} on {self.namespace} {reference.name}"
                raise MetricUnavailable(f"unable to get metric {metric.name}: {described}/{error}") from error
            if not shared:
                replicas = by_value(self.pods, value, _milli(target.value or ""))
                return replicas, f"{reference.kind} metric {metric.name}", MetricValueStatus(value=_shown(value))
            count = by_share(self.pods, value, _milli(target.average_value or ""))
        except MetricUnavailable as error:
            text = f"failed to get {metric.name} object metric: {error}" if shared else str(error)
            raise _Reason(str(error), text) from error
        current = MetricValueStatus(average_value=_shown(count.average))
        return count.replicas, f"external metric {metric.name}({print_selector(metric.selector)})", current

    async def _external(self, source: ExternalMetricSource) -> Proposal:
        try:
            replicas, current = await self._external_count(source)
        except _Reason as error:
            text = f"failed to get {source.metric.name} external metric value: {error}"
            raise MetricFailed("FailedGetExternalMetric", error.message, text) from error
        external_status = ExternalMetricStatus(metric=source.metric, current=current)
        name = f"external metric {source.metric.name}({print_selector(source.metric.selector)})"
        return Proposal(replicas, name, MetricStatus(type="External", external=external_status))

    async def _external_count(self, source: ExternalMetricSource) -> tuple[int, MetricValueStatus]:
        metric, target = source.metric, source.target
        shared = target.average_value is not None
        if not shared and target.value is None:
            raise _Reason("invalid external metric source: neither a value target nor an average value target was set")
        try:
            selector = _selector_of(metric.selector)
            try:
                value = total_of(await self.apis.external(metric.name, self.namespace, selector))
            except MetricUnavailable as error:
                described = f"{self.namespace}/{metric.name}/{print_selector(metric.selector)}"
                raise MetricUnavailable(f"unable to get external metric {described}: {error}") from error
            if not shared:
                replicas = by_value(self.pods, value, _milli(target.value or ""))
                return replicas, MetricValueStatus(value=_shown(value))
            count = by_share(self.pods, value, _milli(target.average_value or ""))
        except MetricUnavailable as error:
            text = f"{metric.name} external metric" if shared else f"external metric {metric.name}"
            raise _Reason(str(error), f"failed to get {text}: {error}") from error
        return count.replicas, MetricValueStatus(average_value=_shown(count.average))


class _Reason(Exception):
    """A reason for the event, and the longer text for everything else."""

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(text or reason)
        self.message = reason


def _milli(text: str) -> int:
    try:
        return parse_quantity(text).milli_value
    except QuantityError as error:
        raise MetricUnavailable(str(error)) from error


def _shown(value: int, notation: str = DECIMAL) -> str:
    return str(Quantity(value, -3, notation))


def _selector_of(selector: LabelSelector | None) -> Selector:
    try:
        return selector_from(selector)
    except SelectorError as error:
        raise MetricUnavailable(str(error)) from error
