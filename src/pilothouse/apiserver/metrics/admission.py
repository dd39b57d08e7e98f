"""Metrics of admission: durations and rejections of plugins, webhooks and policies.

After apiserver ``pkg/admission/metrics/metrics.go`` (v0.36), without the summaries of the steps, which cannot be
aggregated, and ``pkg/admission/plugin/policy/{validating,mutating}/metrics/metrics.go``. Plugins are not called, and
not counted, for resources that they do not handle.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from pilothouse.machinery.metrics import CounterFamily, Histogram, HistogramFamily, Registry

StepType = Literal["admit", "validate"]
_LATENCIES = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_LATENCIES = (*_LATENCIES, 10.0, 25.0)
_BATCH_SIZE = 256
_LARGEST_CODE = 600
"""Higher codes are truncated to this one, because webhooks may return any."""


NO_WAITS: Mapping[int, float] = {}


class Phase:
    """The metrics of one admission phase of a resource and operation, and of its plugins.

    There are more than ten plugins, most of which take a microsecond, less than reading the clock would. So only those
    that wait are timed, and the others share the rest of the time: this only affects their sums, since plugins that do
    not wait belong in the first bucket.
    """

    def __init__(self, metrics: "AdmissionMetrics", kind: StepType, operation: str, names: Sequence[str]) -> None:
        self._metrics = metrics
        self._kind = kind
        self._operation = operation
        self._names = names
        self._phase_seconds = metrics.step(kind, operation, rejected=False)
        self._plugins = [metrics.controller(name, kind, operation, rejected=False) if name else None for name in names]
        self._passed: list[float] = []
        """Durations of the runs that are not counted yet."""
        self._waited = 0.0
        """The total of the durations in which plugins waited."""
        self._already_counted = [0] * len(names)
        """By plugin: in how many of these runs it was counted already, or not called."""

    def passed(self, seconds: float, wait_seconds: Mapping[int, float] = NO_WAITS) -> None:
        """All plugins have admitted. ``wait_seconds``: durations of those that waited, by position."""
        self._passed.append(seconds)
        if wait_seconds:
            self._record_waits(wait_seconds)
        if len(self._passed) >= _BATCH_SIZE:
            self.count()

    def rejected(self, index: int, seconds: float, wait_seconds: Mapping[int, float] = NO_WAITS) -> None:
        """The plugin at this position has rejected the write; later ones are not called."""
        self._metrics.step(self._kind, self._operation, rejected=True).observe(seconds)
        name = self._names[index]
        if name:
            plugin_seconds = seconds - sum(wait_seconds.values())
            self._metrics.controller(name, self._kind, self._operation, rejected=True).observe(plugin_seconds)
        for position in range(index):
            self._already_counted[position] -= 1
        self._record_waits(wait_seconds)
        self._waited -= sum(wait_seconds.values())  # a rejected run is not among the passed ones

    def _record_waits(self, wait_seconds: Mapping[int, float]) -> None:
        for index, seconds in wait_seconds.items():
            plugin = self._plugins[index]
            if plugin is not None:
                plugin.observe(seconds)
            self._already_counted[index] += 1
            self._waited += seconds

    def count(self) -> None:
        """Count the runs, and the plugins that did not wait in them."""
        passed, self._passed = self._passed, []
        self._phase_seconds.observe_each(passed)
        plugin_share = max(0.0, sum(passed) - self._waited) / max(1, len(self._names))
        for index, plugin in enumerate(self._plugins):
            if plugin is not None:
                plugin.counts[0] += len(passed) - self._already_counted[index]
                plugin.sum += plugin_share
            self._already_counted[index] = 0
        self._waited = 0.0


class AdmissionMetrics:
    """The admission metrics."""

    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self.clock = clock
        """The clock of the durations, in seconds."""
        self._steps = registry.histogram(
            "apiserver_admission_step_admission_duration_seconds",
            "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource "
            "and step type (validate or admit).",
            ("type", "operation", "rejected"),
            _LATENCIES,
        )
        self._controllers = registry.histogram(
            "apiserver_admission_controller_admission_duration_seconds",
            "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each "
            "operation and API resource and type (validate or admit).",
            ("name", "type", "operation", "rejected"),
            _LATENCIES,
        )
        self._webhooks = registry.histogram(
            "apiserver_admission_webhook_admission_duration_seconds",
            "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each "
            "operation and API resource and type (validate or admit).",
            ("name", "type", "operation", "rejected"),
            _WEBHOOK_LATENCIES,
        )
        self._rejections = registry.counter(
            "apiserver_admission_webhook_rejection_count",
            "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type "
            "(validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or "
            "apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection "
            "code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code "
            "is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality "
            "bounded.",
            ("name", "type", "operation", "error_type", "rejection_code"),
        )
        self._fail_open = registry.counter(
            "apiserver_admission_webhook_fail_open_count",
            "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type "
            "(validating or admit).",
            ("name", "type"),
        )
        self._requests = registry.counter(
            "apiserver_admission_webhook_request_total",
            "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type "
            "(validating or admit) and operation. Additional labels specify whether the request was rejected or not "
            "and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality "
            "bounded.",
            ("name", "type", "operation", "code", "rejected"),
        )

        self._phases: list[Phase] = []
        registry.on_collect(self._derive)

    def phase(self, kind: StepType, operation: str, names: Sequence[str]) -> Phase:
        """The metrics of these plugins, in the order in which they run; an empty name is not shown."""
        phase = Phase(self, kind, operation, names)
        self._phases.append(phase)
        return phase

    def forget(self, phases: Collection[Phase]) -> None:
        """Remove phases that are no longer used."""
        self._derive()
        self._phases = [phase for phase in self._phases if phase not in phases]

    def _derive(self) -> None:
        for phase in self._phases:
            phase.count()

    def step(self, kind: StepType, operation: str, *, rejected: bool) -> Histogram:
        """The histogram of a whole phase of admission."""
        return self._steps.labels(kind, operation, _bool(rejected))

    def controller(self, name: str, kind: StepType, operation: str, *, rejected: bool) -> Histogram:
        """The histogram of one plugin."""
        return self._controllers.labels(name, kind, operation, _bool(rejected))

    def webhook_called(
        self, name: str, kind: str, operation: str, seconds: float, *, code: int, rejected: bool
    ) -> None:
        """A webhook was called (``ObserveWebhook``). ``code`` is that of the response, 0 without one."""
        self._webhooks.labels(name, kind, operation, _bool(rejected)).observe(seconds)
        self._requests.labels(name, kind, operation, min(code, _LARGEST_CODE), _bool(rejected)).inc()

    def webhook_rejected(self, name: str, kind: str, operation: str, error: str, code: int) -> None:
        """A webhook has rejected a request (``error`` is ``no_error``), or the call has failed."""
        self._rejections.labels(name, kind, operation, error, min(code, _LARGEST_CODE)).inc()

    def webhook_failed_open(self, name: str, kind: str) -> None:
        """The call of a webhook has failed, and the request continues."""
        self._fail_open.labels(name, kind).inc()


def _bool(value: bool) -> str:
    return "true" if value else "false"


NO_ERROR = "no_error"
_COMPILE, _BUDGET, _INVALID = "compile_error", "out_of_budget", "invalid_error"
_POLICY_LATENCIES = (0.0000005, 0.001, 0.01, 0.1, 1.0)


def error_type(message: str) -> str:
    """The error label of a message. As upstream, it depends on the text; a validation that evaluates to false is an
    ``invalid_error`` (``validating/errors.go``)."""
    if message.startswith("compilation"):
        return _COMPILE
    return _BUDGET if "running out of cost budget" in message else _INVALID


class PolicyMetrics:
    """The metrics of admission policies."""

    def __init__(self, registry: Registry) -> None:
        names = ("policy", "policy_binding", "error_type")
        self._validations = registry.counter(
            "apiserver_validating_admission_policy_check_total",
            "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and "
            "enforcement action taken.",
            (*names, "enforcement_action"),
        )
        self._validation_seconds = registry.histogram(
            "apiserver_validating_admission_policy_check_duration_seconds",
            "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy "
            "and further including binding and enforcement action taken.",
            (*names, "enforcement_action"),
            _POLICY_LATENCIES,
        )
        self._mutations = registry.counter(
            "apiserver_mutating_admission_policy_check_total",
            "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.",
            names,
        )
        self._mutation_seconds = registry.histogram(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and "
            "binding.",
            names,
            _POLICY_LATENCIES,
        )
        registry.on_collect(self._derive)

    def validated(self, policy: str, binding: str, error: str, action: str, seconds: float) -> None:
        """A validation was false or failed, with this action: ``allow``, ``deny``, ``audit`` or ``warn``."""
        self._validation_seconds.labels(policy, binding, error, action).observe(seconds)

    def mutated(self, policy: str, binding: str, error: str, seconds: float) -> None:
        """A mutation was applied, or failed."""
        self._mutation_seconds.labels(policy, binding, error).observe(seconds)

    def _derive(self) -> None:
        pairs: tuple[tuple[CounterFamily, HistogramFamily], ...] = (
            (self._validations, self._validation_seconds),
            (self._mutations, self._mutation_seconds),
        )
        for counter, seconds in pairs:
            for labels, histogram in seconds.children.items():
                counter.labels(*labels).value = float(histogram.count)
