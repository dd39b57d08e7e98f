"""The event handlers, and the sync of Endpoints. Upstream: v1.36
``pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go`` and ``reconciler.go``."""

from pilothouse.api.core import ENDPOINTS, PARTIAL_ENDPOINTS, SERVICES, Endpoints, PartialEndpoints, Service
from pilothouse.api.discovery import PARTIAL_ENDPOINT_SLICES
from pilothouse.client.errors import ApiError
from pilothouse.controllers.network.endpointslice_mirroring import DESCRIPTOR, MirroringOptions
from pilothouse.controllers.network.endpointslice_mirroring.decide import (
    MANAGER,
    DesiredEndpoints,
    decide,
    desired_endpoints,
    has_selector,
    should_mirror,
)
from pilothouse.controllers.network.endpointslice_mirroring.metrics import Metrics
from pilothouse.controllers.shared.cached_json import cached_json
from pilothouse.controllers.shared.own_slices import OwnSlices
from pilothouse.controllers.shared.slice_tracker import SliceTracker
from pilothouse.controllers.shared.slice_writes import NotWritten, SliceWrites, new_body
from pilothouse.machinery.causes import record_decision
from pilothouse.runtime import (
    BucketLimiter,
    ControllerContext,
    EventRecorder,
    ExponentialFailureLimiter,
    ManagedController,
    MaxOfLimiter,
    Requeue,
    object_key,
    object_reference,
)


class EndpointSliceMirroringController(ManagedController):
    """A key is that of the Endpoints and of their service."""

    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(MirroringOptions)
        endpoints = context.informer(PARTIAL_ENDPOINTS)
        slices = context.informer(PARTIAL_ENDPOINT_SLICES)
        services = context.informer(SERVICES)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=options.workers,
            limiter=MaxOfLimiter[str](ExponentialFailureLimiter(1.0, 100.0), BucketLimiter(context.env, 10.0, 100)),
            queue_name="endpoint_slice_mirroring",
        )
        self._options = options
        self._endpoints = endpoints.cache
        self._services = services.cache
        self._recorder = EventRecorder(context.client, context.env, "endpoint-slice-mirroring-controller")
        self.add_runnable("events", self._recorder.run)
        self._tracker = SliceTracker(lambda: slices.read_version)
        self._metrics = Metrics(context.metrics, options.max_endpoints)
        self._writes = SliceWrites(context.client, self._tracker, self._metrics.changes)
        endpoints.add_handler(
            lambda obj, _initial: self._enqueue_if_mirrored(should_mirror(obj), obj),
            lambda old, new: self._enqueue_if_mirrored(should_mirror(old) or should_mirror(new), new),
            lambda obj, _unknown: self._enqueue_if_mirrored(should_mirror(obj), obj),
        )
        services.add_handler(
            lambda service, _initial: self._enqueue_if_mirrored(not has_selector(service), service),
            lambda old, new: self._enqueue_if_mirrored(has_selector(old) != has_selector(new), new),
            lambda service, _unknown: self._enqueue_if_mirrored(not has_selector(service), service),
        )
        self._slices = OwnSlices(
            slices, MANAGER, self._tracker, lambda key: self.queue.add_after(key, options.batch_seconds)
        )

    def _enqueue_if_mirrored(self, is_relevant: bool, obj: PartialEndpoints | Service) -> None:
        if is_relevant:
            self.queue.add(object_key(obj.metadata))

    async def reconcile(self, key: str) -> Requeue | None:
        started_at = self.env.perf_counter()
        try:
            await self._sync_endpoints(key)
        finally:
            self._metrics.duration.observe(self.env.perf_counter() - started_at)
        return None

    async def _sync_endpoints(self, key: str) -> None:
        cached, service = self._endpoints.get(key), self._services.get(key)
        if cached is None or service is None or has_selector(service) or not should_mirror(cached):
            await self._delete_endpoints(key)
            return
        owned = self._slices.of(key)
        self._tracker.check(key, owned)
        slices = [self._slices.with_endpoints(endpoint_slice).object for endpoint_slice in owned]
        endpoints = cached_json(self._endpoints, cached.metadata, ENDPOINTS).object
        desired = desired_endpoints(endpoints, self._options.max_endpoints)
        self._record_events(endpoints, desired)
        plan = decide(endpoints, slices, desired)
        self._metrics.observe_sync(key, desired, plan)
        creates = plan.creates if endpoints.metadata.deletion_timestamp is None else ()
        try:
            bodies = ((endpoint_slice, new_body(endpoint_slice)) for endpoint_slice in plan.updates)
            reason = f"mirrored from the Endpoints {key}, {desired.skipped} addresses are skipped"
            await self._writes.apply(key, creates, bodies, plan.deletes, reason=reason)
        except NotWritten as failed:
            raise failed.error from failed

    def _record_events(self, endpoints: Endpoints, desired: DesiredEndpoints) -> None:
        """Record events for what is not mirrored."""
        reference = object_reference(ENDPOINTS, endpoints.metadata)
        name = object_key(endpoints.metadata)
        for address in desired.invalid:
            text = "Address in Endpoints is not a valid IP, it will not be mirrored to an EndpointSlice"
            self.log.info(text, endpoints=name, IP=address)
        if desired.invalid:
            text = f"Skipped {len(desired.invalid)} invalid IP addresses when mirroring to EndpointSlices"
            self._recorder.event(reference, "Warning", "InvalidIPAddress", text)
        if desired.skipped > len(desired.invalid):
            text = "Addresses in Endpoints were skipped due to exceeding MaxEndpointsPerSubset"
            self.log.info(text, skippedAddresses=desired.skipped, endpoints=name)
            text = (
                f"A max of {self._options.max_endpoints} addresses can be mirrored to EndpointSlices per Endpoints "
                f"subset. {desired.skipped} addresses were skipped"
            )
            self._recorder.event(reference, "Warning", "TooManyAddressesToMirror", text)

    async def _delete_endpoints(self, key: str) -> None:
        """Delete all our slices, whatever becomes of the others. Upstream does not count these as changes
        (``deleteEndpoints`` of ``reconciler.go``)."""
        self._tracker.forget(key)
        self._metrics.forget(key)
        failure: Exception | None = None
        for endpoint_slice in self._slices.of(key):
            record_decision(f"Endpoints {key} are not mirrored, or were deleted: the slice is deleted")
            try:
                await self._writes.delete(key, endpoint_slice, counted=False)
            except (ApiError, OSError) as error:
                failure = failure or error
        if failure is not None:
            raise failure


build = EndpointSliceMirroringController
