"""The wiring. Quotas whose limits are not in force yet have a queue of their own, so that they do not wait behind
recounts."""

import asyncio

import msgspec

from pilothouse.api.core import PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_QUOTAS, SERVICES, ResourceQuota
from pilothouse.client.errors import NotFound
from pilothouse.controllers.policy.resourcequota import DESCRIPTOR, ResourceQuotaOptions
from pilothouse.controllers.policy.resourcequota.counting import NotRead
from pilothouse.controllers.policy.resourcequota.monitors import Monitors
from pilothouse.controllers.policy.resourcequota.usage import has_decreased, is_urgent, new_status, scopes_of
from pilothouse.env import TaskGroup
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, RetryLater, object_key
from pilothouse.runtime.controller import WorkerPool
from pilothouse.runtime.workqueue import WorkQueue
from pilothouse.semantics.pod_amounts import Amounts, add, amounts
from pilothouse.semantics.quota import OF_DEVICE_CLASS, Evaluator

LATE_SECONDS = 60.0
"""How long after a decrease of usage an added object may have been charged before it."""


class ResourceQuotaController:
    """See the package for the promises. Keys are those of quotas. Create it on the running loop."""

    name = DESCRIPTOR.name

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(ResourceQuotaOptions)
        env, metrics, log = context.env, context.metrics, context.log
        self._env = env
        self._log = log
        self._client = context.client
        self._sync_period = options.sync_period
        self._informer = context.informer(RESOURCE_QUOTAS)
        self._quotas = self._informer.cache
        # Before the monitors, which then use these informers instead of their own of metadata.
        context.informer(PODS)
        context.informer(SERVICES)
        context.informer(PERSISTENT_VOLUME_CLAIMS)
        self.monitors = Monitors(
            context,
            replenish=self._replenish,
            added=self._added,
            is_limited=lambda namespace: bool(self._quotas.list(namespace)),
            on_new=self._enqueue_urgent,
            pod_level_resources=options.pod_level_resources,
        )
        self._given_back: dict[str, float] = {}
        """When a quota was last written with less usage than before."""
        self._queue: WorkQueue[str] = WorkQueue(env, "resourcequota_primary", metrics)
        self._urgent: WorkQueue[str] = WorkQueue(env, "resourcequota_priority", metrics)
        self._pools = [
            WorkerPool(
                f"{self.name}-{what}", queue, self._sync, workers=options.concurrent_syncs, metrics=metrics, log=log
            )
            for what, queue in (("primary", self._queue), ("priority", self._urgent))
        ]
        self._informer.add_handler(
            lambda quota, _initial: self._enqueue(quota), self._quota_changed, self._quota_gone, resync_seconds=0.0
        )

    async def run(self) -> None:
        """Work until cancelled. Counting begins when the caches are filled, or have been waited for."""
        self._log.info("Starting controller", controller=self.name)
        try:
            async with TaskGroup(self.name) as group:
                group.start(self.monitors.run(), name=f"{self.name}-monitors")
                await self._informer.wait_synced()
                await self.monitors.started.wait()
                self._log.info("Caches are synced", v=2, controller=self.name)
                for pool in self._pools:
                    group.start(pool.run(), name=pool.name)
                if self._sync_period <= 0:
                    self._log.info("periodic quota controller resync disabled")
                    await asyncio.get_running_loop().create_future()
                while True:
                    for key in self._quotas.snapshot():
                        self._queue.add(key)
                    await asyncio.sleep(self._sync_period)
        finally:
            self._queue.shut_down()
            self._urgent.shut_down()
            self._log.info("Stopped controller", controller=self.name)

    # What enqueues a quota

    def _quota_changed(self, old: ResourceQuota, new: ResourceQuota) -> None:
        # Not for changes of the status, which is written here and by admission.
        if amounts(old.spec.hard) != amounts(new.spec.hard) or old.metadata.uid != new.metadata.uid:
            self._enqueue(new)

    def _enqueue_urgent(self) -> None:
        # Limits of a resource that is counted only now: creating one is rejected until its usage is known.
        for key, quota in self._quotas.snapshot().items():
            if is_urgent(quota, self.monitors.evaluators()):
                self._urgent.add(key)

    def _quota_gone(self, quota: ResourceQuota, _unknown: bool) -> None:
        self._given_back.pop(object_key(quota.metadata), None)

    def _enqueue(self, quota: ResourceQuota) -> None:
        queue = self._urgent if is_urgent(quota, self.monitors.evaluators()) else self._queue
        queue.add(object_key(quota.metadata))

    def _replenish(self, evaluator: Evaluator, namespace: str) -> None:
        for quota in self._quotas.list(namespace):
            if evaluator.matching(quota.status.hard):
                self._queue.add(object_key(quota.metadata))

    def _added(self, evaluator: Evaluator, namespace: str) -> None:
        # Admission has charged it before it existed. A count between the two may have undone the charge, which
        # otherwise only the next full sync would correct.
        for quota in self._quotas.list(namespace):
            at = self._given_back.get(object_key(quota.metadata))
            if at is not None and self._env.monotonic() - at < LATE_SECONDS and evaluator.matching(quota.status.hard):
                self._queue.add(object_key(quota.metadata))

    # Counting

    async def _sync(self, key: str) -> None:
        await self.monitors.settled.wait()
        quota, raw = self._quotas.get(key), self._quotas.raw(key)
        if quota is None:
            return
        assert raw is not None, "the informer keeps quotas as they came"
        counted, unread = await self._count(quota)
        status = new_status(quota, counted)
        if status is not None:
            if has_decreased(quota, counted) and self._quotas.still_has(quota.metadata):
                self._given_back[key] = self._env.monotonic()
            body = replace_fields(raw, {"status": msgspec.json.encode(status)})
            meta = quota.metadata
            try:
                await self._client.update(RESOURCE_QUOTAS, meta.name, body, meta.namespace, subresource="status")
            except NotFound:
                return
            self._log.info("Updated quota usage", v=4, quota=key)
        if unread:
            raise RetryLater("; ".join(unread))

    async def _count(self, quota: ResourceQuota) -> tuple[Amounts, list[str]]:
        """The usage, without what cannot be counted now, and the errors."""
        if any(name.endswith(OF_DEVICE_CLASS) for name in quota.spec.hard):
            self.monitors.measure_claims()
        scopes = scopes_of(quota)
        total: Amounts = {}
        unread, unknown = [], set[str]()
        for counter in self.monitors.counters():
            names = counter.evaluator.matching(quota.spec.hard)
            if not names:
                continue
            try:
                add(total, await counter.count(quota.metadata.namespace, names, scopes))
            except NotRead as error:
                unread.append(str(error))
                unknown.update(names)
        return {name: amount for name, amount in total.items() if name not in unknown}, unread


build = ResourceQuotaController
