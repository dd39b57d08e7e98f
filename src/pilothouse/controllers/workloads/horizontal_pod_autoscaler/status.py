"""The status of an autoscaler. Pure.

Upstream: ``setStatus`` and ``setConditionInList`` of v1.36 ``pkg/controller/podautoscaler/horizontal.go``.
"""

import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from pilothouse.api.autoscaling import (
    HorizontalPodAutoscalerCondition,
    HorizontalPodAutoscalerStatus,
    MetricStatus,
)
from pilothouse.machinery.conditions import is_condition_true, with_condition, without_condition
from pilothouse.machinery.splice import replace_fields
from pilothouse.machinery.times import format_time

ABLE, ACTIVE, LIMITED, AT_ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"


class Report:
    """The status of one sync, until it is written."""

    def __init__(self, status: HorizontalPodAutoscalerStatus, now: datetime.datetime) -> None:
        self.status = status
        self._original = status
        self._now = now

    def set_condition(self, condition: str, holds: bool, reason: str, message: str) -> None:
        """Set a condition. Its time changes with its status only."""
        new = HorizontalPodAutoscalerCondition(
            type=condition,
            status="True" if holds else "False",
            reason=reason,
            message=message,
            last_transition_time=self._now,
        )
        self.status = replace(self.status, conditions=with_condition(self.status.conditions, new))

    def drop(self, condition: str) -> None:
        self.status = replace(self.status, conditions=without_condition(self.status.conditions, condition))

    def is_true(self, condition: str) -> bool:
        return is_condition_true(self.status.conditions, condition)

    def failure(self) -> str:
        """The reason and message of the first condition because of which no count was computed; empty if there is
        none."""
        for condition in self.status.conditions:
            if condition.type in (ABLE, ACTIVE) and condition.status == "False":
                return f"{condition.reason}: {condition.message}"
        return ""

    def set_status(
        self,
        current: int,
        metrics: tuple[MetricStatus, ...] | None,
        *,
        desired: int | None = None,
        rescaled: bool = False,
    ) -> None:
        """Set replicas and metrics."""
        status = self.status
        self.status = replace(
            status,
            current_replicas=current,
            desired_replicas=status.desired_replicas if desired is None else desired,
            current_metrics=metrics,
            last_scale_time=self._now if rescaled else status.last_scale_time,
        )

    @property
    def has_changed(self) -> bool:
        """Whether the status has changed."""
        return _compared(self.status) != _compared(self._original)


def _compared(status: HorizontalPodAutoscalerStatus) -> HorizontalPodAutoscalerStatus:
    """Missing metrics and an empty list are equal."""
    return replace(status, current_metrics=status.current_metrics or ())


def status_body(raw: bytes, status: HorizontalPodAutoscalerStatus) -> bytes:
    """``raw`` with this status. Unknown fields stay."""
    return replace_fields(raw, {"status": msgspec.json.encode(_document(status)), "metadata.managedFields": None})


def _document(status: HorizontalPodAutoscalerStatus) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if status.last_scale_time is not None:
        document["lastScaleTime"] = format_time(status.last_scale_time)
    if status.current_replicas:
        document["currentReplicas"] = status.current_replicas
    document["desiredReplicas"] = status.desired_replicas
    metrics = status.current_metrics
    document["currentMetrics"] = None
    if metrics is not None:
        # The type is required, also if it is empty for a metric that could not be read.
        document["currentMetrics"] = [{"type": metric.type, **msgspec.to_builtins(metric)} for metric in metrics]
    document["conditions"] = [
        {
            "type": condition.type,
            "status": condition.status,
            "lastTransitionTime": format_time(condition.last_transition_time)
            if condition.last_transition_time
            else None,
            "reason": condition.reason,
            "message": condition.message,
        }
        for condition in status.conditions
    ]
    return document
