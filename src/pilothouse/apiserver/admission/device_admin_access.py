"""``adminAccess`` to devices: allowed only in namespaces with the label ``resource.kubernetes.io/admin-access``.

After ``AuthorizedForAdmin`` and ``AuthorizedForAdminStatus`` in kubernetes' ``pkg/registry/resource`` (v1.36). There
they are part of the validation, so the error is a 422.
"""

from collections.abc import Sequence

from pilothouse.apiserver import errors, field_errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import storage_prefix
from pilothouse.storage import Store

_LABEL = "resource.kubernetes.io/admin-access"
_NAMESPACES = storage_prefix("", "namespaces")
_DETAIL = f"admin access to devices requires the `{_LABEL}: true` label on the containing namespace"


class DeviceAdminAccess(Plugin):
    """Validates new claims and templates, and status updates that allocate devices with ``adminAccess``."""

    resources = frozenset({"resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def validate(self, write: AdmissionAttributes) -> None:
        if write.obj is None:
            return
        path = _admin_access_status_path(write.obj, write.old or {}) if write.subresource == "status" else ""
        if write.old is None:
            path = _admin_access_path(write.obj)
        if path and not self._has_admin_access_label(write.namespace):
            name = str(write.obj["metadata"].get("name") or "")
            error = field_errors.forbidden(f"{path}.adminAccess", _DETAIL)
            raise errors.invalid(write.info.group, write.info.kind, name, [error])

    def _has_admin_access_label(self, namespace: str) -> bool:
        record = self._store.staged(_NAMESPACES + namespace)
        labels = (decode(record.value)["metadata"].get("labels") or {}) if record is not None else {}
        return bool(labels.get(_LABEL) == "true")


def _admin_access_path(obj: Object) -> str:
    """The path of the first request with ``adminAccess``, which upstream reports alike for claims and templates."""
    spec = obj.get("spec") or {}
    spec = spec.get("spec") or spec
    exact_requests = [request.get("exactly") or {} for request in (spec.get("devices") or {}).get("requests") or ()]
    return _first_admin_access(exact_requests, "spec.devices.requests")


def _admin_access_status_path(obj: Object, old: Object) -> str:
    if _first_admin_access(_results(old), "status"):
        return ""
    return _first_admin_access(_results(obj), "status.allocation.devices.results")


def _results(obj: Object) -> Sequence[Object]:
    allocation = (obj.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or ()


def _first_admin_access(items: Sequence[Object], path: str) -> str:
    return next((f"{path}[{position}]" for position, item in enumerate(items) if item.get("adminAccess")), "")
