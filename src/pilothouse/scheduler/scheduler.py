"""The scheduling loop: takes pods from the queue, one scheduling cycle after the other, with concurrent binding cycles.

A scheduling cycle uses a cache that includes all earlier decisions. Binding cycles, the slow part, run concurrently; if
one fails, the cache forgets the pod. At most ``MAX_CONCURRENT_WRITES`` of them run: beyond that decisions wait, so that
a pod of high priority that is created in the meantime is still scheduled first.

A pod that fits no node may preempt others and is then nominated for their room. In any case it waits in the queue for
an event that may help it (``queueing_hints``). As kube-scheduler v1.36 ``pkg/scheduler/scheduler.go`` and the cycles of
``schedule_one.go``; ``schedule_pod`` is in our ``schedule_one``.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from pilothouse.api.core import NAMESPACES, NODES, PODS, Pod
from pilothouse.api.policy import POD_DISRUPTION_BUDGETS, PodDisruptionBudget
from pilothouse.cel.limits import GetEvaluator, no_evaluator
from pilothouse.client import Client
from pilothouse.client.errors import ApiError, Conflict, NotFound, Timeout
from pilothouse.env import Env, Log, TaskGroup
from pilothouse.env.environment import perf_counter_of
from pilothouse.env.lazy import lazy_imports
from pilothouse.env.periodic import repeat
from pilothouse.machinery.causes import begin_sync, record_decision
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.metrics import Registry
from pilothouse.runtime import InformerFactory
from pilothouse.runtime.informer import SharedInformer
from pilothouse.scheduler.backend.cache import Cache
from pilothouse.scheduler.backend.scheduling_queue import PriorityQueue, QueuedPodInfo
from pilothouse.scheduler.cache_sync import is_listed, wait_for_cache_sync
from pilothouse.scheduler.decisions import Decisions
from pilothouse.scheduler.eventhandlers import EventHandlers, pod_key
from pilothouse.scheduler.framework.api_calls import ApiCalls
from pilothouse.scheduler.framework.fit_error import FitError
from pilothouse.scheduler.framework.runtime import Framework
from pilothouse.scheduler.framework.types import PodInfo
from pilothouse.scheduler.metrics import ERROR, FAILED, REJECTED, SCHEDULED, SUCCESS, UNSCHEDULABLE, SchedulerMetrics
from pilothouse.scheduler.plugins import volume_binding
from pilothouse.scheduler.plugins.default_selector import DefaultSelectors
from pilothouse.scheduler.plugins.dynamic_resources import NAME as DYNAMIC_RESOURCES
from pilothouse.scheduler.plugins.dynamic_resources import NO_CLAIMS_TO_DEALLOCATE, STATE_NOT_FOUND, ClaimBindingError
from pilothouse.scheduler.plugins.dynamic_resources.on_demand import DynamicResources
from pilothouse.scheduler.plugins.volume_binder import AssumedVolumes, BindingError, VolumeBinder
from pilothouse.scheduler.queueing_hints import CLUSTER_WIDE_PLUGINS
from pilothouse.scheduler.schedule_one import ScheduleResult, SchedulingAlgorithm
from pilothouse.semantics.volumes import claim_names

if TYPE_CHECKING:
    from pilothouse.scheduler.plugins.default_preemption import Candidate, PostFilterResult
    from pilothouse.scheduler.plugins.dynamic_resources.claim_binding import ClaimBinding, Deallocation
    from pilothouse.scheduler.plugins.dynamic_resources.pod_claims import PodClaims
    from pilothouse.tracing.provider import Tracing

with lazy_imports():
    from pilothouse.scheduler.plugins import default_preemption
    from pilothouse.scheduler.plugins.dynamic_resources import claim_binding
    from pilothouse.tracing import syncs

SCHEDULER_NAME = "default-scheduler"
MAX_CONCURRENT_WRITES = 64
_FLUSH_SECONDS = 30.0


class Cycle(Protocol):
    """A scheduling cycle (``Scheduler._scheduling_cycle``)."""

    def __call__(self, queued_pod: QueuedPodInfo, group: TaskGroup, *, checked: bool) -> bool: ...


class InformerNamespaceLister:
    """``interpod_affinity.NamespaceLister`` over the cache of an informer."""

    def __init__(self, informers: InformerFactory) -> None:
        self.informer = informers.informer(NAMESPACES)

    def labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it does not exist."""
        namespace = self.informer.cache.get(name)
        return namespace.metadata.labels if namespace is not None else {}

    def select(self, selector: Selector) -> frozenset[str]:
        """The names of the namespaces that match."""
        namespaces = self.informer.cache.list()
        return frozenset(one.metadata.name for one in namespaces if selector.matches(one.metadata.labels))


class Scheduler:
    """Binds pending pods of ``scheduler_name`` to nodes that fit."""

    def __init__(
        self,
        env: Env,
        *,
        client: Client,
        informers: InformerFactory,
        scheduler_name: str = SCHEDULER_NAME,
        log: Log | None = None,
        metrics: Registry | None = None,
        expressions: GetEvaluator = no_evaluator,
    ) -> None:
        """``expressions`` compiles and evaluates large CEL expressions, of selectors of devices."""
        self._env = env
        self._name = scheduler_name
        self._client = client
        self._informers = informers
        self._log = log or Log("scheduler")
        self._random = env.stream("scheduler")
        self.decisions = Decisions()
        """The last decisions."""
        self._metrics = SchedulerMetrics(metrics or Registry(), scheduler_name)
        self._cache = Cache()
        self._namespaces = InformerNamespaceLister(informers)
        self._default_selectors = DefaultSelectors(informers)
        self._pdbs: SharedInformer[PodDisruptionBudget] | None = None
        self._queue = PriorityQueue(env, self._metrics)
        self._volume_binder = VolumeBinder(client, informers, self._log)
        self._dynamic_resources = DynamicResources(env, client, informers, self._log, expressions)
        self._framework = Framework(self._cache, self._namespaces, self._volume_binder)
        self._algorithm = SchedulingAlgorithm(
            self._framework, self._default_selectors.default_selector, self._random, self._metrics
        )
        self._write_slots = asyncio.Semaphore(MAX_CONCURRENT_WRITES)
        self._api_calls = ApiCalls(client, env, scheduler_name, self._log)
        self._pods = informers.informer(PODS)
        self._nodes = informers.informer(NODES)
        self._handlers = EventHandlers(
            scheduler_name,
            self._queue,
            self._framework,
            self._volume_binder,
            self._dynamic_resources,
            self._pods,
            self._nodes,
        )
        self._metrics.registry.on_collect(self._show)

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._metrics.clock = perf_counter_of(asyncio.get_running_loop())
        async with TaskGroup("scheduler") as group:
            group.start(self._api_calls.recorder.run(), name="scheduler events")
            await wait_for_cache_sync(self._client, self._caches(), self._log)
            await self._watch_pdbs()
            queue = self._queue
            flushing = repeat(
                self._env,
                _FLUSH_SECONDS,
                queue.flush_unschedulable_pods_leftover,
                at_rest=lambda: not queue.has_unschedulable_pods(),
            )
            group.start(flushing, name="scheduler flush")
            group.start(self._start_dynamic_resources(), name="scheduler resource claims")
            cycle = self._scheduling_cycle if self._env.tracing is None else self._traced_cycle(self._env.tracing)
            while True:
                # Wait for a write slot and for room for events first, and pop the pod last: so a pod of higher priority
                # that arrives in the meantime is scheduled first.
                await self._write_slots.acquire()
                await self._api_calls.recorder.room()
                queued_pod = await self._queue.pop()
                if not self._volume_binder.csi.started and self._has_claims(queued_pod):
                    await self._volume_binder.csi.start()
                begin_sync(self._name, queued_pod.key, queued_pod.taken)
                if not cycle(queued_pod, group, checked=False):
                    await self._schedule_with_claims(queued_pod, group, cycle)
                # Let binding cycles and events run between two decisions.
                await asyncio.sleep(0)

    def _has_claims(self, queued_pod: QueuedPodInfo) -> bool:
        pod = self._pods.cache.get(queued_pod.key)
        return pod is not None and bool(pod.spec.volumes) and bool(claim_names(pod))

    async def _start_dynamic_resources(self) -> None:
        """Start to watch claims and devices when there is a pod with claims."""
        await self._dynamic_resources.needed.wait()
        await self._dynamic_resources.start()
        self._handlers.enqueue_gated()

    def _caches(self) -> tuple[SharedInformer[Any], ...]:
        return (
            self._nodes,
            self._pods,
            self._namespaces.informer,
            *self._default_selectors.informers,
            *self._volume_binder.informers,
        )

    def _show(self) -> None:
        """Update the metrics that are sampled."""
        for queue, number in self._queue.pending().items():
            self._metrics.pending_pods.labels(queue).set(number)
        gated = sum(map(self._handlers.is_gated, self._pods.cache.list()))
        self._metrics.pending_pods.labels("gated").set(gated + len(self._handlers.gated))
        self._metrics.show_unschedulable(self._queue.unschedulable_by_plugin())
        for kind, number in self._cache.sizes().items():
            self._metrics.cache_size.labels(kind).set(number)

    async def _watch_pdbs(self) -> None:
        """Watch PodDisruptionBudgets if policy/v1 is served; with older servers preemption ignores budgets."""
        otherwise = "The server does not serve policy/v1: preemption ignores PodDisruptionBudgets"
        # They are never ignored for want of permission.
        if not await is_listed(
            self._client, POD_DISRUPTION_BUDGETS, self._log, otherwise=otherwise, unavailable=(NotFound,)
        ):
            return
        self._pdbs = self._informers.informer(POD_DISRUPTION_BUDGETS)
        await self._pdbs.wait_synced()

    # Scheduling cycle

    def _traced_cycle(self, tracing: "Tracing") -> "Cycle":
        """The same with a span, named as the trace of upstream's ``schedulePod``. The task that writes the decision is
        a part of it."""
        traced = syncs.TracedSyncs(tracing, lambda _key: None)

        def cycle(queued_pod: QueuedPodInfo, group: TaskGroup, *, checked: bool) -> bool:
            with traced.sync("Scheduling", self._name, queued_pod.key, queued_pod.taken, None):
                return self._scheduling_cycle(queued_pod, group, checked=checked)

        return cycle

    async def _schedule_with_claims(self, queued_pod: QueuedPodInfo, group: TaskGroup, cycle: "Cycle") -> None:
        """Decide for a pod with resource claims or extended resources. If searching devices takes long, the cycle is
        repeated with the results so far, and other tasks run in between."""
        dynamic_resources = self._dynamic_resources
        await dynamic_resources.start()
        pod_claims: PodClaims | None = None
        done, initial_version = False, self._state_version()
        while not done:
            pod = self._pods.cache.get(queued_pod.key)
            pod_info = queued_pod.update(pod) if pod is not None else None
            if pod_info is not None and (pod_claims is None or pod_claims.pod_info is not pod_info):
                pod_claims = dynamic_resources.pre_filter(pod_info, pod_claims)
            if pod_claims is not None:
                pod_claims.begin_pass()
            first_node, self._framework.pod_claims = self._algorithm.next_start_node_index, pod_claims
            try:
                done = cycle(queued_pod, group, checked=True)
            finally:
                self._framework.pod_claims = None
            if not done and pod_claims is not None:
                self._algorithm.next_start_node_index = first_node
                await pod_claims.search_pending()
        if self._state_version() != initial_version:
            self._queue.request_move(queued_pod)

    def _state_version(self) -> tuple[int, ...]:
        """Changes with every event that may help a pod."""
        return self._cache.change_count, self._volume_binder.version, self._dynamic_resources.version

    def _scheduling_cycle(self, queued_pod: QueuedPodInfo, group: TaskGroup, *, checked: bool) -> bool:
        """Decide, and start the task that writes the decision. Nothing else runs during the decision, so the cache does
        not change. Returns False, without a decision, if the pod may need devices, which is not ``checked`` yet, or if
        more devices must be searched."""
        key = queued_pod.key
        pod = self._pods.cache.get(key)
        if (
            pod is None
            or pod.metadata.uid != queued_pod.uid
            or pod.spec.node_name
            or not self._handlers.responsible_for_pod(pod)
        ):
            # During a relist the cache of the informer is ahead of the handlers.
            self._queue.delete(key)
            self._write_slots.release()
            return True
        pod_info = queued_pod.update(pod)
        if (pod.spec.resource_claims or pod_info.extended_resources) and not checked:
            return False
        began = self._metrics.clock()
        result = self._algorithm.schedule_pod(pod_info)
        pod_claims = self._framework.pod_claims
        if pod_claims is not None:
            if pod_claims.pending and not pod_claims.error:
                return False
            # What another plugin rejects before comes first.
            if pod_claims.error and not (isinstance(result, FitError) and result.diagnosis.pre_filter_status):
                self._fail_with_error(queued_pod, pod_info, pod_claims.error, group, began)
                return True
        if isinstance(result, FitError):
            return self._fail(queued_pod, pod_info, result, group, began)
        self._metrics.algorithm.observe(self._metrics.clock() - began)
        node_name = result.suggested_host
        self.decisions.add(self._env.now().timestamp(), key, node=node_name, feasible_nodes=result.feasible_nodes)
        assumed_volumes = self._assume_pod_volumes(pod_info, node_name)
        pod_state = self._cache.assume_pod(pod_info, node_name)
        self._cache.nominator.delete_nominated_pod_if_exists(key)
        self._handlers.move_pods_for_assigned_pod(None, pod_state)
        claim_binding = self._reserve_claims(pod_claims, node_name) if pod_claims is not None else None
        binding = self._binding_cycle(queued_pod, pod_info, result, assumed_volumes, claim_binding, began)
        group.start(binding, name=f"bind {key}")
        return True

    def _reserve_claims(self, pod_claims: "PodClaims", node_name: str) -> "ClaimBinding | None":
        """Reserve the devices that were found for the node."""
        if not pod_claims.claims:
            return None
        binding = claim_binding.ClaimBinding(
            self._env,
            self._client,
            self._dynamic_resources.manager,
            self._api_calls.recorder,
            self._log,
            pod_claims,
            node_name,
        )
        binding.reserve()
        return binding

    def _assume_pod_volumes(self, pod_info: PodInfo, node_name: str) -> AssumedVolumes | None:
        claims = self._framework.pod_volume_claims(pod_info)
        pod_volumes = claims.find_pod_volumes(self._cache.nodes[node_name].node) if claims is not None else None
        return self._volume_binder.assume_pod_volumes(pod_info, pod_volumes) if pod_volumes else None

    def _fail(
        self, queued_pod: QueuedPodInfo, pod_info: PodInfo, fit_error: FitError, group: TaskGroup, began: float
    ) -> bool:
        """The pod fits no node: run preemption, and start the task that reports. Returns False if devices must be
        searched for preemption."""
        metrics = self._metrics
        tried = metrics.clock()
        pod_claims = self._framework.pod_claims
        deallocation = claim_binding.post_filter(pod_claims) if pod_claims is not None and pod_claims.claims else None
        result = self._run_post_filter(
            pod_info, fit_error, deallocation.message if deallocation is not None else NO_CLAIMS_TO_DEALLOCATE
        )
        if pod_claims is not None and pod_claims.pending and not pod_claims.error:
            return False
        if fit_error.num_all_nodes:
            metrics.preemption_attempts.inc()
        now = metrics.clock()
        metrics.point("PostFilter", SUCCESS if result.candidate is not None else REJECTED).observe(now - tried)
        metrics.attempted(UNSCHEDULABLE, now - began)
        if result.candidate is not None:
            metrics.preemption_victims.observe(len(result.candidate.victims))
        displaced = self._update_nomination(pod_info, result)
        candidate, message = result.candidate, fit_error.error(result.message)
        self.decisions.add(
            self._env.now().timestamp(),
            queued_pod.key,
            message=message,
            nominated_node=candidate.node_info.name if candidate is not None else "",
            victims=len(candidate.victims) if candidate is not None else 0,
        )
        rejected_by = fit_error.unschedulable_plugins()
        self._queue.mark_unschedulable(
            queued_pod, rejected_by, cluster_wide=not rejected_by.isdisjoint(CLUSTER_WIDE_PLUGINS)
        )
        group.start(
            self._handle_scheduling_failure(queued_pod, pod_info, message, result, displaced, deallocation),
            name=f"report {queued_pod.key}",
        )
        return True

    def _fail_with_error(
        self, queued_pod: QueuedPodInfo, pod_info: PodInfo, error: str, group: TaskGroup, began: float
    ) -> None:
        """The decision has failed: start the task that reports, after which the pod is tried again."""
        self._metrics.attempted(ERROR, self._metrics.clock() - began)
        self._log.error("Error scheduling pod; retrying", pod=queued_pod.key, err=error)
        self.decisions.add(self._env.now().timestamp(), queued_pod.key, message=error)
        group.start(self._report_scheduling_error(queued_pod, pod_info, error), name=f"report {queued_pod.key}")

    async def _report_scheduling_error(self, queued_pod: QueuedPodInfo, pod_info: PodInfo, error: str) -> None:
        try:
            await self._api_calls.update_pod_condition(pod_info.pod, "SchedulerError", error, nominated="")
        finally:
            self._queue.add_to_error_backoff(queued_pod)
            self._write_slots.release()

    def _run_post_filter(self, pod_info: PodInfo, fit_error: FitError, message: str) -> "PostFilterResult":
        # Imported when a pod first fits no node, which does not happen in most short-lived clusters.
        if not fit_error.num_all_nodes:
            return default_preemption.PostFilterResult()
        rejection = fit_error.diagnosis.pre_filter_status
        if rejection is not None and rejection.plugin != DYNAMIC_RESOURCES:
            return default_preemption.PostFilterResult(message=STATE_NOT_FOUND, keep_nomination=True)
        pdbs = self._pdbs.cache.list() if self._pdbs is not None else []
        result = default_preemption.post_filter(
            self._framework, pod_info, fit_error, pdbs, self._env.now(), self._random
        )
        if result.candidate is not None:
            return result
        return msgspec.structs.replace(result, message=f"{message}, {result.message}")

    def _update_nomination(self, pod_info: PodInfo, result: "PostFilterResult") -> list[PodInfo]:
        """Nominate the pod for the candidate's node. Returns the pods of lower priority whose nomination for that node
        is cleared."""
        if result.keep_nomination:
            return []
        nominator, candidate = self._cache.nominator, result.candidate
        node_name = candidate.node_info.name if candidate is not None else ""
        if node_name != nominator.nominated_node_name(pod_info.key):
            self._handlers.delete_nomination(pod_info.key)
        if candidate is None:
            return []
        displaced = default_preemption.lower_priority_nominated_pods(self._framework, pod_info, node_name)
        for other in displaced:
            nominator.delete_nominated_pod_if_exists(other.key)
        nominator.add_nominated_pod(pod_info, node_name)
        return displaced

    async def _handle_scheduling_failure(
        self,
        queued_pod: QueuedPodInfo,
        pod_info: PodInfo,
        message: str,
        result: "PostFilterResult",
        displaced: list[PodInfo],
        deallocation: "Deallocation | None",
    ) -> None:
        """Report why the pod fits no node, deallocate a claim that cannot be used, and evict the victims. Only then
        the pod may be popped again: this report must not overtake the result of a later attempt."""
        pod, candidate = pod_info.pod, result.candidate
        nominated = None if result.keep_nomination else candidate.node_info.name if candidate is not None else ""
        evicted = True
        try:
            if deallocation is not None:
                await self._deallocate(queued_pod, deallocation)
            await self._api_calls.update_pod_condition(pod, "Unschedulable", message, nominated=nominated)
            if candidate is not None:
                evicted = await self._prepare_candidate(pod_info, result, candidate, displaced)
        finally:
            if evicted:
                self._queue.add_unschedulable(queued_pod)
            else:
                self._queue.add_to_error_backoff(queued_pod)
            self._write_slots.release()

    async def _deallocate(self, queued_pod: QueuedPodInfo, deallocation: "Deallocation") -> None:
        try:
            await claim_binding.deallocate(self._client, self._dynamic_resources.manager, deallocation)
        except (ApiError, OSError, ClaimBindingError) as error:
            self._log.error("Failed to deallocate ResourceClaim", error=error, pod=queued_pod.key)

    async def _prepare_candidate(
        self, pod_info: PodInfo, result: "PostFilterResult", candidate: "Candidate", displaced: list[PodInfo]
    ) -> bool:
        """Clear the nominations of the displaced pods and evict the victims. Returns whether all are terminating."""
        pod = pod_info.pod
        for other in displaced:
            nominated = self._pods.cache.get(other.key)
            if nominated is not None and nominated.metadata.uid == other.pod.metadata.uid:
                await self._api_calls.clear_nominated_node_name(nominated, pod)
                # Another node may fit it now.
                if self._queue.contains(other.key, nominated.metadata.uid):
                    self._queue.add(other.key, nominated.metadata.uid, other.priority)
        name, victims = candidate.node_info.name, candidate.victims
        self._log.info("Preempting", v=2, pod=pod_key(pod), node=name, victims=len(victims))
        record_decision(default_preemption.describe(pod_info, result))
        bound: list[Pod] = []
        for pod_state in victims:
            # One that waits for its volumes or devices need not be deleted: it is scheduled again.
            if pod_state.assumed and (
                self._volume_binder.cancel_binding(pod_state.uid)
                or self._dynamic_resources.cancel_binding(pod_state.uid)
            ):
                self._api_calls.record_preempted(pod_state.pod, pod, name, in_memory=True)
            else:
                bound.append(pod_state.pod)
        return await self._api_calls.preempt_pods(bound, pod, name)

    # Binding cycle

    async def _binding_cycle(
        self,
        queued_pod: QueuedPodInfo,
        pod_info: PodInfo,
        result: ScheduleResult,
        assumed_volumes: AssumedVolumes | None,
        claims: "ClaimBinding | None",
        began: float,
    ) -> None:
        pod, key, uid, node_name = pod_info.pod, queued_pod.key, queued_pod.uid, result.suggested_host
        metrics = self._metrics
        metrics.binding.inc()
        point, started = "PreBind", metrics.clock()
        try:
            if assumed_volumes is not None or claims is not None:
                # Binding may take long: others see where the pod is expected (``NominatedNodeNameForExpectation``).
                await self._api_calls.nominate(pod, node_name)
                if assumed_volumes is not None:
                    await self._bind_volumes(queued_pod, assumed_volumes)
                if claims is not None:
                    await self._bind_claims(queued_pod, claims)
                now = metrics.clock()
                metrics.point("PreBind", SUCCESS).observe(now - started)
                started = now
            record_decision(result.reason)
            point = "Bind"
            await self._api_calls.bind(pod, node_name)
        except (ApiError, OSError, BindingError, ClaimBindingError) as error:
            now = metrics.clock()
            metrics.point(point, FAILED).observe(now - started)
            metrics.attempted(ERROR, now - began)
            if assumed_volumes is not None:
                self._volume_binder.revert_assumed_pod_volumes(assumed_volumes)
            if claims is not None:
                await claims.unreserve()
            forgotten = self._cache.forget_pod(key, uid)
            if forgotten is not None:
                self._handlers.move_pods_for_assigned_pod(forgotten, None)
            if isinstance(error, NotFound | Conflict):
                # The pod was deleted or bound by another program: the watch will show it.
                self._log.info("Binding was rejected", v=2, pod=key, node=node_name, err=str(error))
            else:
                self._log.error("Failed to bind pod", error=error, pod=key, node=node_name)
                await self._report_binding_error(queued_pod, pod, error)
            self._queue.add_to_error_backoff(queued_pod)
        else:
            now = metrics.clock()
            metrics.point("Bind", SUCCESS).observe(now - started)
            metrics.attempted(SCHEDULED, now - began)
            metrics.scheduled(queued_pod.attempts, now - queued_pod.added_at, flushed=queued_pod.flushed)
            # Until the watch confirms the pod it is assumed, which keeps it out of the queue.
            if self._cache.is_assumed_pod(key, uid):
                self._queue.delete(key)
        finally:
            metrics.binding.dec()
            self._write_slots.release()

    async def _bind_volumes(self, queued_pod: QueuedPodInfo, assumed_volumes: AssumedVolumes) -> None:
        """Bind the volumes before the pod. Waiting for provisioners does not occupy a write slot."""
        await self._volume_binder.bind_api_update(assumed_volumes)
        self._write_slots.release()
        try:
            await self._volume_binder.wait_for_bindings(
                assumed_volumes,
                lambda: self._nodes.cache.get(assumed_volumes.pod_volumes.node_name),
                lambda: self._queue.contains(queued_pod.key, queued_pod.uid),
            )
        finally:
            await self._write_slots.acquire()

    async def _bind_claims(self, queued_pod: QueuedPodInfo, claims: "ClaimBinding") -> None:
        """Allocate and reserve the claims before the pod is bound. Waiting for drivers does not occupy a write slot."""

        def is_desired() -> bool:
            return self._queue.contains(queued_pod.key, queued_pod.uid)

        if not claims.waits:
            await claims.bind(is_desired)
            return
        self._write_slots.release()
        try:
            await claims.bind(is_desired)
        finally:
            await self._write_slots.acquire()

    async def _report_binding_error(self, queued_pod: QueuedPodInfo, pod: Pod, error: Exception) -> None:
        if isinstance(error, BindingError) and self._queue.contains(queued_pod.key, queued_pod.uid):
            message = f'running PreBind plugin "{volume_binding.NAME}": {error}'
        elif isinstance(error, ClaimBindingError) and self._queue.contains(queued_pod.key, queued_pod.uid):
            message = str(error)
        elif isinstance(error, ApiError) and not isinstance(error, Timeout):
            message = f'binding rejected: running Bind plugin "DefaultBinder": {error}'
        else:
            return  # without a response the pod may be bound nevertheless
        newest = self._pods.cache.get(queued_pod.key)
        if newest is not None and newest.metadata.uid == queued_pod.uid:
            pod = newest
        await self._api_calls.update_pod_condition(pod, "SchedulerError", message, nominated="")
