"""The metrics of the HPA controller, by upstream's names (v1.36 ``pkg/controller/podautoscaler/monitor``)."""

from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.runtime import Registry

_ACTIONS = "The label 'action' should be either 'scale_down', 'scale_up', or 'none'."
_ERRORS = "the label 'error' should be either 'spec', 'internal', or 'none'."
_FIRST = (
    "Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in "
    "`error` label."
)
_TYPE = "The label 'metric_type' corresponds to HPA.spec.metrics[*].type"

NONE, SPEC, INTERNAL = "none", "spec", "internal"
UP, DOWN = "scale_up", "scale_down"


def action_of(old: int, new: int) -> str:
    """The label ``action``."""
    return NONE if old == new else UP if new > old else DOWN


class Metrics:
    def __init__(self, metrics: Registry) -> None:
        prefix, buckets = "horizontal_pod_autoscaler_controller", exponential_buckets(0.001, 2, 15)
        by_outcome, by_type = ("action", "error"), ("action", "error", "metric_type")
        self.reconciliations = metrics.counter(
            f"{prefix}_reconciliations_total",
            f"[ALPHA] Number of reconciliations of HPA controller. {_ACTIONS} Also, {_ERRORS} {_FIRST}",
            by_outcome,
        )
        self.reconciliation_seconds = metrics.histogram(
            f"{prefix}_reconciliation_duration_seconds",
            f"[ALPHA] The time(seconds) that the HPA controller takes to reconcile once. {_ACTIONS} Also, {_ERRORS} "
            f"{_FIRST}",
            by_outcome,
            buckets,
        )
        self.computations = metrics.counter(
            f"{prefix}_metric_computation_total",
            f"[ALPHA] Number of metric computations. {_ACTIONS} Also, {_ERRORS} {_TYPE}",
            by_type,
        )
        self.computation_seconds = metrics.histogram(
            f"{prefix}_metric_computation_duration_seconds",
            f"[ALPHA] The time(seconds) that the HPA controller takes to calculate one metric. {_ACTIONS} The label "
            f"'error' should be either 'spec', 'internal', or 'none'. {_TYPE}",
            by_type,
            buckets,
        )
        self.autoscalers = metrics.gauge(
            f"{prefix}_num_horizontal_pod_autoscalers", "[ALPHA] Current number of controlled HPA objects."
        ).labels()
        self.desired = metrics.gauge(
            f"{prefix}_desired_replicas",
            "[ALPHA] Current desired replica count for HPA objects.",
            ("namespace", "hpa_name"),
        )
