"""Which updates of an object can decrease the usage. Pure. Deletions always do.

Upstream: v1.36 ``pkg/quota/v1/install/update_filter.go`` and the evaluators in ``pkg/quota/v1/evaluator/core``.
"""

import datetime
from collections.abc import Callable
from typing import Any

import msgspec

from pilothouse.api.core import ContainerStatus, PersistentVolumeClaim, Pod, ResourceRequirements, Service
from pilothouse.api.meta import View
from pilothouse.semantics.pod_amounts import Json, amounts
from pilothouse.semantics.quota import attribute_classes, has_ended, in_terminating_scope

UpdateFilter = Callable[[Any, Any, datetime.datetime], bool]
"""Whether an update, from the first to the second object, matters."""


def as_json(view: View) -> Json:
    """An object as evaluators read it."""
    builtins: Json = msgspec.to_builtins(view)
    return builtins


def has_pod_quota_changed(old: Pod, new: Pod, now: datetime.datetime) -> bool:
    """Its allocated resources or its scope have changed, or it has finished."""
    if _have_allocated_resources_changed(old, new):
        return True
    previous, after = as_json(old), as_json(new)
    if in_terminating_scope(previous) != in_terminating_scope(after):
        return True
    return not has_ended(previous, now) and has_ended(after, now)


def _have_allocated_resources_changed(old: Pod, new: Pod) -> bool:
    """Only of containers that had a status before (``hasResourcesChanged``): the first status of a container repeats
    what the spec requests."""
    after = _allocated_resources(new)
    return any(name in after and after[name] != resources for name, resources in _allocated_resources(old).items())


def _allocated_resources(pod: Pod) -> dict[str, ResourceRequirements | None]:
    statuses: tuple[ContainerStatus, ...] = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return {status.name: status.resources for status in statuses}


def has_service_quota_changed(old: Service, new: Service, _now: datetime.datetime) -> bool:
    """It uses node ports or a load balancer now, or no longer."""
    return _is_quota_tracked_type(old) != _is_quota_tracked_type(new)


def _is_quota_tracked_type(service: Service) -> str:
    return service.spec.type if service.spec.type in ("NodePort", "LoadBalancer") else ""


def has_claim_quota_changed(old: PersistentVolumeClaim, new: PersistentVolumeClaim, _now: datetime.datetime) -> bool:
    """Its allocated storage or its VolumeAttributesClass has changed."""
    previous, after = (amounts(claim.status.allocated_resources).get("storage") for claim in (old, new))
    return previous != after or attribute_classes(as_json(old)) != attribute_classes(as_json(new))


def never(_old: object, _new: object, _now: datetime.datetime) -> bool:
    """For resources that are only counted."""
    return False


UPDATE_FILTERS: dict[tuple[str, str], UpdateFilter] = {
    ("", "pods"): has_pod_quota_changed,
    ("", "services"): has_service_quota_changed,
    ("", "persistentvolumeclaims"): has_claim_quota_changed,
}
