"""PersistentVolumeClaims."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.quantities import canonicalize

with lazy_imports():
    from pilothouse.apiserver.registry.core.persistentvolumeclaims import printers as persistent_volume_claim_printers
    from pilothouse.apiserver.registry.core.persistentvolumeclaims import (
        validation as persistent_volume_claim_validation,
    )
    from pilothouse.apiserver.registry.core.persistentvolumeclaims import warnings as claim_warnings


class PersistentVolumeClaimStrategy(Strategy):
    return_deleted_object = True
    update_steps = ("object meta update", "object meta", "object", "update")

    def defaulted_when_read(self, obj: Object) -> bool:
        return True  # status.phase: a create stores an empty status

    def set_defaults(self, obj: Object) -> None:
        set_defaults_persistent_volume_claim(obj)

    def prepare_for_create(self, obj: Object, now: str) -> None:
        obj["status"] = {"phase": "Pending"}
        _prepare_data_sources(obj["spec"], {})

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        _prepare_data_sources(obj["spec"], old["spec"])

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        status = ensure_object(obj, "status")
        canonicalize(status.get("capacity"))
        canonicalize(status.get("allocatedResources"))

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return claim_warnings.warnings_for_persistent_volume_claim(obj)

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        return persistent_volume_claim_validation.validate_persistent_volume_claim_spec(obj["spec"], "spec")

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return persistent_volume_claim_validation.validate_persistent_volume_claim_on_update(obj, old)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return persistent_volume_claim_validation.validate_persistent_volume_claim_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return persistent_volume_claim_validation.validate_persistent_volume_claim_status_update(obj, old)


def set_defaults_persistent_volume_claim(obj: Object) -> None:
    set_default_fields(ensure_object(obj, "status"), {"phase": "Pending"})
    spec = ensure_object(obj, "spec")
    set_default_fields(spec, {"volumeMode": "Filesystem"})
    resources = ensure_object(spec, "resources")
    for resource_list in (resources.get("requests"), resources.get("limits")):
        canonicalize(resource_list)
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field) is not None:
            spec[field].setdefault("apiGroup", None)  # serialized even if it is not set


_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
"""(group, kind) of the sources that ``dataSource`` allows."""


def _prepare_data_sources(spec: Object, old_spec: Object) -> None:
    """Drop ``dataSourceRef`` with a namespace (gate CrossNamespaceVolumeDataSource) and unsupported ``dataSource``,
    unless they are stored already; then copy each field to the other (``pkg/registry/core/persistentvolumeclaim``)."""
    if (spec.get("dataSourceRef") or {}).get("namespace") and old_spec.get("dataSourceRef") is None:
        del spec["dataSourceRef"]
    data_source, data_source_ref = spec.get("dataSource"), spec.get("dataSourceRef")
    is_supported = data_source is None or (data_source.get("apiGroup") or "", data_source.get("kind")) in _SOURCES
    if (
        data_source_ref is None
        and not is_supported
        and old_spec.get("dataSource") is old_spec.get("dataSourceRef") is None
    ):
        data_source = None
        del spec["dataSource"]
    if data_source is not None and data_source_ref is None:
        spec["dataSourceRef"] = dict(data_source)
    elif data_source_ref is not None and data_source is None and not data_source_ref.get("namespace"):
        spec["dataSource"] = {name: value for name, value in data_source_ref.items() if name != "namespace"}


REGISTRATION = Registration(
    PersistentVolumeClaimStrategy(),
    printer=lambda: persistent_volume_claim_printers.PRINTER,
)
