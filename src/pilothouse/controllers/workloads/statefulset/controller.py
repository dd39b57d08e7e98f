"""The wiring: observe → decide → apply → report. Upstream: v1.36 ``pkg/controller/statefulset``."""

import datetime
from collections.abc import Sequence

import msgspec

from pilothouse.api.apps import CONTROLLER_REVISIONS, STATEFUL_SETS, ControllerRevision, StatefulSet, StatefulSetStatus
from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, PersistentVolumeClaim, Pod
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import NotFound, has_cause
from pilothouse.controllers.shared.blueprints import Blueprints
from pilothouse.controllers.shared.conflicts import RETRY, retry_on_conflict
from pilothouse.controllers.shared.history import History, template_in
from pilothouse.controllers.shared.owner_gate import OwnerGate
from pilothouse.controllers.shared.pod_events import PodEvents
from pilothouse.controllers.workloads.statefulset import StatefulSetOptions
from pilothouse.controllers.workloads.statefulset.blueprint import Blueprint
from pilothouse.controllers.workloads.statefulset.decide import (
    Action,
    CreateMissingClaims,
    CreatePod,
    DeletePod,
    Observed,
    Plan,
    UpdateClaimOwners,
    UpdateStatefulPod,
    decide,
    unavailable_replicas,
)
from pilothouse.controllers.workloads.statefulset.identity import is_member_of, ordinal_of, revision_of
from pilothouse.controllers.workloads.statefulset.pod_template import numbered_template
from pilothouse.controllers.workloads.statefulset.replicas import Rules, Tally, rules_of, split_replicas, tally
from pilothouse.controllers.workloads.statefulset.retention import policy_of
from pilothouse.controllers.workloads.statefulset.revisions import Revisions, StatefulHistory
from pilothouse.controllers.workloads.statefulset.status import encode, next_status
from pilothouse.controllers.workloads.statefulset.writes import STEP_ERRORS, Writes
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.machinery.splice import take_field
from pilothouse.runtime import (
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    controller_index_key,
    index_by_controller,
    object_key,
    object_reference,
    pod_body,
    run_all,
)
from pilothouse.runtime.batches import INITIAL_BATCH, growing_batches
from pilothouse.runtime.claims import CONTROLLER_INDEX
from pilothouse.semantics.pods import is_terminal, seconds_until_next_available

LARGEST_BATCH = 500
"""``MaxBatchSize``: the largest batch with parallel management."""


class _SyncContext(msgspec.Struct):
    key: str
    owner: StatefulSet
    raw: bytes
    blueprint: Blueprint
    rules: Rules

    @property
    def meta(self) -> ObjectMeta:
        return self.owner.metadata


class StatefulSetController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(StatefulSetOptions)
        owners = context.informer(STATEFUL_SETS)
        revisions = context.informer(CONTROLLER_REVISIONS, indexes={CONTROLLER_INDEX: index_by_controller})
        pods = context.informer(PODS, indexes={CONTROLLER_INDEX: index_by_controller})
        claims = context.informer(PERSISTENT_VOLUME_CLAIMS)
        name = "statefulset-controller"
        super().__init__(context, name, workers=options.workers, queue_name="statefulset")
        self._options = options
        self._client = context.client
        self._owners = owners.cache
        self._pods = pods.cache
        self._claims = claims.cache
        self._recorder = EventRecorder(context.client, context.env, name)
        self.add_runnable("events", self._recorder.run)
        # There are no expectations: pods are known by name, and the consistency store waits for them.
        self._blueprints: Blueprints[StatefulSet, Blueprint] = Blueprints(
            STATEFUL_SETS.kind,
            lambda owner: owner.spec.selector,
            lambda owner, selector, _old: Blueprint(owner, selector),
            self.log,
        )
        self._gate = OwnerGate(
            context,
            STATEFUL_SETS,
            owners,
            pods,
            read=(pods, claims, owners, revisions),
            prefix="statefulset",
            wait_for_own_writes=options.wait_for_own_writes,
            selector_of=lambda owner: self._blueprints.of(owner).selector,
            on_deleted=self._forget,
        )
        self._writes = self._gate.writes
        self._history = StatefulHistory(
            History(context.client, revisions.cache),
            compare_by_meaning=options.compare_by_meaning,
            on_write=self._record_revision_write,
        )
        self._available_is_dropped = False
        self._awaited: dict[str, str] = {}
        """By key of a claim that must be deleted before a pod can be created the key of the StatefulSet."""
        labels = ("statefulset_namespace", "statefulset_name", "pod_management_policy")
        self._max_unavailable = context.metrics.gauge(
            "statefulset_controller_statefulset_max_unavailable",
            "[ALPHA] Maximum number of unavailable pods allowed during StatefulSet rolling updates",
            labels,
        )
        self._unavailable = context.metrics.gauge(
            "statefulset_controller_statefulset_unavailable_replicas",
            "[ALPHA] Current number of unavailable pods in StatefulSet",
            labels,
        )
        self.events = PodEvents(
            self._gate, self.queue, self.log, ready_delay=lambda owner: owner.spec.min_ready_seconds
        )
        owners.add_handler(self.events.add_owner, self.events.update_owner, self.events.delete_owner)
        pods.add_handler(self.events.add_pod, self.events.update_pod, self.events.delete_pod)
        claims.add_handler(None, lambda _old, claim: self._delete_pvc(claim, False), self._delete_pvc)

    def _delete_pvc(self, claim: PersistentVolumeClaim, _final_state_unknown: bool) -> None:
        """Enqueues the StatefulSet that waits for it. Upstream does not watch claims, and waits for any other event."""
        key = self._awaited.pop(object_key(claim.metadata), None)
        if key is not None:
            self.queue.add(key)

    def _forget(self, key: str) -> None:
        self.events.ending.forget(key)
        self._blueprints.forget(key)

    async def reconcile(self, key: str) -> Requeue | None:
        snapshot = await self._gate.enter(key)
        if snapshot is None:
            return None
        owner = snapshot.owner
        blueprint = self._blueprints.of(owner)
        if blueprint.selector is None:
            return None
        rules = rules_of(owner, use_max_unavailable=self._options.use_max_unavailable)
        sync = _SyncContext(key, owner, snapshot.raw, blueprint, rules)
        selector = blueprint.selector
        revisions = await self._history.claim_revisions(
            owner, selector, lambda: self._writes.read_owner(STATEFUL_SETS, key, sync.meta)
        )
        pods = await self._claimed(sync, selector)
        if not self._owners.still_has(sync.meta):
            return None  # the event enqueues the key
        live = {revision_of(pod.metadata) for pod in pods}
        try:
            current_revisions = await self._history.get_stateful_set_revisions(owner, blueprint, revisions)
            live |= {current_revisions.current.metadata.name, current_revisions.update.metadata.name}
            requeue = await self._act(sync, current_revisions, pods)
        except STEP_ERRORS as error:
            try:
                await self._history.truncate(owner, revisions, live)
            except STEP_ERRORS as cleanup_error:
                # The first failure is raised; this one is only logged.
                self.log.warning("Failed to clean up revisions", key=key, problem=str(cleanup_error), first=str(error))
            raise
        await self._history.truncate(owner, revisions, live)
        return requeue

    # Observe

    async def _claimed(self, sync: _SyncContext, selector: Selector) -> list[Pod]:
        """The pods that belong to the owner, after adoption and release."""
        meta = sync.meta

        def belongs(pod: Pod) -> bool:
            return is_member_of(meta.name, pod.metadata.name)

        matches = selector.matches
        index_key = controller_index_key(meta.namespace, STATEFUL_SETS.kind, meta.name, meta.uid)
        claimed: list[Pod] = []
        to_claim: list[Pod] = []
        for pod in self._pods.by_index(CONTROLLER_INDEX, index_key):
            (claimed if matches(pod.metadata.labels) and belongs(pod) else to_claim).append(pod)
        orphans = self._pods.by_index(CONTROLLER_INDEX, meta.namespace)
        to_claim += [pod for pod in orphans if matches(pod.metadata.labels) and belongs(pod)]
        if not to_claim or meta.deletion_timestamp is not None:
            return claimed
        return claimed + await self._gate.pod_claims(sync.key, meta, selector).claim(to_claim, predicate=belongs)

    def _newest(self, pods: Sequence[Pod]) -> list[Pod]:
        """The pods as the cache has them now, after claiming and the requests for revisions."""
        cached = [(pod, self._pods.get(object_key(pod.metadata))) for pod in pods]
        return [now for pod, now in cached if now is not None and now.metadata.uid == pod.metadata.uid]

    def _observe(
        self, sync: _SyncContext, revisions: Revisions, pods: Sequence[Pod], now: datetime.datetime
    ) -> Observed:
        replicas = split_replicas(pods, sync.rules, now)
        templates = sync.blueprint.claims
        claims: dict[str, PersistentVolumeClaim] = {}
        if templates:
            names = [slot.name for slot in replicas.slots] + [pod.metadata.name for pod in replicas.condemned]
            for claim in (template.claim_name(name) for name in names for template in templates):
                cached = self._claims.get(f"{sync.meta.namespace}/{claim}")
                if cached is not None:
                    claims[claim] = cached
        return Observed(
            rules=sync.rules,
            replicas=replicas,
            current=revisions.current.metadata.name,
            update=revisions.update.metadata.name,
            current_replicas=sync.owner.status.current_replicas,
            being_deleted=sync.meta.deletion_timestamp is not None,
            uid=sync.meta.uid,
            policy=policy_of(sync.owner),
            templates=templates,
            claims=claims,
            now=now,
        )

    # Decide and apply

    async def _act(self, sync: _SyncContext, revisions: Revisions, pods: Sequence[Pod]) -> Requeue | None:
        now = self.env.now()
        pods = self._newest(pods)
        observed = self._observe(sync, revisions, pods, now)
        plan = decide(observed)
        self._measure(sync, observed)
        for claim in plan.waits_for:
            self._awaited[f"{sync.meta.namespace}/{claim}"] = sync.key
        replaced = 0
        failure: Exception | None = None
        if not observed.being_deleted:
            pods = observed.replicas.pods()
            apply = _Apply(self._writes_for(sync, observed), sync, revisions, observed)
            try:
                await apply.carry_out(plan)
            except STEP_ERRORS as error:
                failure = error
                if has_cause(error, "NamespaceTerminating"):
                    self.events.namespace_terminating(sync.meta)
            replaced = apply.replaced
        counted = tally(pods, sync.rules, observed.current, observed.update, now)
        try:
            await self._report(sync, revisions, counted, replaced)
        except STEP_ERRORS as error:
            if failure is None:
                raise
            self.log.warning("Could not update status", key=sync.key, problem=str(error))
        if failure is not None:
            raise failure
        seconds = sync.rules.min_ready_seconds
        if seconds > 0 and counted.ready != counted.available:
            return Requeue(seconds_until_next_available(pods, seconds, now, self.env.now()))
        return None

    def _writes_for(self, sync: _SyncContext, observed: Observed) -> Writes:
        return Writes(
            client=self._client,
            recorder=self._recorder,
            claims=self._claims,
            owner=sync.meta,
            about=object_reference(STATEFUL_SETS, sync.meta),
            templates=sync.blueprint.claims,
            keeping=observed.keeping,
            on_write=lambda group_resource, version: self._writes.wrote_at(
                sync.key, sync.meta.uid, group_resource, version
            ),
        )

    def _measure(self, sync: _SyncContext, observed: Observed) -> None:
        """Only behind upstream's gate, as there."""
        if sync.rules.max_unavailable is None:
            return
        labels = (sync.meta.namespace, sync.meta.name, sync.owner.spec.pod_management_policy)
        self._max_unavailable.labels(*labels).set(sync.rules.max_unavailable)
        self._unavailable.labels(*labels).set(unavailable_replicas(observed))

    # Report

    async def _report(self, sync: _SyncContext, revisions: Revisions, counted: Tally, replaced: int) -> None:
        status = next_status(
            sync.owner,
            sync.rules,
            counted,
            current=revisions.current.metadata.name,
            update=revisions.update.metadata.name,
            collision_count=revisions.collision_count,
            replaced=replaced,
            report_available=not self._available_is_dropped,
        )
        if status is None:
            return
        desired = status
        record_decision(
            f"status: {sync.rules.desired} replicas desired; {desired.replicas} exist, {desired.ready_replicas} ready, "
            f"{desired.updated_replicas} of the update revision {desired.update_revision}"
        )

        async def write(attempt: int) -> None:
            raw: bytes | None = sync.raw
            if attempt:
                if not self._owners.still_has(sync.meta):
                    return  # deleted; a write would be a conflict again
                raw = self._owners.raw(sync.key)
            assert raw is not None, "what is written back whole is cached with its JSON"
            await self._put_status(sync, raw, desired)

        try:
            await retry_on_conflict(write, RETRY)
        except NotFound as error:
            self._writes.record_owner_missing(sync.key, sync.meta, error)
            raise

    async def _put_status(self, sync: _SyncContext, raw: bytes, status: StatefulSetStatus) -> None:
        body = encode(status, take_field(raw, "status"))
        response = await self._gate.put_status(sync.key, sync.meta, raw, body)
        # Servers before v1.22 do not have the field. Writing it again would be one useless request per sync.
        self._available_is_dropped = response.status.available_replicas is None

    def _record_revision_write(self, owner: StatefulSet, revision: ControllerRevision) -> None:
        meta = owner.metadata
        version = revision.metadata.resource_version
        self._writes.wrote_at(object_key(meta), meta.uid, CONTROLLER_REVISIONS.group_resource, version)


class _Apply:
    """Carries out one plan, until the first failure."""

    def __init__(self, writes: Writes, sync: _SyncContext, revisions: Revisions, observed: Observed) -> None:
        self._writes = writes
        self._sync = sync
        self._revisions = revisions
        self._seen = observed
        self._uids = {pod.metadata.name: pod.metadata.uid for pod in observed.replicas.pods()}
        self.replaced = 0
        """The number of current pods that the update has deleted."""

    async def carry_out(self, plan: Plan) -> None:
        """The groups one after the other."""
        await self._group(plan.living, ordered=plan.ordered)
        for group in (plan.claim_updates, plan.condemned):
            await self._group([() if action is None else (action,) for action in group], ordered=plan.ordered)
        for old in plan.update:
            await self._do(old)
            # Upstream takes one off for each, also for pods of neither revision, down to -1 (kubernetes#58347).
            self.replaced += old.revision == self._seen.current

    async def _group(self, steps: Sequence[Sequence[Action]], *, ordered: bool) -> None:
        async def take(index: int) -> None:
            for action in steps[index]:
                await self._do(action)

        if ordered:
            for index in range(len(steps)):
                await take(index)
            return
        for batch in growing_batches(len(steps), INITIAL_BATCH, LARGEST_BATCH):
            results = await run_all([take(index) for index in batch if steps[index]])
            first = next((result for result in results if result is not None), None)
            if first is not None:
                raise first

    async def _do(self, action: Action) -> None:
        record_decision(self._reason(action))
        match action:
            case CreatePod(name=name, from_current=from_current):
                await self._writes.create_pod(name, self._body(name, from_current=from_current))
            case DeletePod(name=name):
                await self._writes.delete_pod(name)
            case CreateMissingClaims(name=name):
                await self._writes.fill_claims(name, self._uids[name])
            case UpdateStatefulPod(name=name):
                await self._writes.repair_pod(name)
            case UpdateClaimOwners(name=name):
                await self._writes.update_pod_claim_for_retention_policy(name, self._uids[name])

    def _reason(self, action: Action) -> str:
        observed, name = self._seen, action.name
        rules = observed.rules
        summary = f"{rules.desired} replicas desired from ordinal {rules.start}"
        match action:
            case CreatePod(from_current=from_current):
                revision = (
                    f"current revision {observed.current}" if from_current else f"update revision {observed.update}"
                )
                order = "OrderedReady, the ones before it are ready" if rules.ordered else "Parallel"
                return f"{summary}: {name} is missing and created from the {revision}; {order}"
            case DeletePod(revision=revision):
                if not rules.is_desired(ordinal_of(name)):
                    order = "OrderedReady, the highest ordinal first" if rules.ordered else "Parallel"
                    return f"{summary}: {name} is beyond them and deleted; {order}"
                slot = next((candidate.pod for candidate in observed.replicas.slots if candidate.name == name), None)
                if slot is not None and is_terminal(slot):
                    return f"{name} has ended (phase {slot.status.phase}): deleted to be created again"
                missing = f"maxUnavailable {rules.max_unavailable}" if rules.max_unavailable else "one at a time"
                return (
                    f"rolling update: {name} has revision {revision}, the update revision is {observed.update}; "
                    f"partition {rules.partition or 0}, {missing}, the highest ordinal first"
                )
            case CreateMissingClaims():
                return f"{name} is Pending and lacks claims, or they lack the owners of the retention policy"
            case UpdateStatefulPod():
                return (
                    f"{name} lacks its identity labels, its volumes, or its claims the owners of the retention policy"
                )
            case UpdateClaimOwners():
                return f"{summary}: {name} is beyond them, its claims get the owners of the retention policy"

    def _body(self, pod: str, *, from_current: bool) -> bytes:
        revision = self._revisions.current if from_current else self._revisions.update
        meta = self._sync.meta
        template = numbered_template(
            template_in(revision.data),
            pod=pod,
            subdomain=self._sync.owner.spec.service_name,
            revision=revision.metadata.name,
            claims=self._sync.blueprint.claims,
        )
        return pod_body(
            template, meta.name, new_controller_reference(meta, STATEFUL_SETS), name=pod, namespace=meta.namespace
        )


build = StatefulSetController
