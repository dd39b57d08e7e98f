"""The wiring: observe → decide → apply → report. The kind is a parameter, since ReplicationControllers have the same
form. Upstream: v1.36 ``pkg/controller/replicaset/replica_set.go``.

Most syncs only create pods or update the status, and take their numbers from the census. Every pod is examined only if
pods may have to be adopted or released, or if minReadySeconds decides which are available.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from pilothouse.api.apps import REPLICA_SETS, ReplicaSet
from pilothouse.api.core import PODS, Pod
from pilothouse.api.kinds import Kind
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import ApiError, has_cause
from pilothouse.controllers.shared.blueprints import Blueprints
from pilothouse.controllers.shared.owner_gate import OwnerGate, ReplacedOwner
from pilothouse.controllers.shared.pods_by_label import LABEL_INDEX, index_by_label, pods_selected
from pilothouse.controllers.workloads.replicaset import ReplicaSetOptions
from pilothouse.controllers.workloads.replicaset.blueprint import Blueprint, draw, selector_of
from pilothouse.controllers.workloads.replicaset.decide import CreatePods, DeletePods, Observed, decide
from pilothouse.controllers.workloads.replicaset.pod_events import PodEvents
from pilothouse.controllers.workloads.replicaset.ranking import ActivePodsWithRanks, PodToDelete
from pilothouse.controllers.workloads.replicaset.status import (
    Failure,
    StatusCounts,
    count,
    describe,
    encode,
    next_status,
)
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.labels import Selector, SelectorError, selector_from
from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.machinery.owners import controller_of, new_controller_reference
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    PodControl,
    Requeue,
    controller_index_key,
    index_by_controller,
    object_key,
    object_reference,
    run_all,
    slow_start,
)
from pilothouse.runtime.batches import INITIAL_BATCH, Futile
from pilothouse.runtime.claims import CONTROLLER_INDEX
from pilothouse.runtime.controller import COALESCING_TURNS
from pilothouse.semantics.pods import is_active, is_terminating, seconds_until_next_available

CONTROLLER_UID_INDEX = "controllerUID"
"""Index of owners by the uid of their controller: the ReplicaSets of one Deployment."""


def build(context: ControllerContext) -> "ReplicaSetController":
    options = context.options_as(ReplicaSetOptions)
    return ReplicaSetController(context, REPLICA_SETS, options, name="replicaset-controller", queue_name="replicaset")


def index_by_controller_uid(owner: ReplicaSet) -> tuple[str, ...]:
    """The index function of ``CONTROLLER_UID_INDEX``."""
    reference = controller_of(owner.metadata)
    return () if reference is None else (reference.uid,)


class ReplicaSetController(ManagedController):
    def __init__(
        self,
        context: ControllerContext,
        kind: Kind[ReplicaSet],
        options: ReplicaSetOptions,
        *,
        name: str,
        queue_name: str,
    ) -> None:
        owners = context.informer(kind, indexes={CONTROLLER_UID_INDEX: index_by_controller_uid})
        pods = context.informer(PODS, indexes={CONTROLLER_INDEX: index_by_controller, LABEL_INDEX: index_by_label})
        super().__init__(context, name, workers=options.workers, queue_name=queue_name, turns=COALESCING_TURNS)
        self._kind = kind
        self._options = options
        self._client = context.client
        self._owners = owners.cache
        self._pods = pods.cache
        self._pod_informer = pods
        self._recorder = EventRecorder(context.client, context.env, name)
        self.add_runnable("events", self._recorder.run)
        self._pod_control = PodControl(context.client, self._recorder)
        self._blueprints: Blueprints[ReplicaSet, Blueprint] = Blueprints(kind.kind, selector_of, draw, self.log)
        self._gate = OwnerGate(
            context,
            kind,
            owners,
            pods,
            read=(pods, owners),
            prefix=queue_name,
            wait_for_own_writes=options.wait_for_own_writes,
            selector_of=lambda owner: self._blueprints.of(owner).selector,
            on_deleted=lambda key: self.events.ending.forget(key),
        )
        self._expectations, self._writes = self._gate.expectations, self._gate.writes
        self._terminating_is_dropped = False
        self._age_ratio = context.metrics.histogram(
            "replicaset_controller_sorting_deletion_age_ratio",
            "[ALPHA] The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should be "
            "<2. The intent of this metric is to measure the rough efficacy of the LogarithmicScaleDown feature gate's "
            "effect on the sorting (and deletion) of pods when a replicaset scales down. This only considers Ready "
            "pods when calculating and reporting.",
            buckets=exponential_buckets(0.25, 2, 6),
        ).labels()
        self.events = PodEvents(self._gate, self.queue, self.log, blueprints=self._blueprints)
        owners.add_handler(self.events.add_owner, self.events.update_owner, self.events.delete_owner)
        pods.add_handler(self.events.add_pod, self.events.update_pod, self.events.delete_pod)

    async def reconcile(self, key: str) -> Requeue | None:
        snapshot = await self._gate.enter(key)
        if snapshot is None:
            return None
        owner, raw, expectations_satisfied = snapshot.owner, snapshot.raw, snapshot.expectations_satisfied
        blueprint = self._blueprints.of(owner)
        if blueprint.selector is None:
            return None
        counts = self._count_pods(owner, blueprint, blueprint.selector)
        if counts is None:
            return await self._sync_each_pod(key, owner, raw, blueprint, blueprint.selector, expectations_satisfied)
        error: Exception | None = None
        failure: Failure | None = None
        action = self._decide(owner, counts.active, expectations_satisfied)
        if action is not None:
            error, failure = await self._manage_replicas(
                key, owner, action, counts.active, lambda: self._ranked_pods(owner)
            )
        elif expectations_satisfied:
            self.events.census.dismiss(self._index_key(owner.metadata))
        await self._update_replica_set_status(key, owner, raw, counts, failure)
        if error is not None:
            raise error
        return self._requeue_after(key)

    # Observe

    def _count_pods(self, owner: ReplicaSet, blueprint: Blueprint, selector: Selector) -> StatusCounts | None:
        """The counts of the census, or None if each pod must be examined: to adopt or release it, to check whether it
        has become available, or because the cache is newer than the census."""
        if self._pod_informer.replacing:
            return None
        meta = owner.metadata
        matches = selector.matches
        census = self.events.census
        if meta.deletion_timestamp is None:
            for pairs, tally in census.of(meta.namespace).items():
                if tally.active and matches(dict(pairs)):
                    return None
        active = fully_labeled = ready = terminating = 0
        desired = blueprint.template_labels.items()
        for pairs, tally in census.of(self._index_key(meta)).items():
            labels = dict(pairs)
            if matches(labels):
                active += tally.active
                ready += tally.ready
                terminating += tally.terminating
                if desired <= labels.items():
                    fully_labeled += tally.active
            elif tally.active and meta.deletion_timestamp is None:
                return None
        if ready and owner.spec.min_ready_seconds > 0:
            return None
        return StatusCounts(
            active=active,
            fully_labeled=fully_labeled,
            ready=ready,
            available=ready,
            terminating=self._terminating_replicas(terminating),
        )

    async def _claim_pods(self, key: str, owner: ReplicaSet, selector: Selector, controlled: list[Pod]) -> list[Pod]:
        """The active pods that belong to the owner, after adoption and release."""
        meta = owner.metadata
        matches = selector.matches
        claimed: list[Pod] = []
        to_claim: list[Pod] = []
        for pod in controlled:
            if is_active(pod):
                (claimed if matches(pod.metadata.labels) else to_claim).append(pod)
        orphans = self._pods.by_index(CONTROLLER_INDEX, meta.namespace)
        to_claim += [pod for pod in orphans if is_active(pod) and matches(pod.metadata.labels)]
        if not to_claim or meta.deletion_timestamp is not None:
            return claimed
        return claimed + await self._gate.pod_claims(key, meta, selector).claim(to_claim)

    # Decide and apply

    def _decide(self, owner: ReplicaSet, active: int, expectations_satisfied: bool) -> CreatePods | DeletePods | None:
        return decide(
            Observed(
                desired=_desired_replicas(owner),
                active=active,
                expectations_satisfied=expectations_satisfied,
                being_deleted=owner.metadata.deletion_timestamp is not None,
                burst=self._options.burst,
            )
        )

    async def _sync_each_pod(
        self,
        key: str,
        owner: ReplicaSet,
        raw: bytes,
        blueprint: Blueprint,
        selector: Selector,
        expectations_satisfied: bool,
    ) -> Requeue | None:
        """The sync that examines every pod."""
        controlled = self._pods.by_index(CONTROLLER_INDEX, self._index_key(owner.metadata))
        pods = await self._claim_pods(key, owner, selector, controlled)
        if not self._owners.still_has(owner.metadata):
            # It was deleted in the meantime. If another one has its name, expectations set now would never be observed.
            # The event enqueues the key.
            return None
        terminating = sum(1 for pod in controlled if is_terminating(pod) and selector.matches(pod.metadata.labels))
        error: Exception | None = None
        failure: Failure | None = None
        action = self._decide(owner, len(pods), expectations_satisfied)
        if isinstance(action, DeletePods) and any(self._no_longer_counts(pod) for pod in pods):
            # Claiming awaited requests. A pod that was deleted in the meantime has no more events for this owner, so
            # its deletion must not be expected: sync again.
            self.queue.add(key)
            return None
        if action is not None:
            error, failure = await self._manage_replicas(
                key, owner, action, len(pods), lambda: ActivePodsWithRanks(pods)
            )
        now = self.env.now()
        counts = count(
            pods,
            terminating=self._terminating_replicas(terminating),
            template_labels=blueprint.template_labels,
            min_ready_seconds=owner.spec.min_ready_seconds,
            now=now,
        )
        await self._update_replica_set_status(key, owner, raw, counts, failure)
        if error is not None:
            raise error
        if counts.ready == counts.available:
            return self._requeue_after(key)
        seconds = owner.spec.min_ready_seconds
        # Writing the status has taken time.
        return self._requeue_after(key, seconds_until_next_available(pods, seconds, now, self.env.now()))

    def _ranked_pods(self, owner: ReplicaSet) -> ActivePodsWithRanks:
        """Its active pods, if by the census all of them match."""
        index_key = self._index_key(owner.metadata)
        by_index = self._pods.by_index
        return self.events.census.ranked_pods(
            index_key, lambda: filter(is_active, by_index(CONTROLLER_INDEX, index_key))
        )

    async def _manage_replicas(
        self,
        key: str,
        owner: ReplicaSet,
        action: CreatePods | DeletePods,
        active: int,
        ranked_pods: Callable[[], ActivePodsWithRanks],
    ) -> tuple[Exception | None, Failure | None]:
        """Create or delete pods, those of ``ranked_pods``. Returns the error, and the condition for it."""
        if isinstance(action, CreatePods):
            error = await self._create_pods(key, owner, action.count, active)
            message = str(error)
        else:
            error = await self._delete_pods(key, owner, ranked_pods(), action.count)
            message = f"unable to delete pods: {error}"
        return error, None if error is None else Failure(message, active - _desired_replicas(owner))

    def _requeue_after(self, key: str, wait: float | None = None) -> Requeue | None:
        """Sync again after that time, but no later than when the expectations expire."""
        waits = [seconds for seconds in (wait, self._expectations.expires_in(key)) if seconds is not None]
        return Requeue(min(waits)) if waits else None

    def _no_longer_counts(self, pod: Pod) -> bool:
        """Whether a claimed pod is by now deleted, replaced, terminating, or released."""
        now = self._pods.get(object_key(pod.metadata))
        if now is pod:
            return False
        if now is None or now.metadata.uid != pod.metadata.uid or not is_active(now):
            return True
        old = controller_of(pod.metadata)
        return old is not None and controller_of(now.metadata) != old

    async def _create_pods(self, key: str, owner: ReplicaSet, missing: int, active: int) -> Exception | None:
        desired = _desired_replicas(owner)
        burst = "" if active + missing == desired else f", at most {self._options.burst} in one sync"
        pods = "1 pod" if desired == 1 else f"{desired} pods"
        record_decision(f"{pods} desired, {active} active: creating {missing}{burst}")
        self._expectations.expect_creations(key, missing)
        meta = owner.metadata
        reference = object_reference(self._kind, meta)
        controller_ref = new_controller_reference(meta, self._kind)

        async def create(_index: int) -> None:
            try:
                pod = await self._pod_control.create_pod(meta.namespace, owner.spec.template, reference, controller_ref)
            except (ApiError, OSError) as error:
                self._writes.failed(key, error)
                if not has_cause(error, "NamespaceTerminating"):
                    raise
                # The expectation stays, and delays the owner while its namespace is deleted.
                self.events.namespace_terminating(meta)
                raise Futile from error
            self._writes.created(key, meta.uid, pod.metadata)

        created, error = await slow_start(missing, INITIAL_BATCH, create)
        # Failed and skipped creates will not be observed. One without a response counts as failed (kubernetes#67662);
        # the next sync first finds out whether it happened.
        if created < missing:
            self.log.info("Slow-start failure. Skipping creation of pods", v=2, skipped=missing - created, key=key)
            self._expectations.lower(key, missing - created, 0)
        return error

    async def _delete_pods(
        self, key: str, owner: ReplicaSet, ranked_pods: ActivePodsWithRanks, excess: int
    ) -> Exception | None:
        now = self.env.now()
        to_delete = ranked_pods.get_pods_to_delete(
            excess,
            now=now,
            neighbours=lambda: self._related_active_pods_by_node(owner),
            use_deletion_cost=self._options.use_deletion_cost,
        )
        if excess < len(ranked_pods):
            for ratio in ranked_pods.age_ratios([victim.pod for victim in to_delete], now):
                self._age_ratio.observe(ratio)
        self._expectations.expect_deletions(key, [object_key(victim.pod.metadata) for victim in to_delete])
        reference = object_reference(self._kind, owner.metadata)
        sizes = f"{_desired_replicas(owner)} of {len(ranked_pods)} desired"

        async def delete(victim: PodToDelete) -> None:
            meta = victim.pod.metadata
            record_decision(f"{sizes}: {meta.name} chosen, {victim.reason}")
            await self._gate.delete_pod(self._pod_control, key, object_key(meta), reference)

        errors = await run_all([delete(victim) for victim in to_delete])
        return next((error for error in errors if error is not None), None)

    def _related_active_pods_by_node(self, owner: ReplicaSet) -> Mapping[str, int]:
        """Active pods by node, of all ReplicaSets that the same Deployment controls; none without a Deployment."""
        reference = controller_of(owner.metadata)
        if reference is None:
            return {}
        related_pods: dict[str, Pod] = {}
        for related in self._owners.by_index(CONTROLLER_UID_INDEX, reference.uid):
            try:
                selector = selector_from(selector_of(related))
            except SelectorError:
                continue  # selects nothing; the sync of that ReplicaSet logs it
            for pod in pods_selected(self._pods, related.metadata.namespace, selector):
                related_pods[object_key(pod.metadata)] = pod
        by_node: Counter[str] = Counter()
        for pod in related_pods.values():
            if is_active(pod):
                by_node[pod.spec.node_name] += 1
        return by_node

    # Report

    async def _update_replica_set_status(
        self, key: str, owner: ReplicaSet, raw: bytes, counts: StatusCounts, failure: Failure | None
    ) -> None:
        """Write the status if it changed: based on the cached object, then on the live one. ``raw`` is the JSON of
        ``owner`` at the start of the sync."""
        status = next_status(owner, counts, failure, self.env.now())
        if status == owner.status:
            return
        record_decision(describe(owner, counts, failure))
        meta, body = owner.metadata, encode(status)
        try:
            response = await self._gate.put_status(key, meta, raw, body)
        except (ApiError, OSError) as error:
            try:
                live = await self._gate.read_for_status(key, meta)
            except ReplacedOwner:
                raise error from None
            if live is None:
                raise
            response = await self._gate.put_status(key, meta, live, body)
        if status.terminating_replicas is not None:
            # Servers before v1.35 drop the field unless its gate is on. Writing it again would be one request per sync
            # that changes nothing.
            self._terminating_is_dropped = response.status.terminating_replicas is None

    def _terminating_replicas(self, terminating: int) -> int | None:
        return None if self._terminating_is_dropped or not self._options.report_terminating else terminating

    def _index_key(self, meta: ObjectMeta) -> str:
        return controller_index_key(meta.namespace, self._kind.kind, meta.name, meta.uid)


def _desired_replicas(owner: ReplicaSet) -> int:
    return 1 if owner.spec.replicas is None else owner.spec.replicas
