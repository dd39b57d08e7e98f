"""``autoscaling``: HorizontalPodAutoscalers (v2) and the subresource ``Scale`` (v1)."""

import datetime

from pilothouse.api.kinds import Kind
from pilothouse.api.meta import LabelSelector, ObjectMeta, View


class CrossVersionObjectReference(View, frozen=True):
    kind: str = ""
    name: str = ""
    api_version: str = ""


class MetricIdentifier(View, frozen=True):
    name: str = ""
    selector: LabelSelector | None = None


class MetricTarget(View, frozen=True):
    """The target value of a metric. Quantities as written."""

    type: str = ""
    value: str | None = None
    average_value: str | None = None
    average_utilization: int | None = None


class ResourceMetricSource(View, frozen=True):
    name: str = ""
    target: MetricTarget = MetricTarget()


class ContainerResourceMetricSource(View, frozen=True):
    name: str = ""
    container: str = ""
    target: MetricTarget = MetricTarget()


class PodsMetricSource(View, frozen=True):
    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class ObjectMetricSource(View, frozen=True):
    described_object: CrossVersionObjectReference = CrossVersionObjectReference()
    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class ExternalMetricSource(View, frozen=True):
    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class MetricSpec(View, frozen=True):
    """One metric to scale on. ``type`` determines which of the other fields is set."""

    type: str = ""
    object: ObjectMetricSource | None = None
    pods: PodsMetricSource | None = None
    resource: ResourceMetricSource | None = None
    container_resource: ContainerResourceMetricSource | None = None
    external: ExternalMetricSource | None = None


class HPAScalingPolicy(View, frozen=True):
    """The maximum change within a period: ``Pods`` or ``Percent``."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class HPAScalingRules(View, frozen=True):
    stabilization_window_seconds: int | None = None
    select_policy: str | None = None
    policies: tuple[HPAScalingPolicy, ...] = ()
    tolerance: str | None = None


class HorizontalPodAutoscalerBehavior(View, frozen=True):
    scale_up: HPAScalingRules | None = None
    scale_down: HPAScalingRules | None = None


class HorizontalPodAutoscalerSpec(View, frozen=True):
    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    behavior: HorizontalPodAutoscalerBehavior | None = None


class MetricValueStatus(View, frozen=True):
    """The current value of a metric. Quantities in canonical form."""

    value: str | None = None
    average_value: str | None = None
    average_utilization: int | None = None


class ResourceMetricStatus(View, frozen=True):
    name: str = ""
    current: MetricValueStatus = MetricValueStatus()


class ContainerResourceMetricStatus(View, frozen=True):
    name: str = ""
    container: str = ""
    current: MetricValueStatus = MetricValueStatus()


class PodsMetricStatus(View, frozen=True):
    metric: MetricIdentifier = MetricIdentifier()
    current: MetricValueStatus = MetricValueStatus()


class ObjectMetricStatus(View, frozen=True):
    metric: MetricIdentifier = MetricIdentifier()
    current: MetricValueStatus = MetricValueStatus()
    described_object: CrossVersionObjectReference = CrossVersionObjectReference()


class ExternalMetricStatus(View, frozen=True):
    metric: MetricIdentifier = MetricIdentifier()
    current: MetricValueStatus = MetricValueStatus()


class MetricStatus(View, frozen=True):
    """The last read values of one metric; all fields are empty if it could not be read."""

    type: str = ""
    object: ObjectMetricStatus | None = None
    pods: PodsMetricStatus | None = None
    resource: ResourceMetricStatus | None = None
    container_resource: ContainerResourceMetricStatus | None = None
    external: ExternalMetricStatus | None = None


class HorizontalPodAutoscalerCondition(View, frozen=True):
    type: str = ""
    status: str = ""
    last_transition_time: datetime.datetime | None = None
    reason: str = ""
    message: str = ""


class HorizontalPodAutoscalerStatus(View, frozen=True):
    last_scale_time: datetime.datetime | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: tuple[MetricStatus, ...] | None = None
    conditions: tuple[HorizontalPodAutoscalerCondition, ...] = ()


class HorizontalPodAutoscaler(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()


HORIZONTAL_POD_AUTOSCALERS = Kind(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, HorizontalPodAutoscaler
)


class ScaleSpec(View, frozen=True):
    replicas: int = 0


class ScaleStatus(View, frozen=True):
    replicas: int = 0
    selector: str = ""


class Scale(View, frozen=True):
    """The subresource ``scale`` of a workload."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()
