"""Events: one kind of object under two groups, stored as core v1.

After kubernetes' ``pkg/apis/core/validation/events.go`` and ``pkg/apis/events/v1/conversion.go`` (v1.36).
"""

from functools import lru_cache
from typing import Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object, decode, encode_object
from pilothouse.apiserver.resources import ResourceInfo, built_in
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.filling import IMMUTABLE
from pilothouse.machinery.names import dns_subdomain_errors, qualified_name_errors


def no_name_problems(_name: str) -> list[str]:
    """Events are named by whoever reports them; a name only has to fit into a path, which is asked of all."""
    return []


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_SYSTEM = ("default", "kube-system")
_FIXED = (
    *("involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type"),
    *("eventTime", "action", "related", "reportingComponent", "reportingInstance"),
)
"""What no update through the newer API may change, in upstream's order, which names one twice."""
_SHOWN = {"reportingComponent": "reportingController"}
_FROM_CORE = {core: event for event, core in _TO_CORE.items()}


class CoreEventStrategy(Strategy):
    """``v1`` events."""

    garbage_collected = False
    selectable = {  # read only
        **{f"involvedObject.{field}": ("involvedObject", field) for field in _REFERENCE},
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source", "component"),
        "type": ("type",),
    }
    name_problems = staticmethod(no_name_problems)

    def finish(self, obj: Object) -> None:
        obj.setdefault("source", {})
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(field, None)
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: Object) -> list[FieldError]:
        return _common_problems(obj)

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def _common_problems(obj: Object) -> list[FieldError]:
    """What is wrong with an event, whatever its version, as ``v1`` has it (``legacyValidateEvent``)."""
    involved, namespace = obj.get("involvedObject") or {}, obj["metadata"].get("namespace") or ""
    place = involved.get("namespace") or ""
    elsewhere = errors.invalid_value("involvedObject.namespace", place, "does not match event.namespace")
    if not obj.get("eventTime"):
        fits = place == namespace or (not place and namespace == "default")
        return [] if fits else [elsewhere]
    problems: list[FieldError] = []
    if not place and namespace not in _SYSTEM:
        problems.append(elsewhere)
    controller = obj.get("reportingComponent") or ""
    if not controller:
        problems.append(errors.required("reportingController"))
    told = qualified_name_errors(controller)
    problems += [errors.invalid_value("reportingController", controller, text) for text in told]
    for field in ("reportingInstance", "action", "reason"):
        value = obj.get(field) or ""
        if not value:
            problems.append(errors.required(field))
        if len(value.encode()) > 128:
            problems.append(errors.invalid_value(field, "", "can have at most 128 characters"))
    if len((obj.get("message") or "").encode()) > 1024:
        problems.append(errors.invalid_value("message", "", "can have at most 1024 characters"))
    return problems


def _series_problems(series: Object | None) -> list[FieldError]:
    if series is None:
        return []
    problems: list[FieldError] = []
    if (series.get("count") or 0) < 2:
        problems.append(errors.invalid_value("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        problems.append(errors.required("series.lastObservedTime"))
    return problems


@lru_cache(maxsize=1)
def _core() -> ResourceInfo:
    return next(info for info in built_in() if info.resource == "events" and not info.group)


class EventStrategy(Strategy):
    """``events.k8s.io/v1`` events: the same objects, with other names for some fields."""

    group_in_errors = ""  # they are core events by then
    garbage_collected = False
    # Read from the stored form, so the paths are those of v1.
    selectable = {  # read only
        **{f"regarding.{field}": ("involvedObject", field) for field in _REFERENCE},
        "reason": ("reason",),
        "reportingController": ("reportingComponent",),
        "type": ("type",),
    }
    name_problems = staticmethod(dns_subdomain_errors)

    def finish(self, obj: Object) -> None:
        # As it will be read back, so that an update that changes nothing is seen to.
        obj.setdefault("deprecatedSource", {})
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"):
            obj.setdefault(field, None)
        for field in ("reportingController", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: Object) -> list[FieldError]:
        problems = _common_problems(_renamed(obj, _TO_CORE)) + _series_problems(obj.get("series"))
        if not obj.get("eventTime"):
            problems.append(errors.required("eventTime"))
        if obj.get("type") not in ("Normal", "Warning"):
            problems.append(errors.invalid_value("type", "", f"has invalid value: {obj.get('type') or ''}"))
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource"):
            if obj.get(field):
                problems.append(errors.invalid_value(_TO_CORE[field], "", "needs to be unset"))
        return problems

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        now, before = _renamed(obj, _TO_CORE), _renamed(old, _TO_CORE)
        problems = _common_problems(now)
        if now.get("series") != before.get("series"):
            problems += _series_problems(now.get("series"))
        problems += [
            errors.invalid_value(_SHOWN.get(field, field), now.get(field), IMMUTABLE)
            for field in _FIXED
            if (now.get(field) or None) != (before.get(field) or None)
        ]
        return problems

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return _core()

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        stored = _renamed(obj, _TO_CORE)
        stored.pop("kind", None)
        stored.pop("apiVersion", None)
        CoreEventStrategy().finish(stored)
        return stored

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        shown = _renamed(decode(value), _FROM_CORE)
        del shown["kind"], shown["apiVersion"]
        return encode_object(info, shown)

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def _renamed(obj: Object, names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in obj.items()}
