"""The arithmetic of an autoscaler, in a sentence. Pure."""

from pilothouse.api.autoscaling import MetricSpec, MetricTarget, MetricValueStatus
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.limits import Limited, NormalizationArg
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.proposals import Proposal
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.replica_count import Tolerances
from pilothouse.machinery.quantities import parse_quantity


def describe_metric(spec: MetricSpec, proposal: Proposal, replicas: int, tolerances: Tolerances) -> str:
    """``cpu resource utilization …: 90%, target 50%, ratio 1.80, …``"""
    source = spec.resource or spec.container_resource or spec.pods or spec.object or spec.external
    status = proposal.status
    metric_status = status.resource or status.container_resource or status.pods or status.object or status.external
    if source is None or metric_status is None:
        return f"{proposal.name} asks for {proposal.replicas} replicas"
    return (
        f"{proposal.name}: {_compared(metric_status.current, source.target)}, tolerance {tolerances.down:g} down and "
        f"{tolerances.up:g} up: {replicas} replicas become {proposal.replicas}"
    )


def _compared(current: MetricValueStatus, target: MetricTarget) -> str:
    if current.average_utilization is not None and target.average_utilization:
        ratio = current.average_utilization / target.average_utilization
        return f"{current.average_utilization}%, target {target.average_utilization}%, ratio {ratio:.2f}"
    for current_value, target_value, unit in (
        (current.average_value, target.average_value, " per pod"),
        (current.value, target.value, ""),
    ):
        if current_value is not None and target_value is not None:
            divisor = _number(target_value)
            text = f"{current_value}{unit}, target {target_value}"
            return f"{text}, ratio {_number(current_value) / divisor:.2f}" if divisor else text
    return "no value"


def _number(text: str) -> float:
    quantity = parse_quantity(text)
    return float(quantity.mantissa * 10.0**quantity.exponent)


def describe_limits(arg: NormalizationArg, limited: Limited) -> str:
    """The effect of stabilization and limits; starts with a semicolon."""
    text = f"; minReplicas {arg.min_replicas}, maxReplicas {arg.max_replicas}"
    if limited.stabilized.replicas != arg.desired:
        text += f"; {limited.stabilized.reason}, {limited.stabilized.replicas}: {limited.stabilized.message}"
    if limited.is_bounded:
        text += f"; {limited.bounded.reason}, {limited.bounded.replicas}: {limited.bounded.message}"
    return text
