"""The wiring: observe → decide → apply → report. ``sync_context`` makes the requests. Upstream: v1.36
``pkg/controller/deployment``.
"""

from msgspec.structs import replace

from pilothouse.api.apps import DEPLOYMENTS, REPLICA_SETS, Deployment, DeploymentStatus, ReplicaSet
from pilothouse.api.core import PODS, Pod
from pilothouse.api.meta import Object, ObjectMeta
from pilothouse.client.errors import ApiError, has_cause
from pilothouse.controllers.shared.blueprints import Blueprints
from pilothouse.controllers.workloads.deployment import DeploymentOptions, status
from pilothouse.controllers.workloads.deployment.decide import (
    Plan,
    SyncCase,
    rollout_recreate,
    rollout_rolling,
    sync_case,
)
from pilothouse.controllers.workloads.deployment.history import replica_sets_to_clean_up, roll_back, rollback_revision
from pilothouse.controllers.workloads.deployment.progress import (
    check_paused_conditions,
    deployment_complete,
    seconds_to_deadline,
    with_condition,
)
from pilothouse.controllers.workloads.deployment.recreate import old_pods_running
from pilothouse.controllers.workloads.deployment.scaling import scale
from pilothouse.controllers.workloads.deployment.set_events import SetEvents, index_key, selects_all
from pilothouse.controllers.workloads.deployment.sync_context import SyncContext
from pilothouse.machinery.labels import Selector
from pilothouse.machinery.owners import new_controller_reference
from pilothouse.runtime import (
    Claims,
    ConsistencyStore,
    ControllerContext,
    EventRecorder,
    ManagedController,
    Requeue,
    index_by_controller,
    object_reference,
    read_versions,
)
from pilothouse.runtime.claims import CONTROLLER_INDEX
from pilothouse.runtime.controller import COALESCING_TURNS

QUEUE_NAME = "deployment"


class DeploymentController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(DeploymentOptions)
        deployments = context.informer(DEPLOYMENTS)
        sets = context.informer(REPLICA_SETS, indexes={CONTROLLER_INDEX: index_by_controller})
        pods = context.informer(PODS, indexes={CONTROLLER_INDEX: index_by_controller})
        super().__init__(
            context,
            "deployment-controller",
            workers=options.workers,
            queue_name=QUEUE_NAME,
            turns=COALESCING_TURNS,
        )
        self._options = options
        self._client = context.client
        self._deployments = deployments.cache
        self._sets = sets.cache
        self._pods = pods.cache
        self._recorder = EventRecorder(context.client, context.env, self.name)
        self.add_runnable("events", self._recorder.run)
        self._consistency_store = ConsistencyStore(
            read_versions(deployments, sets),
            prefix=f"pilothouse_{QUEUE_NAME}",  # upstream has no store here
            metrics=context.metrics,
        )
        self._selectors: Blueprints[Deployment, Selector | None] = Blueprints(
            DEPLOYMENTS.kind, lambda owner: owner.spec.selector, lambda _owner, selector, _old: selector, self.log
        )
        self.events = SetEvents(
            deployments=self._deployments,
            sets=self._sets,
            pods=self._pods,
            queue=self.queue,
            consistency_store=self._consistency_store,
            selector_of=self._selectors.of,
            forgotten=self._selectors.forget,
        )
        events = self.events
        deployments.add_handler(events.add_deployment, events.update_deployment, events.delete_deployment)
        sets.add_handler(events.add_replica_set, events.update_replica_set, events.delete_replica_set)
        pods.add_handler(None, None, events.delete_pod)  # other changes arrive with the ReplicaSet's status

    async def reconcile(self, key: str) -> Requeue | None:
        self._consistency_store.ensure_ready(key)
        deployment, raw = self._deployments.get(key), self._deployments.raw(key)
        if deployment is None:
            self._consistency_store.clear(key)
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        if selects_all(deployment):
            await self._record_selects_all(key, deployment, raw)
            return None
        selector = self._selectors.of(deployment)
        if selector is None:
            return None
        sets = await self._get_replica_sets_for_deployment(key, deployment, selector)
        if sets is None:
            return None
        try:
            return await self._sync_deployment(self._sync_context(key, deployment, raw, sets))
        except ApiError as error:
            if has_cause(error, "NamespaceTerminating"):
                return None  # a retry cannot help
            raise

    # Observe

    def _sync_context(self, key: str, deployment: Deployment, raw: bytes, sets: list[ReplicaSet]) -> SyncContext:
        uid = deployment.metadata.uid
        return SyncContext(
            self.env,
            self._client,
            self._recorder,
            self._sets,
            deployment,
            raw,
            sets,
            lambda group_resource, version: self._consistency_store.wrote_at(key, uid, group_resource, version),
        )

    async def _record_selects_all(self, key: str, deployment: Deployment, raw: bytes) -> None:
        reference = object_reference(DEPLOYMENTS, deployment.metadata)
        message = "This deployment is selecting all pods. A non-empty selector is required."
        self._recorder.event(reference, "Warning", "SelectingAll", message)
        generation = deployment.metadata.generation
        if deployment.status.observed_generation < generation:
            sync = self._sync_context(key, deployment, raw, [])
            await sync.write_status(replace(deployment.status, observed_generation=generation))

    async def _get_replica_sets_for_deployment(
        self, key: str, deployment: Deployment, selector: Selector
    ) -> list[ReplicaSet] | None:
        """The ReplicaSets of the Deployment. ``None`` after an adoption or release: the cache must have these writes
        first."""
        meta = deployment.metadata
        matches = selector.matches
        controlled = self._sets.by_index(CONTROLLER_INDEX, index_key(meta))
        if meta.deletion_timestamp is not None:
            return [rs for rs in controlled if matches(rs.metadata.labels)]
        to_claim = [rs for rs in controlled if not matches(rs.metadata.labels)]
        orphans = self._sets.by_index(CONTROLLER_INDEX, meta.namespace)
        to_claim += [rs for rs in orphans if rs.metadata.deletion_timestamp is None and matches(rs.metadata.labels)]
        if not to_claim:
            return list(controlled)

        def record_write(written: ObjectMeta) -> None:
            self._consistency_store.wrote_at(key, meta.uid, REPLICA_SETS.group_resource, written.resource_version)

        claims = Claims(
            self._client,
            REPLICA_SETS,
            meta,
            new_controller_reference(meta, DEPLOYMENTS),
            selector,
            read_live=lambda: self._read_live(meta),
            on_write=record_write,
        )
        await claims.claim(to_claim)
        self.queue.add(key)
        return None

    async def _read_live(self, meta: ObjectMeta) -> ObjectMeta:
        return (await self._client.get(DEPLOYMENTS.read_as(Object), meta.name, meta.namespace)).metadata

    def _old_pods(self, sync: SyncContext) -> list[Pod]:
        return [
            pod
            for rs in sync.old
            for pod in self._pods.by_index(CONTROLLER_INDEX, index_key(rs.metadata, REPLICA_SETS.kind))
        ]

    # Decide, apply, report

    async def _sync_deployment(self, sync: SyncContext) -> Requeue | None:
        case = sync_case(sync.deployment, sync.sets)
        if case is not SyncCase.REPORT:
            condition = check_paused_conditions(sync.deployment, self.env.now())
            if condition is not None:
                current = sync.deployment.status
                await sync.write_status(replace(current, conditions=with_condition(current.conditions, condition)))
        await sync.sync_revision()
        match case:
            case SyncCase.REPORT:
                await sync.write_status(self._calculate_status(sync))
                return None
            case SyncCase.SCALE:
                await self._sync_scale(sync)
                return None
            case SyncCase.ROLL_BACK:
                await self._rollback(sync)
                return None
            case SyncCase.ROLL:
                return await self._rollout_rolling(sync)
            case SyncCase.RECREATE:
                return await self._rollout_recreate(sync)

    async def _sync_scale(self, sync: SyncContext) -> None:
        await sync.resize(scale(sync.deployment, sync.new, sync.old))
        if sync.deployment.spec.paused and rollback_revision(sync.deployment) is None:
            await sync.delete(replica_sets_to_clean_up(sync.deployment, sync.old))
        await sync.write_status(self._calculate_status(sync))

    async def _rollback(self, sync: SyncContext) -> None:
        if sync.new is None:
            await sync.create_new_replica_set()
        revision = rollback_revision(sync.deployment)
        if revision is not None:
            await sync.roll_back(roll_back(sync.deployment, sync.sets, revision))

    async def _rollout_rolling(self, sync: SyncContext) -> Requeue | None:
        plan = rollout_rolling(sync.deployment, sync.new, sync.old)
        if plan.create:
            await sync.create_new_replica_set()
            plan = rollout_rolling(sync.deployment, sync.new, sync.old)
        return await self._apply_plan(sync, plan)

    async def _rollout_recreate(self, sync: SyncContext) -> Requeue | None:
        pods_running = old_pods_running(sync.old, self._old_pods(sync))
        plan = rollout_recreate(sync.deployment, sync.new, sync.old, old_pods_left=pods_running)
        if plan.create:
            await sync.create_new_replica_set()
            plan = rollout_recreate(sync.deployment, sync.new, sync.old, old_pods_left=pods_running)
        return await self._apply_plan(sync, plan)

    async def _apply_plan(self, sync: SyncContext, plan: Plan) -> Requeue | None:
        changed = await sync.resize(plan.resizes)
        if not changed and not plan.waits and deployment_complete(sync.deployment, sync.deployment.status):
            await sync.delete(replica_sets_to_clean_up(sync.deployment, sync.old))
        now = self.env.now()
        report = status.rollout_status(
            sync.deployment, sync.new, sync.sets, now, report_terminating=self._options.report_terminating
        )
        if await sync.write_status(report):
            return None  # its event enqueues the key
        wait = seconds_to_deadline(sync.deployment, now)
        return None if wait is None else Requeue(wait)

    def _calculate_status(self, sync: SyncContext) -> DeploymentStatus:
        return status.calculate_status(
            sync.deployment, sync.new, sync.sets, self.env.now(), report_terminating=self._options.report_terminating
        )


build = DeploymentController
