"""The scheduler's metrics: kube-scheduler's families under their names, labels, buckets and texts.

As kube-scheduler v1.36 ``pkg/scheduler/metrics/metrics.go``. Filter and Score are measured as a whole, because each
filter runs for all nodes before the next one; PreFilter is part of Filter, PreScore of Score. Events are labeled by
resource and action (``NodeUpdate``), without the changed part. Metrics of features that are missing here are omitted:
Permit, extenders, batches of pods, groups, and sampled durations of single plugins and queueing hints.
"""

from collections.abc import Callable

from pilothouse.machinery.metrics import Counter, Histogram, Registry, exponential_buckets

_ATTEMPTS = exponential_buckets(0.001, 2, 15)
_POINTS = exponential_buckets(0.0001, 2, 12)
_MAX_ATTEMPTS = 15

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
SUCCESS, REJECTED, FAILED = "Success", "Unschedulable", "Error"

POD_ADD = "UnschedulablePodAdd"
POD_UPDATE = "UnschedulablePodUpdate"
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"


class SchedulerMetrics:
    """The metrics of one scheduler with one profile. ``on_collect`` sets those that are computed with each scrape."""

    def __init__(self, registry: Registry, profile: str) -> None:
        self.registry = registry
        self._profile = profile
        self._attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self._attempt_seconds = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            _ATTEMPTS,
        )
        self.algorithm = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Scheduling algorithm latency in seconds",
            (),
            _ATTEMPTS,
        ).labels()
        self.preemption_victims = registry.histogram(
            "scheduler_preemption_victims",
            "[STABLE] Number of selected preemption victims",
            (),
            exponential_buckets(1, 2, 7),
        ).labels()
        self.preemption_attempts = registry.counter(
            "scheduler_preemption_attempts_total", "[STABLE] Total preemption attempts in the cluster till now"
        ).labels()
        self.pending_pods = registry.gauge(
            "scheduler_pending_pods",
            "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' "
            "means number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the "
            "scheduler attempted to schedule and failed; 'gated' is the number of unschedulable pods that the "
            "scheduler never attempted to schedule because they are gated.",
            ("queue",),
        )
        self._goroutines = registry.gauge(
            "scheduler_goroutines",
            "[BETA] Number of running goroutines split by the work they do such as binding.",
            ("operation",),
        )
        self.binding = self._goroutines.labels("binding")
        self._sli_seconds = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might "
            "involve multiple scheduling attempts.",
            ("attempts",),
            exponential_buckets(0.01, 2, 20),
        )
        self._pod_attempts = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "[STABLE] Number of attempts to successfully schedule a pod.",
            (),
            exponential_buckets(1, 2, 5),
        ).labels()
        self._after_flush = registry.counter(
            "scheduler_pod_scheduled_after_flush_total",
            "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulablePods due to "
            "timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
        ).labels()
        self._points = registry.histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Latency for running all plugins of a specific extension point.",
            ("extension_point", "status", "profile"),
            _POINTS,
        )
        self._added = registry.counter(
            "scheduler_queue_incoming_pods_total",
            "[STABLE] Number of pods added to scheduling queues by event and queue type.",
            ("queue", "event"),
        )
        self.cache_size = registry.gauge(
            "scheduler_cache_size",
            "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            ("type",),
        )
        self._unschedulable_pods = registry.gauge(
            "scheduler_unschedulable_pods",
            "[BETA] The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for "
            "all plugins that caused it to not schedule and so this metric have meaning only when broken down by "
            "plugin.",
            ("plugin", "profile"),
        )
        self.clock: Callable[[], float] = float
        """Seconds by which attempts are measured; the scheduler sets it when it runs."""
        self.filter_accepted = self.point("Filter", SUCCESS)
        self.filter_rejected = self.point("Filter", REJECTED)
        self.score = self.point("Score", SUCCESS)

    def point(self, extension_point: str, status: str) -> Histogram:
        """Counts the runs of an extension point with this status."""
        return self._points.labels(extension_point, status, self._profile)

    def attempted(self, result: str, seconds: float) -> None:
        """An attempt is over, binding included."""
        self._attempts.labels(result, self._profile).inc()
        self._attempt_seconds.labels(result, self._profile).observe(seconds)

    def scheduled(self, attempts: int, seconds: float, *, flushed: bool) -> None:
        """A pod is bound, so long after it was first in the queue."""
        self._pod_attempts.observe(attempts)
        label = f"{_MAX_ATTEMPTS}+" if attempts >= _MAX_ATTEMPTS else str(attempts)
        self._sli_seconds.labels(label).observe(seconds)
        if flushed:
            self._after_flush.inc()

    def added_to(self, queue: str, event: str) -> Counter:
        """Counts the pods that this event moved to a queue."""
        return self._added.labels(queue, event)

    def show_unschedulable(self, by_plugin: dict[str, int]) -> None:
        """How many pods each plugin keeps from being scheduled."""
        self._unschedulable_pods.show({(plugin, self._profile): float(number) for plugin, number in by_plugin.items()})
