"""Sets the condition ``Available`` of APIServices.

After kube-aggregator's ``pkg/controllers/status/{local,remote}`` (v0.36). This server does not proxy requests, so a
remote APIService that passes all of upstream's checks is still unavailable.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pilothouse.apiserver.conditions import LOCAL, set_condition
from pilothouse.apiserver.controllers.derived_objects import DerivedObjectsController
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode, readable_records, stage_object
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.storage import Change, Mismatch, Record, Staged
from pilothouse.storage.unreadable import is_readable

_GROUP = "apiregistration.k8s.io"
_RESOURCE = "apiservices"
_KEYS = storage_prefix(_GROUP, _RESOURCE)
_SERVICES = storage_prefix("", "services")
_ENDPOINT_SLICES = storage_prefix("discovery.k8s.io", "endpointslices")
_SERVICE_NAME = "kubernetes.io/service-name"


class Condition(NamedTuple):
    """The condition without its transition time."""

    is_true: bool
    reason: str
    message: str


def available_condition(spec: Object, service: Object | None, slices: Iterable[Object]) -> Condition:
    """The condition of an APIService with this spec; ``service`` is the Service it refers to, ``slices`` are the
    EndpointSlices of that Service."""
    target: Object | None = spec.get("service")
    if target is None:
        return Condition(*LOCAL)
    name, namespace = target.get("name") or "", target.get("namespace") or ""
    service_text = f'service/{name} in "{namespace}"'
    if service is None:
        return Condition(False, "ServiceNotFound", f"{service_text} is not present")
    if (service["spec"].get("type") or "ClusterIP") == "ClusterIP":
        target_port = target.get("port") or 443
        ports = [
            port.get("name") or "" for port in service["spec"].get("ports") or () if port.get("port") == target_port
        ]
        if not ports:
            return Condition(False, "ServicePortError", f"{service_text} is not listening on port {target_port}")
        endpoint_slices = list(slices)
        if not endpoint_slices:
            return Condition(False, "EndpointsNotFound", f"cannot find endpointslices for {service_text}")
        if not any(_has_endpoint(endpoint_slice, ports[0]) for endpoint_slice in endpoint_slices):
            reason = f'endpointslices for {service_text} have no addresses with port name "{ports[0]}"'
            return Condition(False, "MissingEndpoints", reason)
    return Condition(
        False, "FailedDiscoveryCheck", f"this API server does not proxy requests, including those to {service_text}"
    )


def _has_endpoint(endpoint_slice: Object, port_name: str) -> bool:
    ready = any(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for endpoint in endpoint_slice.get("endpoints") or ()
    )
    ports = endpoint_slice.get("ports") or ()
    return ready and any((port.get("name") or "") == port_name and port.get("port") is not None for port in ports)


class AvailableConditionController(DerivedObjectsController):
    """Syncs the conditions when an APIService, or the Service or EndpointSlices of a remote one, change."""

    reason = "the Services of the APIServices, and their responses, determine which are available"

    def __init__(self, core: Core) -> None:
        super().__init__(core)
        self._info = core.table.built_in(_GROUP, _RESOURCE)
        self._has_remote = False
        core.store.follow(_KEYS, self.notify)
        core.store.follow(_SERVICES, self._notify_for_remote)
        core.store.follow(_ENDPOINT_SLICES, self._notify_for_remote)

    def _notify_for_remote(self, changes: Sequence[Change]) -> None:
        # Services change often, and few are backends of APIServices.
        if self._has_remote:
            self.notify(changes)

    def stage(self) -> Staged | None:
        staged = None
        self._has_remote = False
        available: dict[str, bool] = {}
        for record in readable_records(self._core.store, _KEYS):
            obj = decode(record.value)
            target = obj["spec"].get("service")
            service, slices = None, list[Object]()
            if target is not None:
                self._has_remote = True
                service, slices = self._service_and_slices(target.get("namespace") or "", target.get("name") or "")
            condition = available_condition(obj["spec"], service, slices)
            available[obj["metadata"]["name"]] = condition.is_true
            staged = self._update_status(record, obj, condition) or staged
        if self._core.metrics is not None:
            self._core.metrics.aggregation.show(available)
        return staged

    def _service_and_slices(self, namespace: str, name: str) -> tuple[Object | None, list[Object]]:
        store = self._core.store
        record = store.staged(f"{_SERVICES}{namespace}/{name}")
        namespace_slices = [
            decode(slice_record.value) for slice_record in readable_records(store, f"{_ENDPOINT_SLICES}{namespace}/")
        ]
        slices = [
            endpoint_slice
            for endpoint_slice in namespace_slices
            if (endpoint_slice["metadata"].get("labels") or {}).get(_SERVICE_NAME) == name
        ]
        return None if record is None or not is_readable(record.value) else decode(record.value), slices

    def _update_status(self, record: Record, obj: Object, condition: Condition) -> Staged | None:
        old_status: Object = obj.get("status") or {}
        status = dict(old_status)
        was_available = _is_available(old_status)
        set_condition(
            status, self._core.time.now(), "Available", condition.is_true, condition.reason, condition.message
        )
        if status == old_status:
            return None
        obj["status"] = status
        self._core.managed_fields.update_on_server_update(self._info, record.value, obj, "status")
        try:
            staged = stage_object(self._core.store, self._info, record.key, obj, expected=record.revision)
        except Mismatch:
            return None  # a concurrent write; its commit triggers the next sync
        if was_available and not condition.is_true and self._core.metrics is not None:
            self._core.metrics.aggregation.became_unavailable(obj["metadata"]["name"], condition.reason)
        return staged


def _is_available(status: Object) -> bool:
    return any(
        condition["type"] == "Available" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
