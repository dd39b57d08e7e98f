"""The event handlers, and the sync of a Service. Upstream: v1.36
``pkg/controller/endpoint/endpoints_controller.go``."""

import msgspec

from pilothouse.api.core import ENDPOINTS, PARTIAL_ENDPOINTS, PODS, SERVICES, Endpoints, PartialEndpoints, Service
from pilothouse.api.meta import ObjectMeta
from pilothouse.client.errors import ApiError, NotFound, has_cause
from pilothouse.controllers.network.endpoints import DESCRIPTOR, EndpointsOptions
from pilothouse.controllers.network.endpoints.decide import (
    DesiredEndpoints,
    annotations_of,
    desired_endpoints,
    endpoint_subsets_equal_ignore_trigger_time,
)
from pilothouse.controllers.shared.cached_json import cached_json
from pilothouse.controllers.shared.handlers import on_any_event
from pilothouse.controllers.shared.service_pods import ServicePods
from pilothouse.controllers.shared.trigger_time_tracker import TriggerTimeTracker
from pilothouse.machinery.causes import record_decision
from pilothouse.machinery.splice import replace_fields, take_field
from pilothouse.runtime import (
    BucketLimiter,
    ControllerContext,
    EventRecorder,
    ExponentialFailureLimiter,
    ManagedController,
    MaxOfLimiter,
    Requeue,
    RetryLater,
    object_key,
    object_reference,
)
from pilothouse.runtime.controller import COALESCING_TURNS
from pilothouse.semantics.services import is_selecting
from pilothouse.semantics.subsets import Subsets, is_lock


class StaleEndpoints(RetryLater):
    """The cache has an older version than we wrote. Retried with backoff."""

    def __init__(self) -> None:
        super().__init__("Endpoints informer cache is out of date")


class _NewMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _NewEndpoints(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    api_version: str
    kind: str
    metadata: _NewMeta
    subsets: Subsets = ()


class EndpointsController(ManagedController):
    def __init__(self, context: ControllerContext) -> None:
        options = context.options_as(EndpointsOptions)
        services = context.informer(SERVICES)
        pods = context.informer(PODS)
        endpoints = context.informer(PARTIAL_ENDPOINTS)
        super().__init__(
            context,
            DESCRIPTOR.name,
            workers=options.workers,
            limiter=MaxOfLimiter[str](ExponentialFailureLimiter(0.005, 1000.0), BucketLimiter(context.env, 10.0, 100)),
            queue_name="endpoint",
            turns=COALESCING_TURNS,
        )
        self._client = context.client
        self._services = services.cache
        self._endpoints = endpoints.cache
        self._recorder = EventRecorder(context.client, context.env, "endpoint-controller")
        self.add_runnable("events", self._recorder.run)
        self._times = TriggerTimeTracker()
        self._overwritten: dict[str, str] = {}
        """The version that our last update replaced, by key."""
        on_any_event(services, lambda service: self.queue.add(object_key(service.metadata)))
        self._pods = ServicePods(services, pods, lambda key: self.queue.add_after(key, options.batch_seconds))
        endpoints.add_handler(self._on_endpoints_add, lambda _old, _new: None, self._on_endpoints_delete)

    def _on_endpoints_add(self, endpoints: PartialEndpoints, initial: bool) -> None:
        """At the start each is synced once: its service may have been deleted while no manager ran."""
        if initial and not is_lock(endpoints.metadata):
            self.queue.add(object_key(endpoints.metadata))

    def _on_endpoints_delete(self, endpoints: PartialEndpoints, _final_state_unknown: bool) -> None:
        key = object_key(endpoints.metadata)
        self._overwritten.pop(key, None)
        self.queue.add(key)

    async def reconcile(self, key: str) -> Requeue | None:
        service = self._services.get(key)
        if service is None:
            await self._forget(key)
            return None
        if not is_selecting(service):
            return None
        pods = self._pods.selected_by(service)
        # Also if nothing is written: the next change is counted from here.
        trigger_time = self._times.of(key, service, pods)
        cached = self._endpoints.get(key)
        desired = desired_endpoints(service, pods)
        if cached is None:
            await self._create(key, service, desired, trigger_time)
            return None
        if self._overwritten.get(key) == cached.metadata.resource_version:
            raise StaleEndpoints
        existing, raw = cached_json(self._endpoints, cached.metadata, ENDPOINTS)
        if not endpoint_subsets_equal_ignore_trigger_time(existing, desired):
            await self._update(key, existing, raw, desired, trigger_time)
        return None

    async def _forget(self, key: str) -> None:
        namespace, _, name = key.partition("/")
        self._times.forget(key)
        self._overwritten.pop(key, None)
        record_decision(f"Service {key} does not exist")
        try:
            await self._client.delete(ENDPOINTS, name, namespace)
        except NotFound:
            return

    async def _create(self, key: str, service: Service, desired: DesiredEndpoints, trigger_time: str) -> None:
        meta = service.metadata
        new = _NewMeta(meta.name, dict(desired.labels), annotations_of({}, desired, trigger_time))
        body = msgspec.json.encode(_NewEndpoints(ENDPOINTS.api_version, ENDPOINTS.kind, new, desired.subsets))
        record_decision(f"Service {key} has no Endpoints: created with {_counted(desired)}")
        try:
            await self._client.create(ENDPOINTS, body, meta.namespace)
        except (ApiError, OSError) as error:
            if isinstance(error, ApiError) and has_cause(error, "NamespaceTerminating"):
                return
            text = f"Failed to create endpoint for service {key}: {error}"
            self._record_event(ObjectMeta(namespace=meta.namespace, name=meta.name), "FailedToCreateEndpoint", text)
            raise

    async def _update(
        self, key: str, existing: Endpoints, raw: bytes, desired: DesiredEndpoints, trigger_time: str
    ) -> None:
        meta = existing.metadata
        annotations = annotations_of(meta.annotations, desired, trigger_time)
        body = replace_fields(
            raw,
            {
                "subsets": msgspec.json.encode(desired.subsets) if desired.subsets else None,
                "metadata.labels": msgspec.json.encode(desired.labels),
                "metadata.annotations": msgspec.json.encode(annotations) if annotations else None,
                "metadata.managedFields": None,
            },
        )
        record_decision(f"the Endpoints of Service {key} differ from its pods: they get {_counted(desired)}")
        try:
            response = await self._client.update(ENDPOINTS.raw, meta.name, body, meta.namespace)
        except (ApiError, OSError) as error:
            self._record_event(meta, "FailedToUpdateEndpoint", f"Failed to update endpoint {key}: {error}")
            raise
        version = take_field(response, "metadata.resourceVersion")
        if version is not None and bytes(version).decode().strip('"') != meta.resource_version:
            self._overwritten[key] = meta.resource_version

    def _record_event(self, reference: ObjectMeta, reason: str, message: str) -> None:
        self._recorder.event(object_reference(ENDPOINTS, reference), "Warning", reason, message)


def _counted(desired: DesiredEndpoints) -> str:
    ready = sum(len(subset.addresses) for subset in desired.subsets)
    not_ready = sum(len(subset.not_ready_addresses) for subset in desired.subsets)
    return f"{ready} ready and {not_ready} not ready addresses"


build = EndpointsController
