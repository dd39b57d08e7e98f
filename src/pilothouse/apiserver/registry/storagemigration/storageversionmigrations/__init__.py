"""StorageVersionMigrations.

After kubernetes' ``pkg/apis/storagemigration/validation`` and ``pkg/registry/storagemigration`` (v1.36).
"""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_conditions
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors
from pilothouse.machinery.resource_versions import compare

_CONDITIONS = "[]meta.Condition"


class StorageVersionMigrationStrategy(Strategy):
    """``storagemigration.k8s.io/v1beta1`` StorageVersionMigrations. The spec is immutable; terminal conditions and the
    resource version stay once they are set."""

    allow_unconditional_update = False
    has_status = True
    update_steps = ("object meta", "object", "object meta update", "update")

    def validate(self, obj: Object) -> ErrorList:
        reference = (obj.get("spec") or {}).get("resource") or {}
        resource, group = reference.get("resource") or "", reference.get("group") or ""
        errors: ErrorList = []
        if not resource:
            errors.append(required("spec.resource.resource", "resource is required to be set"))
        else:
            msgs = dns_1035_label_errors(resource)
            if msgs:
                errors.append(invalid("spec.resource.resource", resource, ",".join(msgs)))
        msgs = dns_subdomain_errors(group) if group else []
        if msgs:
            errors.append(invalid("spec.resource.group", group, ",".join(msgs)))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        if obj.get("spec") == old.get("spec"):
            return []
        bad_value = internal_value("storagemigration.StorageVersionMigrationSpec", obj.get("spec"))
        return [invalid("spec", bad_value, IMMUTABLE)]

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        # Since v1.36 a terminal condition and Running may be true at the same time.
        status, old_status = obj.get("status") or {}, old.get("status") or {}
        version, old_version = status.get("resourceVersion") or "", old_status.get("resourceVersion") or ""
        errors: ErrorList = []
        if version and compare(version, version) is None:
            errors.append(invalid("status.resourceVersion", version, f"resource version is not well formed: {version}"))
        conditions = status.get("conditions") or []
        errors += validate_conditions(conditions, "status.conditions")
        if old_version and version != old_version:
            errors.append(invalid("status.resourceVersion", version, IMMUTABLE))
        if _is_condition_true(status, "Succeeded") and _is_condition_true(status, "Failed"):
            detail = "Both success and failed conditions cannot be true at the same time"
            errors.append(invalid("status.conditions", internal_value(_CONDITIONS, conditions), detail))
        for type_, name in (("Succeeded", "Success"), ("Failed", "Failed")):
            if _is_condition_true(old_status, type_) and not _is_condition_true(status, type_):
                detail = f"{name} condition cannot be set to false once it is true"
                errors.append(invalid("status.conditions", internal_value(_CONDITIONS, conditions), detail))
        return errors


def _is_condition_true(status: Object, type_: str) -> bool:
    return any(
        condition.get("type") == type_ and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )


REGISTRATION = Registration(
    StorageVersionMigrationStrategy(),
)
