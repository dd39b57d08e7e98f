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
from pilothouse.controllers.workloads.deployment.decide import Plan, Way, next_recreation, next_roll, way_of
from pilothouse.controllers.workloads.deployment.history import doomed, roll_back, rollback_revision
from pilothouse.controllers.workloads.deployment.progress import (
    is_complete,
    pause_condition,
    seconds_to_deadline,
    with_condition,
)
from pilothouse.controllers.workloads.deployment.recreate import are_old_pods_left
from pilothouse.controllers.workloads.deployment.scaling import rescale
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
            DEPLOYMENTS.kind, lambda owner: owner.spec.selector, lambda _owner, selector, _before: selector, self.log
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
        deployments.add_handler(events.deployment_added, events.deployment_changed, events.deployment_gone)
        sets.add_handler(events.set_added, events.set_changed, events.set_gone)
        pods.add_handler(None, None, events.pod_gone)  # other changes arrive with the ReplicaSet's status

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
        sets = await self._claimed(key, deployment, selector)
        if sets is None:
            return None
        try:
            return await self._carry_on(self._sync_context(key, deployment, raw, sets))
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
        about = object_reference(DEPLOYMENTS, deployment.metadata)
        message = "This deployment is selecting all pods. A non-empty selector is required."
        self._recorder.event(about, "Warning", "SelectingAll", message)
        generation = deployment.metadata.generation
        if deployment.status.observed_generation < generation:
            sync = self._sync_context(key, deployment, raw, [])
            await sync.write_status(replace(deployment.status, observed_generation=generation))

    async def _claimed(self, key: str, deployment: Deployment, selector: Selector) -> list[ReplicaSet] | None:
        """The ReplicaSets of the Deployment. ``None`` after an adoption or release: the cache must have these writes
        first."""
        meta = deployment.metadata
        matches = selector.matches
        own = self._sets.by_index(CONTROLLER_INDEX, index_key(meta))
        if meta.deletion_timestamp is not None:
            return [each for each in own if matches(each.metadata.labels)]
        doubtful = [each for each in own if not matches(each.metadata.labels)]
        orphans = self._sets.by_index(CONTROLLER_INDEX, meta.namespace)
        doubtful += [
            each for each in orphans if each.metadata.deletion_timestamp is None and matches(each.metadata.labels)
        ]
        if not doubtful:
            return list(own)

        def wrote(written: ObjectMeta) -> None:
            self._consistency_store.wrote_at(key, meta.uid, REPLICA_SETS.group_resource, written.resource_version)

        claims = Claims(
            self._client,
            REPLICA_SETS,
            meta,
            new_controller_reference(meta, DEPLOYMENTS),
            selector,
            read_live=lambda: self._read_live(meta),
            on_write=wrote,
        )
        await claims.claim(doubtful)
        self.queue.add(key)
        return None

    async def _read_live(self, meta: ObjectMeta) -> ObjectMeta:
        return (await self._client.get(DEPLOYMENTS.read_as(Object), meta.name, meta.namespace)).metadata

    def _old_pods(self, sync: SyncContext) -> list[Pod]:
        return [
            pod
            for each in sync.old
            for pod in self._pods.by_index(CONTROLLER_INDEX, index_key(each.metadata, REPLICA_SETS.kind))
        ]

    # Decide, apply, report

    async def _carry_on(self, sync: SyncContext) -> Requeue | None:
        way = way_of(sync.deployment, sync.sets)
        if way is not Way.REPORT:
            condition = pause_condition(sync.deployment, self.env.now())
            if condition is not None:
                current = sync.deployment.status
                await sync.write_status(replace(current, conditions=with_condition(current.conditions, condition)))
        await sync.sync_revision()
        match way:
            case Way.REPORT:
                await sync.write_status(self._counted(sync))
                return None
            case Way.SCALE:
                await self._scale(sync)
                return None
            case Way.ROLL_BACK:
                await self._roll_back(sync)
                return None
            case Way.ROLL:
                return await self._roll(sync)
            case Way.RECREATE:
                return await self._recreate(sync)

    async def _scale(self, sync: SyncContext) -> None:
        await sync.resize(rescale(sync.deployment, sync.new, sync.old))
        if sync.deployment.spec.paused and rollback_revision(sync.deployment) is None:
            await sync.delete(doomed(sync.deployment, sync.old))
        await sync.write_status(self._counted(sync))

    async def _roll_back(self, sync: SyncContext) -> None:
        if sync.new is None:
            await sync.create_new()
        revision = rollback_revision(sync.deployment)
        if revision is not None:
            await sync.roll_back(roll_back(sync.deployment, sync.sets, revision))

    async def _roll(self, sync: SyncContext) -> Requeue | None:
        plan = next_roll(sync.deployment, sync.new, sync.old)
        if plan.create:
            await sync.create_new()
            plan = next_roll(sync.deployment, sync.new, sync.old)
        return await self._step(sync, plan)

    async def _recreate(self, sync: SyncContext) -> Requeue | None:
        left = are_old_pods_left(sync.old, self._old_pods(sync))
        plan = next_recreation(sync.deployment, sync.new, sync.old, old_pods_left=left)
        if plan.create:
            await sync.create_new()
            plan = next_recreation(sync.deployment, sync.new, sync.old, old_pods_left=left)
        return await self._step(sync, plan)

    async def _step(self, sync: SyncContext, plan: Plan) -> Requeue | None:
        changed = await sync.resize(plan.resizes)
        if not changed and not plan.waits and is_complete(sync.deployment, sync.deployment.status):
            await sync.delete(doomed(sync.deployment, sync.old))
        now = self.env.now()
        report = status.rolled(
            sync.deployment, sync.new, sync.sets, now, report_terminating=self._options.report_terminating
        )
        if await sync.write_status(report):
            return None  # its event enqueues the key
        wait = seconds_to_deadline(sync.deployment, now)
        return None if wait is None else Requeue(wait)

    def _counted(self, sync: SyncContext) -> DeploymentStatus:
        return status.counted(
            sync.deployment, sync.new, sync.sets, self.env.now(), report_terminating=self._options.report_terminating
        )


build = DeploymentController
