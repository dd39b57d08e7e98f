"""The metrics of the Job controller, by upstream's names (v1.36 ``pkg/controller/job/metrics``)."""

from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.runtime import Registry


class Metrics:
    def __init__(self, metrics: Registry) -> None:
        by_sync = ("completion_mode", "result", "action")
        self.sync_seconds = metrics.histogram(
            "job_controller_job_sync_duration_seconds",
            "[STABLE] The time it took to sync a job",
            by_sync,
            exponential_buckets(0.004, 2, 15),
        )
        self.syncs = metrics.counter("job_controller_job_syncs_total", "[STABLE] The number of job syncs", by_sync)
        self.finished = metrics.counter(
            "job_controller_jobs_finished_total",
            "[STABLE] The number of finished jobs",
            ("completion_mode", "result", "reason"),
        )
        self.pods_finished = metrics.counter(
            "job_controller_job_pods_finished_total",
            "[STABLE] The number of finished Pods that are fully tracked",
            ("completion_mode", "result"),
        )
        self.external = metrics.counter(
            "job_controller_jobs_by_external_controller_total",
            "[ALPHA] The number of Jobs managed by an external controller",
            ("controller_name",),
        )
        self.handled = metrics.counter(
            "job_controller_pod_failures_handled_by_failure_policy_total",
            "[ALPHA] The number of failed Pods handled by failure policy, by action of the rule that matched",
            ("action",),
        )
        self.finalizers = metrics.counter(
            "job_controller_terminated_pods_tracking_finalizer_total",
            "[ALPHA] Terminated pods that have the finalizer (add) or had it when last seen (delete)",
            ("event",),
        )
        self.finished_indexes = metrics.counter(
            "job_controller_job_finished_indexes_total",
            "[ALPHA] The number of finished indexes",
            ("status", "backoffLimit"),
        )
        self.pods_created = metrics.counter(
            "job_controller_job_pods_creation_total",
            "[ALPHA] The number of Pods created by the Job controller, by why and with what result",
            ("reason", "status"),
        )
