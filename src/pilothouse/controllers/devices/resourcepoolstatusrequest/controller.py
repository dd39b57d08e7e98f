"""The event handlers, the write of the status, and the deletion of expired requests."""

import msgspec

from pilothouse.api.resource import (
    RESOURCE_CLAIMS,
    RESOURCE_POOL_STATUS_REQUESTS,
    RESOURCE_SLICES,
    ResourceClaim,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from pilothouse.client.errors import ApiError, Conflict, NotFound
from pilothouse.controllers.devices.resourcepoolstatusrequest import DESCRIPTOR
from pilothouse.controllers.devices.resourcepoolstatusrequest.decide import pools_of, should_delete_request
from pilothouse.controllers.devices.resourcepoolstatusrequest.status import has_incomplete, limited, new_status
from pilothouse.machinery.causes import begin_sync, current_triggers, record_decision
from pilothouse.machinery.metrics import exponential_buckets
from pilothouse.machinery.splice import replace_fields
from pilothouse.runtime import ControllerContext, ManagedController, Requeue, RetryLater, WorkerPool, WorkQueue

DRIVER_INDEX = "driver"
ALLOCATED_INDEX = "allocated driver"
RETRIES = 5
"""How often a request is requeued because slices are missing, before its status reports that."""
PERIOD_SECONDS = 600.0
ROUND = "round"
_BUCKETS = exponential_buckets(0.001, 2, 15)
_json = msgspec.json.Encoder().encode


class PoolStatusController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        requests = context.informer(RESOURCE_POOL_STATUS_REQUESTS)
        slices = context.informer(RESOURCE_SLICES, indexes={DRIVER_INDEX: _index_by_driver})
        claims = context.informer(RESOURCE_CLAIMS, indexes={ALLOCATED_INDEX: _index_by_allocated})
        super().__init__(context, DESCRIPTOR.name, queue_name="resourcepoolstatusrequest")
        self._client = context.client
        self._requests, self._slices, self._claims = requests.cache, slices.cache, claims.cache
        self._rounds: WorkQueue[str] = WorkQueue(context.env, f"{self.name}-rounds")
        self._rounds.add(ROUND)
        self.add_worker_pool(
            WorkerPool(f"{self.name}-rounds", self._rounds, self._cleanup_expired_requests, log=self.log)
        )
        subsystem, labels = "resourcepoolstatusrequest_controller", ("driver_name",)
        self._processed = context.metrics.counter(
            f"{subsystem}_requests_processed_total",
            "[ALPHA] Total number of ResourcePoolStatusRequests processed",
            labels,
        )
        self._errors = context.metrics.counter(
            f"{subsystem}_request_processing_errors_total",
            "[ALPHA] Total number of errors encountered while processing ResourcePoolStatusRequests",
            labels,
        )
        self._duration = context.metrics.histogram(
            f"{subsystem}_request_processing_duration_seconds",
            "[ALPHA] Time taken to process a ResourcePoolStatusRequest",
            labels,
            _BUCKETS,
        )
        requests.add_handler(on_add=lambda request, _initial: self._enqueue(request), on_update=self._update)

    def _enqueue(self, request: ResourcePoolStatusRequest) -> None:
        if request.status is None:
            self.queue.add(request.metadata.name)

    def _update(self, _old: ResourcePoolStatusRequest, request: ResourcePoolStatusRequest) -> None:
        self._enqueue(request)

    async def reconcile(self, key: str) -> Requeue | None:
        request, raw = self._requests.get(key), self._requests.raw(key)
        if request is None or request.status is not None:
            return None
        assert raw is not None, "what is written back whole is cached with its JSON"
        started_at = self.env.perf_counter()
        driver, limit = request.spec.driver, request.spec.limit
        pools = pools_of(
            driver,
            request.spec.pool_name or "",
            self._slices.by_index(DRIVER_INDEX, driver),
            self._claims.by_index(ALLOCATED_INDEX, driver),
        )
        if has_incomplete(limited(pools, limit)) and self.queue.num_requeues(key) < RETRIES:
            raise RetryLater("incomplete pools detected, requeueing")
        record_decision(f"driver {driver} has {len(pools)} pools, at most {limit} are listed")
        try:
            await self._write(request, raw, new_status(pools, limit, self.env.now()))
        except (ApiError, OSError) as error:
            self._errors.labels(driver).inc()
            self._record_write(driver, started_at)
            if isinstance(error, Conflict | NotFound):
                raise RetryLater(str(error)) from error  # the cache will get its current state, or its deletion
            raise
        self._record_write(driver, started_at)
        self.log.info("Successfully processed ResourcePoolStatusRequest", v=2, request=key, poolCount=len(pools))
        return None

    def _record_write(self, driver: str, started_at: float) -> None:
        """Count a write, whatever its result."""
        self._processed.labels(driver).inc()
        self._duration.labels(driver).observe(self.env.perf_counter() - started_at)

    async def _write(self, request: ResourcePoolStatusRequest, raw: bytes, status: dict[str, object]) -> None:
        """PUT the status instead of a patch, so that a status that was written in the meantime is a conflict."""
        body = replace_fields(raw, {"status": _json(status)})
        await self._client.update(RESOURCE_POOL_STATUS_REQUESTS.raw, request.metadata.name, body, subresource="status")

    async def _cleanup_expired_requests(self, _key: str) -> Requeue | None:
        """Delete expired requests. Failures are logged and retried in the next round."""
        now = self.env.now()
        for request in self._requests.list():
            meta = request.metadata
            if meta.deletion_timestamp is not None or not should_delete_request(request, now):
                continue
            begin_sync(self.name, meta.name, current_triggers())
            record_decision(f"ResourcePoolStatusRequest {meta.name} has expired")
            try:
                await self._client.delete(RESOURCE_POOL_STATUS_REQUESTS, meta.name, uid=meta.uid)
            except (NotFound, Conflict):
                continue  # deleted, or replaced by another one with its name
            except (ApiError, OSError) as error:
                self.log.error("Failed to delete expired ResourcePoolStatusRequest", error=error, request=meta.name)  # fmt: skip  # noqa: E501, TRY400
            else:
                self.log.info("Deleted expired ResourcePoolStatusRequest", v=2, request=meta.name)
        return Requeue(PERIOD_SECONDS)


def _index_by_driver(resource_slice: ResourceSlice) -> list[str]:
    return [resource_slice.spec.driver]


def _index_by_allocated(claim: ResourceClaim) -> list[str]:
    allocation = claim.status.allocation
    return sorted({result.driver for result in allocation.devices.results}) if allocation is not None else []


build = PoolStatusController
