"""The event handlers, the sync of a budget, and pods with a stale ``DisruptionTarget``.

Three queues, one worker each, as upstream (v1.36 ``pkg/controller/disruption/disruption.go``): budgets, budgets that
are to be synced again when an eviction is overdue, and pods with a stale condition.
"""

from pilothouse.api.apps import DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, Deployment, ReplicaSet, StatefulSet
from pilothouse.api.core import PODS, REPLICATION_CONTROLLERS, Pod, ReplicationController
from pilothouse.api.meta import LabelSelector, Object
from pilothouse.api.policy import POD_DISRUPTION_BUDGETS, PodDisruptionBudget, PodDisruptionBudgetStatus
from pilothouse.client import strategic_merge_patch
from pilothouse.client.errors import ApiError, Conflict, NotFound, UndecodableObject
from pilothouse.controllers.policy.disruption import DESCRIPTOR
from pilothouse.controllers.policy.disruption.decide import (
    build_disrupted_pod_map,
    count_healthy_pods,
    expected_pod_count,
    needs_scale,
)
from pilothouse.controllers.policy.disruption.membership import BudgetPods
from pilothouse.controllers.policy.disruption.owners import (
    DiscoveryFailed,
    Expected,
    ScaleFinder,
    ScaleNotFound,
    WorkloadCaches,
)
from pilothouse.controllers.policy.disruption.stale import STALE_SECONDS, reset_patch, seconds_until_stale
from pilothouse.controllers.policy.disruption.status import describe, fail_safe_status, new_status, status_body
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.go_text import print_selector, quote
from pilothouse.machinery.int_or_percent import InvalidBound
from pilothouse.machinery.labels import SelectorError
from pilothouse.machinery.owners import controller_of
from pilothouse.runtime import (
    ConsistencyStore,
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    RetryLater,
    WorkerPool,
    WorkQueue,
    object_key,
    object_reference,
    read_versions,
)
from pilothouse.runtime.events import NORMAL, WARNING
from pilothouse.semantics.pods import is_ready

COMPONENT = "controllermanager"
"""The source of upstream's events."""

Workload = ReplicationController | ReplicaSet | Deployment | StatefulSet

PASSING = (ApiError, OSError, DiscoveryFailed)
"""Errors that may be temporary."""

CONCURRENCY = 500
"""Budgets with no more pods than this are synced whenever something happens."""
PACE_SECONDS = 20e-6
"""Larger budgets are synced this much later for each of their pods: a sync takes about a microsecond a pod, and one a
tenth of a second later covers the many events of a rollout of 5,000 pods."""

_POD_META = PODS.read_as(Object)


class DisruptionController(ManagedController):
    """See the package."""

    def __init__(self, context: ControllerContext) -> None:
        budgets = context.informer(POD_DISRUPTION_BUDGETS)
        pods = context.informer(PODS)
        controllers = context.informer(REPLICATION_CONTROLLERS)
        replica_sets = context.informer(REPLICA_SETS)
        deployments = context.informer(DEPLOYMENTS)
        stateful_sets = context.informer(STATEFUL_SETS)
        super().__init__(context, DESCRIPTOR.name, queue_name="disruption")
        self._client = context.client
        self._budgets = budgets.cache
        self._pods = pods.cache
        self._members = BudgetPods(budgets.cache, pods.cache)
        self._owners = ScaleFinder(
            context.client,
            context.rest_mapper,
            WorkloadCaches(
                controllers=controllers.cache,
                replica_sets=replica_sets.cache,
                deployments=deployments.cache,
                stateful_sets=stateful_sets.cache,
            ),
        )
        self._recorder = EventRecorder(context.client, context.env, COMPONENT)
        self.add_runnable("events", self._recorder.run)
        # Upstream has none here: its syncs before the event of their last write end in a conflict.
        self._consistency_store = ConsistencyStore(
            read_versions(budgets), prefix="pilothouse_disruption", metrics=context.metrics
        )
        self._failed: set[str] = set()  # keys of budgets that could not be computed; never iterated
        self._sizes: dict[str, int] = {}  # how many pods the larger budgets had when they were synced
        self._rechecks: WorkQueue[str] = WorkQueue(context.env, "disruption_recheck", context.metrics)
        self._stale: WorkQueue[str] = WorkQueue(context.env, "stale_pod_disruption", context.metrics)
        for suffix, queue, act in (
            ("recheck", self._rechecks, self._recheck_pdb),
            ("stale-pods", self._stale, self._sync_stale_pod_disruption),
        ):
            pool = WorkerPool(f"{self.name}-{suffix}", queue, act, metrics=context.metrics, log=self.log)
            self.add_worker_pool(pool)
        budgets.add_handler(
            lambda budget, _initial: self._enqueue(budget),
            lambda _old, budget: self._enqueue(budget),
            self._delete_pdb,
        )
        pods.add_handler(self._add_pod, self._update_pod, self._delete_pod)
        for informer in (controllers, replica_sets, deployments, stateful_sets):
            # The events of their pods are enough when they are deleted.
            informer.add_handler(self._add_workload, self._update_workload)

    # Event handlers

    def _enqueue(self, budget: PodDisruptionBudget) -> None:
        key = object_key(budget.metadata)
        size = self._sizes.get(key)
        if size is None:
            self.queue.add(key)
        else:
            self.queue.add_after(key, size * PACE_SECONDS)

    def _delete_pdb(self, budget: PodDisruptionBudget, _unknown: bool) -> None:
        self._enqueue(budget)
        self._members.forget(budget)

    def _enqueue_pdbs_for_pod(self, pod: Pod, *, only_failed: bool = False) -> None:
        budgets = self._members.get_pod_pod_disruption_budgets(pod.metadata)
        if only_failed:
            budgets = [budget for budget in budgets if object_key(budget.metadata) in self._failed]
        elif len(budgets) > 1:
            meta = pod.metadata
            message = (
                f"Pod {quote(meta.namespace)}/{quote(meta.name)} matches multiple PodDisruptionBudgets.  "
                f"Chose {quote(budgets[0].metadata.name)} arbitrarily."
            )
            self._recorder.event(object_reference(PODS, meta), WARNING, "MultiplePodDisruptionBudgets", message)
        for budget in budgets:
            self._enqueue(budget)

    def _add_pod(self, pod: Pod, _initial: bool) -> None:
        self._enqueue_pdbs_for_pod(pod)
        self._enqueue_stale_pod_disruption_cleanup(pod)

    def _update_pod(self, old: Pod, new: Pod) -> None:
        # At a resync old and new are the same object: nothing changed, and the budgets are synced all the same.
        if old is new or _may_change_status(old, new):
            self._enqueue_pdbs_for_pod(new)
            if old.metadata.labels != new.metadata.labels:
                self._enqueue_pdbs_for_pod(old)
        elif self._failed:
            self._enqueue_pdbs_for_pod(new, only_failed=True)
        self._enqueue_stale_pod_disruption_cleanup(new)

    def _delete_pod(self, pod: Pod, _unknown: bool) -> None:
        self._enqueue_pdbs_for_pod(pod)

    def _enqueue_stale_pod_disruption_cleanup(self, pod: Pod) -> None:
        seconds = seconds_until_stale(pod, self.env.now())
        if seconds is not None:
            self._stale.add_after(object_key(pod.metadata), seconds)

    def _add_workload(self, workload: Workload, initial: bool) -> None:
        if not initial:
            self._enqueue_for_workload(workload)

    def _update_workload(self, old: Workload, new: Workload) -> None:
        if old.spec.replicas != new.spec.replicas or controller_of(old.metadata) != controller_of(new.metadata):
            self._enqueue_for_workload(new)

    def _enqueue_for_workload(self, workload: Workload) -> None:
        """Pods have events only after a controller has scaled, and possibly before those of the workload itself.

        A budget without pods does not depend on workloads, and each of its syncs would record NoPods.
        """
        selector = workload.spec.selector
        labels = selector.match_labels if isinstance(selector, LabelSelector) else selector or {}
        for budget in self._budgets.list(workload.metadata.namespace):
            if (
                needs_scale(budget.spec)
                and self._members.may_select(budget, labels)
                and self._members.get_pods_for_pdb(budget)
            ):
                self._enqueue(budget)

    async def _recheck_pdb(self, key: str) -> Requeue | None:
        self.queue.add_rate_limited(key)
        return None

    # One sync

    async def reconcile(self, key: str) -> Requeue | None:
        self._consistency_store.ensure_ready(key)
        budget, raw = self._budgets.get(key), self._budgets.raw(key)
        if budget is None:
            self._failed.discard(key)
            self._consistency_store.clear(key)
            self._sizes.pop(key, None)
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        try:
            await self._try_sync_pdb(budget, raw)
        except Conflict as error:
            # An eviction, or a change of the budget, that the cache does not show yet.
            raise RetryLater(str(error)) from error
        except (SelectorError, InvalidBound, ScaleNotFound, UndecodableObject, *PASSING) as error:
            await self._fail_safe(budget, raw, error)
        else:
            self._failed.discard(key)
        return None

    async def _try_sync_pdb(self, budget: PodDisruptionBudget, raw: bytes) -> None:
        try:
            pods = self._members.get_pods_for_pdb(budget)
        except SelectorError as error:
            self._record_event(budget, WARNING, "NoPods", f"Failed to get pods: {error}")
            raise
        if len(pods) > CONCURRENCY:
            self._sizes[object_key(budget.metadata)] = len(pods)
        else:
            self._sizes.pop(object_key(budget.metadata), None)
        if not pods:
            self._record_event(budget, NORMAL, "NoPods", "No matching pods found")
        try:
            owned = await self._owners.expected(pods) if needs_scale(budget.spec) else Expected(0)
            counts = expected_pod_count(budget.spec, len(pods), owned.replicas)
        except (InvalidBound, ScaleNotFound, UndecodableObject, *PASSING) as error:
            message = f"Failed to calculate the number of expected pods: {error}"
            self._record_event(budget, WARNING, "CalculateExpectedPodCountFailed", message)
            raise
        if owned.unmanaged:
            self._record_event(budget, WARNING, "UnmanagedPods", _unmanaged_pods_message(budget.spec.selector))
        now = self.env.now()
        evicted = build_disrupted_pod_map(pods, budget.status.disrupted_pods, now)
        for pod in evicted.overdue:
            self._record_not_deleted(budget, pod)
        status = new_status(budget, counts, count_healthy_pods(pods, evicted.awaited, now), evicted.awaited, now)
        if status is not None:
            record_decision(describe(budget, counts, status))
            await self._write_pdb_status(budget, raw, status)
        if evicted.recheck_at is not None:
            self._rechecks.add_after(object_key(budget.metadata), (evicted.recheck_at - now).total_seconds())

    async def _fail_safe(self, budget: PodDisruptionBudget, raw: bytes, error: Exception) -> None:
        """Allow no evictions, since the counts may be wrong."""
        key = object_key(budget.metadata)
        self.log.error("Failed to sync PDB", error=error, podDisruptionBudget=key)
        self._failed.add(key)
        record_decision(f"no disruptions are allowed, since the pods cannot be counted: {error}")
        try:
            await self._write_pdb_status(budget, raw, fail_safe_status(budget, str(error), self.env.now()))
        except Conflict as conflict:
            raise RetryLater(str(conflict)) from conflict
        if isinstance(error, PASSING):
            raise RetryLater(str(error)) from error

    async def _write_pdb_status(
        self, budget: PodDisruptionBudget, raw: bytes, status: PodDisruptionBudgetStatus
    ) -> None:
        meta = budget.metadata
        key = object_key(meta)
        try:
            written = await self._client.update(
                POD_DISRUPTION_BUDGETS, meta.name, status_body(raw, status), meta.namespace, subresource="status"
            )
        except NotFound:
            self.log.info("podDisruptionBudget has been deleted", v=4, key=key)
            return
        self._consistency_store.wrote_at(
            key, meta.uid, POD_DISRUPTION_BUDGETS.group_resource, written.metadata.resource_version
        )

    def _record_event(self, budget: PodDisruptionBudget, kind: str, reason: str, message: str) -> None:
        self._recorder.event(object_reference(POD_DISRUPTION_BUDGETS, budget.metadata), kind, reason, message)

    def _record_not_deleted(self, budget: PodDisruptionBudget, pod: Pod) -> None:
        namespace = budget.metadata.namespace
        # As upstream, the namespace instead of the name.
        message = f"Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
        self._recorder.event(object_reference(PODS, pod.metadata), WARNING, "NotDeleted", message)

    # Stale conditions

    async def _sync_stale_pod_disruption(self, key: str) -> Requeue | None:
        pod = self._pods.get(key)
        seconds = seconds_until_stale(pod, self.env.now()) if pod is not None else None
        if pod is None or seconds is None:
            return None
        if seconds > 0:
            return Requeue(seconds)
        meta = pod.metadata
        record_decision(
            f"DisruptionTarget has been True for {STALE_SECONDS:g} s, and the pod was not deleted: now False"
        )
        patch = strategic_merge_patch(reset_patch(pod, self.env.now()))
        try:
            await self._client.patch(_POD_META, meta.name, patch, meta.namespace, subresource="status")
        except NotFound:
            return None
        except Conflict as error:
            raise RetryLater(str(error)) from error
        self.log.info("Reset stale DisruptionTarget condition to False", v=2, pod=key)
        return None


def _may_change_status(old: Pod, new: Pod) -> bool:
    """Whether this change of a pod may change the status of a budget."""
    previous, after = old.metadata, new.metadata
    return (
        previous.uid != after.uid
        or previous.labels != after.labels
        or (previous.deletion_timestamp is None) != (after.deletion_timestamp is None)
        or is_ready(old) != is_ready(new)
        or previous.owner_references != after.owner_references
    )


def _unmanaged_pods_message(selector: LabelSelector | None) -> str:
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {print_selector(selector)}) were found to be unmanaged. "
        "As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To "
        'account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )


build = DisruptionController
