"""The arithmetic of an autoscaler, in a sentence. Pure."""

from collections.abc import Sequence

from pilothouse.api.autoscaling import MetricSpec, MetricTarget, MetricValueStatus
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.limits import Limited, NormalizationArg
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.proposals import Proposal
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.replica_count import Computation, Tolerances, whole
from pilothouse.machinery.quantities import parse_quantity

_MAX_NODES = 3


def describe_metric(spec: MetricSpec, proposal: Proposal, replicas: int, tolerances: Tolerances) -> str:
    """``cpu resource utilization …: 90%, target 50%, ratio 1.80, …``"""
    source = spec.resource or spec.container_resource or spec.pods or spec.object or spec.external
    status = proposal.status
    metric_status = status.resource or status.container_resource or status.pods or status.object or status.external
    if source is None or metric_status is None:
        return f"{proposal.name} asks for {proposal.replicas} replicas"
    computed = "" if proposal.computation is None else describe_computation(proposal.computation, replicas)
    return (
        f"{proposal.name}: {_compared(metric_status.current, source.target)}{computed and f'; {computed}'}, tolerance "
        f"{tolerances.down:g} down and {tolerances.up:g} up: {replicas} replicas become {proposal.replicas}"
    )


def describe_computation(computation: Computation, replicas: int) -> str:
    """How pods counted, if not all did alike: ``metrics of 3 of 6 pods count, 3 have none (on node-0) and count as 0:
    ratio 1.79, times 6 pods makes 11``."""
    uneven = (computation.missing, computation.starting, computation.ignored)
    if not any(uneven) and computation.counted == replicas:
        return ""
    parts = [f"metrics of {computation.measured} of {computation.total} pods count"]
    if computation.missing:
        have = "has" if computation.missing == 1 else "have"
        on = f" (on {_listed(computation.missing_nodes)})" if computation.missing_nodes else ""
        parts.append(
            f"{computation.missing} {have} none{on} and {_counting(computation.missing, computation.missing_as)}"
        )
    if computation.starting:
        are = "is" if computation.starting == 1 else "are"
        counting = _counting(computation.starting, computation.starting_as)
        parts.append(f"{computation.starting} {are} not ready yet and {counting}")
    if computation.ignored:
        are = "is being deleted or has" if computation.ignored == 1 else "are being deleted or have"
        parts.append(f"{computation.ignored} {are} failed and {_counting(computation.ignored, '')}")
    outcome = f"ratio {computation.ratio:.2f}, "
    if computation.kept:
        outcome += f"{computation.kept}, so {replicas} replicas stay"
    else:
        counted = computation.counted
        outcome += f"times {counted} {'pod' if counted == 1 else 'pods'} makes {whole(computation.ratio * counted)}"
    return f"{', '.join(parts)}: {outcome}"


def _counting(number: int, as_: str) -> str:
    if as_:
        return f"{'counts' if number == 1 else 'count'} as {as_}"
    return f"{'does' if number == 1 else 'do'} not count"


def _listed(nodes: Sequence[str]) -> str:
    """Few enough for the length of a decision."""
    more = len(nodes) - _MAX_NODES
    return ", ".join(nodes[:_MAX_NODES]) + (f" and {more} more" if more > 0 else "")


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
