"""The wiring: once per period each autoscaler is synced, observe → propose → limit → apply → report.

Upstream: ``reconcileAutoscaler`` of v1.36 ``pkg/controller/podautoscaler/horizontal.go``.
"""

from collections.abc import Sequence

from pilothouse.api.autoscaling import HORIZONTAL_POD_AUTOSCALERS, HorizontalPodAutoscaler, MetricSpec, MetricStatus
from pilothouse.api.core import PODS, Pod
from pilothouse.client.discovery import RestMapper
from pilothouse.client.errors import ApiError, ConnectFailed, ConnectionRefused
from pilothouse.controllers.shared.pauses import pause
from pilothouse.controllers.shared.pods_by_label import LABEL_INDEX, index_by_label, pods_selected
from pilothouse.controllers.workloads.horizontal_pod_autoscaler import DESCRIPTOR, HorizontalPodAutoscalerOptions
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.describe import describe_limits, describe_metric
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.grouping import ReadinessDelays
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.hpa_selectors import HpaSelectors
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.limits import NormalizationArg, limit
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.metric_apis import MetricApis
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.metrics import (
    INTERNAL,
    NONE,
    SPEC,
    Metrics,
    action_of,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.proposals import (
    MetricFailed,
    Proposal,
    Proposals,
    tolerances_of,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.recent import RecentScaling
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.replica_count import Pods
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.sizes import (
    PASSING,
    ScaleClient,
    ScaleTargetNotFound,
    Target,
)
from pilothouse.controllers.workloads.horizontal_pod_autoscaler.status import (
    ABLE,
    ACTIVE,
    AT_ZERO,
    LIMITED,
    Report,
    status_body,
)
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.labels import Selector, SelectorError, parse_selector
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    object_key,
    object_reference,
)
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.runtime.rate_limiters import FixedLimiter

COMPONENT = "horizontal-pod-autoscaler"
INVALID = "InvalidSelector"


class ReconcileError(Exception):
    """A sync failed. ``by_spec``: because of the autoscaler's spec."""

    def __init__(self, text: str, *, by_spec: bool = False) -> None:
        super().__init__(text)
        self.by_spec = by_spec


class _InvalidMetrics(Exception):
    """No size can be computed from the metrics."""

    def __init__(self, text: str, metrics: tuple[MetricStatus, ...] | None = None) -> None:
        super().__init__(text)
        self.metrics = metrics


class HorizontalPodAutoscalerController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        autoscalers = context.informer(HORIZONTAL_POD_AUTOSCALERS)
        pods = context.informer(PODS, indexes={LABEL_INDEX: index_by_label})
        options = context.options_as(HorizontalPodAutoscalerOptions)
        period = pause(options.sync_period)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=options.workers,
            limiter=FixedLimiter(period),
            queue_name="horizontalpodautoscaler",
        )
        self._options = options
        self._period = period
        self._client = context.client
        self._autoscalers = autoscalers.cache
        self._pods = pods.cache
        mapper = context.rest_mapper if context.rest_mapper is not None else RestMapper(context.client)
        self._sizes = ScaleClient(context.client, mapper, self.log)
        self._apis = MetricApis(context.client, mapper, context.env, period, context.log)
        self._delays = ReadinessDelays(
            cpu_initialization_period=options.cpu_initialization_period,
            initial_readiness_delay=options.initial_readiness_delay,
        )
        self._hpa_selectors = HpaSelectors()
        self._recent: dict[str, RecentScaling] = {}
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        self._metrics = Metrics(context.metrics)
        autoscalers.add_handler(self._add_hpa, self._update_hpa, self._delete_hpa)

    def _add_hpa(self, autoscaler: HorizontalPodAutoscaler, _initial: bool) -> None:
        key = object_key(autoscaler.metadata)
        self._metrics.autoscalers.inc()
        self._hpa_selectors.register(key)
        self.queue.add_rate_limited(key)

    def _update_hpa(self, _old: HorizontalPodAutoscaler, autoscaler: HorizontalPodAutoscaler) -> None:
        # A key that is in the queue already keeps its time.
        self.queue.add_rate_limited(object_key(autoscaler.metadata))

    def _delete_hpa(self, autoscaler: HorizontalPodAutoscaler, _unknown: bool) -> None:
        key = object_key(autoscaler.metadata)
        self._metrics.autoscalers.inc(-1)
        self._hpa_selectors.forget(key)
        self.queue.forget(key)

    async def reconcile(self, key: str) -> Requeue | None:
        autoscaler, raw = self._autoscalers.get(key), self._autoscalers.raw(key)
        if autoscaler is None:
            self.log.info("Horizontal Pod Autoscaler has been deleted", HPA=key)
            self._recent.pop(key, None)
            namespace, _slash, name = key.rpartition("/")
            self._metrics.desired.remove(namespace, name)
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        recent = self._recent.get(key)
        if recent is None or recent.uid != autoscaler.metadata.uid:
            recent = self._recent[key] = RecentScaling(
                uid=autoscaler.metadata.uid, recommendations=[], ups=[], downs=[]
            )
        started, error = self.env.perf_counter(), INTERNAL
        sync = _SyncContext(self, autoscaler, raw, recent)
        try:
            await sync.run()
            error = NONE
        except ReconcileError as failure:
            error = SPEC if failure.by_spec else INTERNAL
            raise
        finally:
            labels = (sync.action, error)
            self._metrics.reconciliations.labels(*labels).inc()
            self._metrics.reconciliation_seconds.labels(*labels).observe(self.env.perf_counter() - started)
        return Requeue(self._period)


def _may_have_happened(error: BaseException) -> bool:
    """Whether a failed write may have been carried out: it was sent, and not rejected."""
    return not isinstance(error, ApiError | ConnectionRefused | ConnectFailed)


class _SyncContext:
    def __init__(
        self,
        controller: HorizontalPodAutoscalerController,
        autoscaler: HorizontalPodAutoscaler,
        raw: bytes,
        recent: RecentScaling,
    ) -> None:
        self._of = controller
        self._autoscaler = autoscaler
        self._raw = raw
        self._recent = recent
        self._env = controller.env
        self._report = Report(autoscaler.status, controller.env.now())
        self.action = NONE
        self._arithmetic = ""
        """The reason for the size, after metrics were read."""

    async def run(self) -> None:
        """Raises ``ReconcileError``."""
        spec, report = self._autoscaler.spec, self._report
        target = await self._scale_for_resource_mappings()
        current = target.scale.spec.replicas
        self._recent.record_initial_recommendation(current, self._env.monotonic())
        minimum = 1 if spec.min_replicas is None else spec.min_replicas
        to_zero = self._of._options.scale_to_zero
        scaled_to_zero = to_zero and report.is_true(AT_ZERO)  # by this controller, not by a user
        metrics: tuple[MetricStatus, ...] | None = None
        desired, reason, invalid = current, "", ""
        if current == 0 and not (scaled_to_zero and (minimum != 0 or self._has_external_metric())):
            text = "scaling is disabled since the replica count of the target is zero"
            report.set_condition(ACTIVE, False, "ScalingDisabled", text)
            if not to_zero:
                report.drop(AT_ZERO)
        elif current > spec.max_replicas:
            desired, reason = spec.max_replicas, "Current number of replicas above Spec.MaxReplicas"
        elif current < minimum and current != 0:
            desired, reason = minimum, "Current number of replicas below Spec.MinReplicas"
        else:
            try:
                best, metrics, invalid = await self._compute_replicas_for_metrics(target)
            except _InvalidMetrics as error:
                report.set_status(current, error.metrics)
                await self._try_update_status()
                self._record_event(WARNING, "FailedComputeMetricsReplicas", str(error))
                text = f"failed to compute desired number of replicas based on listed metrics for {self._reference}"
                raise ReconcileError(f"{text}: {error}") from error
            desired, reason = self._normalize_desired_replicas(best, current, minimum)
        if desired != current:
            await self._rescale(target, desired, reason, metrics, minimum)
        report.set_status(current, metrics, desired=desired, rescaled=desired != current)
        meta = self._autoscaler.metadata
        self._of._metrics.desired.labels(meta.namespace, meta.name).set(desired)
        await self._update_status()
        if invalid:
            raise ReconcileError(invalid)

    @property
    def _reference(self) -> str:
        reference = self._autoscaler.spec.scale_target_ref
        return f"{reference.kind}/{self._autoscaler.metadata.namespace}/{reference.name}"

    def _has_external_metric(self) -> bool:
        """Whether there is a metric that has a value without pods."""
        return any(metric.type in ("Object", "External") for metric in self._autoscaler.spec.metrics)

    async def _scale_for_resource_mappings(self) -> Target:
        meta = self._autoscaler.metadata
        try:
            target = await self._of._sizes.read(self._autoscaler.spec.scale_target_ref, meta.namespace)
        except (ScaleTargetNotFound, *PASSING) as error:
            self._record_event(WARNING, "FailedGetScale", str(error))
            text = f"the HPA controller was unable to get the target's current scale: {error}"
            self._report.set_condition(ABLE, False, "FailedGetScale", text)
            await self._try_update_status()
            by_spec = isinstance(error, ScaleTargetNotFound) and error.by_spec
            reason = "invalid API version in scale target reference" if by_spec else None
            reason = reason or f"failed to query scale subresource for {self._reference}"
            raise ReconcileError(f"{reason}: {error}", by_spec=by_spec) from error
        text = "the HPA controller was able to get the target's current scale"
        self._report.set_condition(ABLE, True, "SucceededGetScale", text)
        return target

    # Replicas from metrics

    async def _compute_replicas_for_metrics(self, target: Target) -> tuple[Proposal, tuple[MetricStatus, ...], str]:
        """The largest proposal, the status of all metrics, and the errors of invalid ones.

        Raises ``_InvalidMetrics`` without a proposal, or if a metric is invalid and the others propose a smaller size.
        """
        selector, pods = self._validate_and_parse_selector(target.scale.status.selector)
        specs = self._autoscaler.spec.metrics
        current = target.scale.spec.replicas
        proposals = self._proposals(target, selector, pods)
        best: Proposal | None = None
        chosen: MetricSpec | None = None
        first: MetricFailed | None = None
        failed = 0
        statuses: list[MetricStatus] = []
        for spec in specs:
            try:
                proposal = await self._compute_replicas_for_metric(proposals, spec)
            except MetricFailed as error:
                self._record_event(WARNING, error.reason, error.message)
                statuses.append(MetricStatus())
                failed += 1
                first = first or error
                continue
            statuses.append(proposal.status)
            if best is None or best.replicas == 0 or proposal.replicas > best.replicas:
                best, chosen = proposal, spec
        invalid = f"invalid metrics ({failed} invalid out of {len(specs)}), first error is: {first}" if first else ""
        if best is None or (first is not None and best.replicas < current):
            if first is not None:
                text = f"the HPA was unable to compute the replica count: {first.message}"
                self._report.set_condition(ACTIVE, False, first.reason, text)
            raise _InvalidMetrics(invalid or "no metrics", tuple(statuses))
        assert chosen is not None, "the best proposal is that of a metric"
        self._arithmetic = describe_metric(chosen, best, current, proposals.pods.tolerances)
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._report.set_condition(ACTIVE, True, "ValidMetricFound", text)
        return best, tuple(statuses), invalid

    async def _compute_replicas_for_metric(self, proposals: Proposals, spec: MetricSpec) -> Proposal:
        metrics, started = self._of._metrics, self._env.perf_counter()
        action, error = NONE, INTERNAL
        try:
            proposal = await proposals.propose(spec)
            action, error = action_of(self._autoscaler.status.current_replicas, proposal.replicas), NONE
        except MetricFailed as failure:
            error = SPEC if failure.by_spec else INTERNAL
            raise
        finally:
            labels = (action, error, spec.type)
            metrics.computations.labels(*labels).inc()
            metrics.computation_seconds.labels(*labels).observe(self._env.perf_counter() - started)
        return proposal

    def _proposals(self, target: Target, selector: Selector, selected: Sequence[Pod]) -> Proposals:
        namespace, options = self._autoscaler.metadata.namespace, self._of._options
        behavior = self._autoscaler.spec.behavior
        up, down = (behavior.scale_up, behavior.scale_down) if behavior is not None else (None, None)
        pods = Pods(
            pods=selected,
            current=target.scale.spec.replicas,
            reported=target.scale.status.replicas,
            tolerances=tolerances_of(up, down, options.tolerance, configurable=options.own_tolerance),
            delays=self._of._delays,
            now=self._env.now(),
            pod_level_resources=options.pod_level_resources,
        )
        return Proposals(self._of._apis, namespace, selector, pods)

    def _validate_and_parse_selector(self, text: str) -> tuple[Selector, list[Pod]]:
        """The selector of the target's pods, and the pods. Raises ``_InvalidMetrics`` after recording why."""
        if not text:
            text = "the HPA target's scale is missing a selector"
            raise self._set_inactive("SelectorRequired", "selector is required", INVALID, text)
        try:
            selector = parse_selector(text)
        except SelectorError as error:
            reason = f"couldn't convert selector into a corresponding internal selector object: {error}"
            raise self._set_inactive(INVALID, reason, INVALID) from error
        meta = self._autoscaler.metadata
        self._of._hpa_selectors.put(object_key(meta), selector)
        pods = pods_selected(self._of._pods, meta.namespace, selector)
        hpa_selectors = self._of._hpa_selectors.selecting(meta.namespace, pods)
        if len(hpa_selectors) > 1:
            reason = f"pods by selector {text} are controlled by multiple HPAs: [{' '.join(hpa_selectors)}]"
            raise self._set_inactive("AmbiguousSelector", reason, "AmbiguousSelector")
        return selector, pods

    def _set_inactive(self, reason: str, detail: str, condition: str, message: str = "") -> _InvalidMetrics:
        """Record why the autoscaler is inactive. Returns the exception to raise."""
        self._record_event(WARNING, reason, detail)
        self._report.set_condition(ACTIVE, False, condition, message or detail)
        return _InvalidMetrics(detail)

    # Apply and report

    def _normalize_desired_replicas(self, best: Proposal, current: int, minimum: int) -> tuple[int, str]:
        """The size to set and its reason, after stabilization, policies and bounds."""
        spec, report = self._autoscaler.spec, self._report
        desired = max(best.replicas, 0)
        reason = ""
        if desired > current:
            reason = f"{best.name} above target"
        elif desired < current:
            reason = "All metrics below target"
        arg = NormalizationArg(current=current, desired=desired, min_replicas=minimum, max_replicas=spec.max_replicas)
        window, now = self._of._options.downscale_stabilization, self._env.monotonic()
        limited = limit(arg, spec.behavior, self._recent, window, now)
        self._arithmetic += describe_limits(arg, limited)
        report.set_condition(ABLE, True, limited.stabilized.reason, limited.stabilized.message)
        report.set_condition(LIMITED, limited.is_bounded, limited.bounded.reason, limited.bounded.message)
        if current == 0 and limited.replicas < minimum:
            # The minimum was raised while the workload was at 0.
            return minimum, reason or "Current number of replicas below Spec.MinReplicas"
        return limited.replicas, reason

    async def _rescale(
        self, target: Target, desired: int, reason: str, metrics: tuple[MetricStatus, ...] | None, minimum: int
    ) -> None:
        current, report = target.scale.spec.replicas, self._report
        record_decision(f"scaled from {current} to {desired}: {self._arithmetic or reason}")
        try:
            await self._of._sizes.set(target, desired)
        except PASSING as error:
            if _may_have_happened(error):
                # Counted: rather too slow for a period than faster than the policies allow.
                self._recent.store_scale_event(self._autoscaler.spec.behavior, current, desired, self._env.monotonic())
            self._record_event(WARNING, "FailedRescale", f"New size: {desired}; reason: {reason}; error: {error}")
            text = f"the HPA controller was unable to update the target scale: {error}"
            report.set_condition(ABLE, False, "FailedUpdateScale", text)
            report.set_status(current, metrics)
            await self._try_update_status()
            raise ReconcileError(f"failed to rescale {self._reference}: {error}") from error
        report.set_condition(
            ABLE, True, "SucceededRescale", f"the HPA controller was able to update the target scale to {desired}"
        )
        self._record_event(NORMAL, "SuccessfulRescale", f"New size: {desired}; reason: {reason}")
        self._recent.store_scale_event(self._autoscaler.spec.behavior, current, desired, self._env.monotonic())
        if self._of._options.scale_to_zero:
            if desired == 0 and minimum == 0 and self._has_external_metric():
                report.set_condition(AT_ZERO, True, "ScaledToZero", "the HPA controller scaled the workload to zero")
            else:
                text = "the HPA controller did not scale the workload to zero"
                report.set_condition(AT_ZERO, False, "NotScaledToZero", text)
        else:
            report.drop(AT_ZERO)
        self.action = action_of(current, desired)
        self._of.log.info(
            "Successfully rescaled",
            HPA=object_key(self._autoscaler.metadata), currentReplicas=current, desiredReplicas=desired, reason=reason,
        )  # fmt: skip

    async def _update_status(self) -> None:
        """Raises ``ReconcileError``."""
        if not self._report.has_changed:
            return
        status = self._report.status
        record_decision(
            f"status: {status.current_replicas} replicas, {status.desired_replicas} desired; "
            f"{self._arithmetic or self._report.failure() or 'no metric'}"
        )
        meta = self._autoscaler.metadata
        try:
            await self._of._client.update(
                HORIZONTAL_POD_AUTOSCALERS.raw,
                meta.name,
                status_body(self._raw, self._report.status),
                meta.namespace,
                subresource="status",
            )
        except (ApiError, OSError) as error:
            self._record_event(WARNING, "FailedUpdateStatus", str(error))
            raise ReconcileError(f"failed to update status for {meta.name}: {error}") from error

    async def _try_update_status(self) -> None:
        """Write the status; a failure is only logged, because the sync fails with an earlier error."""
        try:
            await self._update_status()
        except ReconcileError as error:
            key = object_key(self._autoscaler.metadata)
            self._of.log.error("Status is not written", error=error, HPA=key)  # noqa: TRY400  # no traceback: the server said no

    def _record_event(self, kind: str, reason: str, message: str) -> None:
        reference = object_reference(HORIZONTAL_POD_AUTOSCALERS, self._autoscaler.metadata)
        self._of._recorder.event(reference, kind, reason, message)


build = HorizontalPodAutoscalerController
