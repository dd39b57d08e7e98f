"""ResourceQuotas."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Doc, Now, Printer, Row, columns, nested_field
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.quantities import canonicalize, parse_quantity

with lazy_imports():
    from pilothouse.apiserver.registry.core.resourcequotas import validation as resource_quota_validation


class ResourceQuotaStrategy(Strategy):
    """``v1`` ResourceQuotas. Scopes are immutable."""

    return_deleted_object = True

    def set_defaults(self, obj: Object) -> None:
        set_defaults_resource_quota(obj)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        hard = obj["spec"].get("hard") or {}
        for resource in ("cpu", "memory", "ephemeral-storage"):
            request, limit = f"requests.{resource}", f"limits.{resource}"
            if request not in hard and resource != "ephemeral-storage":
                request = resource
            if request in hard and limit in hard and parse_quantity(hard[request]) > parse_quantity(hard[limit]):
                yield f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})"

    def validate(self, obj: Object) -> ErrorList:
        return resource_quota_validation.validate_resource_quota(obj)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return resource_quota_validation.validate_resource_quota_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return resource_quota_validation.validate_resource_quota_status_update(obj, old)


def set_defaults_resource_quota(obj: Object) -> None:
    canonicalize(ensure_object(obj, "spec").get("hard"))


def print_resource_quota(value: Doc, now: Now) -> Row:
    hard, used = nested_field(value, "status", "hard") or {}, nested_field(value, "status", "used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        (limits if name.startswith("limits.") else requests).append(f"{name}: {used.get(name, '0')}/{hard[name]}")
    return [", ".join(requests), ", ".join(limits)]


REGISTRATION = Registration(
    ResourceQuotaStrategy(),
    printer=lambda: Printer((NAME, *columns("Request", "Limit"), AGE), print_resource_quota),
)
