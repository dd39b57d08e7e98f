"""LimitRanges."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.printers import NAME_AND_CREATION
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.quantities import canonicalize

with lazy_imports():
    from pilothouse.apiserver.registry.core.limitranges import validation as limit_range_validation


class LimitRangeStrategy(Strategy):
    """LimitRanges. For containers, ``default`` defaults to ``max``, ``defaultRequest`` to ``default`` and ``min``."""

    allow_create_on_update = True
    update_steps = ("object meta", "object")

    def set_defaults(self, obj: Object) -> None:
        set_defaults_limit_range(obj)

    def canonicalize(self, obj: Object) -> None:
        obj["spec"].setdefault("limits", None)  # serialized even if it is empty

    def prepare_for_create(self, obj: Object, now: str) -> None:
        meta = obj["metadata"]
        if not meta.get("name"):
            # Upstream also generates a uid as name (pkg/registry/core/limitrange/strategy.go, v1.36).
            meta["name"] = meta["uid"]

    def validate(self, obj: Object) -> ErrorList:
        return limit_range_validation.validate_limit_range(obj)


def set_defaults_limit_range(obj: Object) -> None:
    for item in ensure_object(obj, "spec").get("limits") or ():
        for field in limit_range_validation.QUANTITY_FIELDS:
            canonicalize(item.get(field))
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        for field, quantities in (("default", default), ("defaultRequest", request)):
            if quantities:
                item[field] = {name: quantities[name] for name in sorted(quantities)}


REGISTRATION = Registration(
    LimitRangeStrategy(),
    printer=lambda: NAME_AND_CREATION,
)
