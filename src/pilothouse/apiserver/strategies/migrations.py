"""StorageVersionMigrations: which resource is to be written anew, and how far that is.

After kubernetes' ``pkg/apis/storagemigration/validation`` and ``pkg/registry/storagemigration`` (v1.36).
"""

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.conditions import condition_problems
from pilothouse.apiserver.strategies.filling import IMMUTABLE
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors
from pilothouse.machinery.resource_versions import compare


class MigrationStrategy(Strategy):
    """``storagemigration.k8s.io/v1beta1`` StorageVersionMigrations: the wish never changes, what is said of it only
    goes forward."""

    has_status = True

    def validate(self, obj: Object) -> list[FieldError]:
        wanted = (obj.get("spec") or {}).get("resource") or {}
        resource, group = wanted.get("resource") or "", wanted.get("group") or ""
        problems: list[FieldError] = []
        if not resource:
            problems.append(errors.required("spec.resource.resource", "resource is required to be set"))
        else:
            told = dns_1035_label_errors(resource)
            if told:
                problems.append(errors.invalid_value("spec.resource.resource", resource, ",".join(told)))
        told = dns_subdomain_errors(group) if group else []
        if told:
            problems.append(errors.invalid_value("spec.resource.group", group, ",".join(told)))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        problems = self.validate_again(obj)
        if obj.get("spec") != old.get("spec"):
            problems.append(errors.invalid_value("spec", obj.get("spec"), IMMUTABLE))
        return problems

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        # That a migration which is over still counts as running is allowed since v1.36: whoever admits one after the
        # other takes note of the end first.
        status, before = obj.get("status") or {}, old.get("status") or {}
        version, known = status.get("resourceVersion") or "", before.get("resourceVersion") or ""
        problems: list[FieldError] = []
        if version and compare(version, version) is None:
            told = f"resource version is not well formed: {version}"
            problems.append(errors.invalid_value("status.resourceVersion", version, told))
        conditions = status.get("conditions") or []
        problems += condition_problems(conditions, "status.conditions")
        if known and version != known:
            problems.append(errors.invalid_value("status.resourceVersion", version, IMMUTABLE))
        if _holds(status, "Succeeded") and _holds(status, "Failed"):
            told = "Both success and failed conditions cannot be true at the same time"
            problems.append(errors.invalid_value("status.conditions", conditions, told))
        for type_, name in (("Succeeded", "Success"), ("Failed", "Failed")):
            if _holds(before, type_) and not _holds(status, type_):
                told = f"{name} condition cannot be set to false once it is true"
                problems.append(errors.invalid_value("status.conditions", conditions, told))
        return problems


def _holds(status: Object, type_: str) -> bool:
    return any(one.get("type") == type_ and one.get("status") == "True" for one in status.get("conditions") or ())
