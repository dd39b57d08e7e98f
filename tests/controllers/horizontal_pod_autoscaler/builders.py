"""Builders of pods with requests, metric samples, autoscalers and scaling rules."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.api.autoscaling import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules
from pilothouse.api.core import Container, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements
from pilothouse.api.meta import ObjectMeta
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.grouping import ReadinessDelays
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.recent import Change, RecentScaling, Recommendation
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.replica_count import Pods, Tolerances
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.samples import Sample

NOW = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
LONG_AGO = NOW - datetime.timedelta(days=365)
DELAYS = ReadinessDelays(cpu_initialization_period=120.0, initial_readiness_delay=10.0)
"""The value in upstream's tests."""


def ago(seconds: float) -> datetime.datetime:
    """The instant this long before now."""
    return NOW - datetime.timedelta(seconds=seconds)


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready: str = "True",
    since: datetime.datetime | None = None,
    started: datetime.datetime | None = LONG_AGO,
    deleted: bool = False,
    requests: Mapping[str, str] | None = None,
    resource: str = "cpu",
    sidecars: Mapping[str, str] | None = None,
    inits: Mapping[str, str] | None = None,
    whole: Mapping[str, str] | None = None,
) -> Pod:
    """A pod. ``requests`` by container, empty for none; ``ready`` empty for no Ready condition."""

    def container(named: tuple[str, str], policy: str = "") -> Container:
        name, text = named
        resources = ResourceRequirements(requests={resource: text} if text else {})
        return Container(name=name, restart_policy=policy, resources=resources)

    init_containers = [container(item) for item in (inits or {}).items()]
    init_containers += [container(item, "Always") for item in (sidecars or {}).items()]
    condition = PodCondition(type="Ready", status=ready, last_transition_time=since)
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", deletion_timestamp=NOW if deleted else None),
        spec=PodSpec(
            containers=tuple(container(item) for item in (requests or {}).items()),
            init_containers=tuple(init_containers),
            resources=ResourceRequirements(requests=dict(whole or {})),
        ),
        status=PodStatus(phase=phase, conditions=(condition,) if ready else (), start_time=started),
    )


def workload(
    current: int,
    *,
    requests: Sequence[str] = (),
    ready: str = "",
    phases: Sequence[str] = (),
    started: Sequence[datetime.datetime] = (),
    deleted: str = "",
    tolerances: Tolerances | None = None,
    reported: int | None = None,
) -> Pods:
    """So many pods, each with two containers that request the same. ``ready`` and ``deleted`` have a letter for each
    pod, ``y`` for yes."""
    pods = []
    for number in range(max(current, len(phases))):
        sent_requests = requests[number] if number < len(requests) else ""
        pods.append(
            pod(
                f"p{number}",
                phase=phases[number] if phases else "Running",
                ready="True" if ready[number : number + 1] in ("", "y") else "False",
                started=started[number] if started else LONG_AGO,
                since=LONG_AGO,
                deleted=deleted[number : number + 1] == "y",
                requests={"c1": sent_requests, "c2": sent_requests},
            )
        )
    return Pods(
        pods=pods,
        current=current,
        reported=current if reported is None else reported,
        tolerances=tolerances or Tolerances(0.1, 0.1),
        delays=DELAYS,
        now=NOW,
    )


def samples(*values: int) -> dict[str, Sample]:
    """A sample of each pod of ``workload``, over a minute, without a timestamp: new pods are ignored."""
    return {f"p{number}": Sample(value, None, 60.0) for number, value in enumerate(values)}


def doubled(*values: int) -> dict[str, Sample]:
    """Samples of two containers with the same usage."""
    return samples(*(2 * value for value in values))


def rules(pods: tuple[int, int] | None = None, percent: tuple[int, int] | None = None, **more: Any) -> HPAScalingRules:
    """Policies: (pods or percent, period in seconds)."""
    policies = [HPAScalingPolicy(type="Pods", value=pods[0], period_seconds=pods[1])] if pods else []
    policies += [HPAScalingPolicy(type="Percent", value=percent[0], period_seconds=percent[1])] if percent else []
    return HPAScalingRules(**{"select_policy": "Max", "policies": tuple(policies), **more})


DEFAULT_UP = rules((4, 15), (100, 15), stabilization_window_seconds=0)
DEFAULT_DOWN = rules(None, (100, 15))
"""The server's default."""


def behavior(up: HPAScalingRules | None = None, down: HPAScalingRules | None = None) -> HorizontalPodAutoscalerBehavior:
    """A behavior with both directions, with the server's defaults."""
    return HorizontalPodAutoscalerBehavior(scale_up=up or DEFAULT_UP, scale_down=down or DEFAULT_DOWN)


def spread(changes: Sequence[int], seconds: int, now: float) -> list[Change]:
    """Changes spread evenly over the last seconds, each in the middle of its part (upstream's
    ``generateEventsUniformDistribution``)."""
    part = seconds / len(changes) if changes else 0.0
    return [Change(by, now - int(seconds - part * (at + 1) + part / 2)) for at, by in enumerate(changes)]


def recent(
    *recommended: tuple[int, float],
    now: float = 0.0,
    ups: Sequence[Change] = (),
    downs: Sequence[Change] = (),
) -> RecentScaling:
    """Recommendations: (replicas, seconds ago)."""
    listed = [Recommendation(replicas, now - seconds) for replicas, seconds in recommended]
    return RecentScaling(recommendations=listed, ups=list(ups), downs=list(downs))
