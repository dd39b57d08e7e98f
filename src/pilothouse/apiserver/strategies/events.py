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
        involved = obj.get("involvedObject") or {}
        namespace = involved.get("namespace") or ""
        if obj.get("eventTime"):
            return _new_style_problems(obj)
        if namespace != obj["metadata"].get("namespace") and not (
            not namespace and obj["metadata"].get("namespace") == "default"
        ):
            return [errors.invalid_value("involvedObject.namespace", namespace, "does not match event.namespace")]
        return []

    def refuses_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def _new_style_problems(obj: Object) -> list[FieldError]:
    problems: list[FieldError] = []
    if not (obj.get("involvedObject") or {}).get("namespace") and obj["metadata"].get("namespace") not in _SYSTEM:
        problems.append(errors.invalid_value("involvedObject.namespace", "", "does not match event.namespace"))
    for field, shown, limit in (
        ("reportingComponent", "reportingController", 0),
        ("reportingInstance", "reportingInstance", 128),
        ("action", "action", 128),
        ("reason", "reason", 128),
    ):
        value = obj.get(field) or ""
        if not value:
            problems.append(errors.required(shown))
        elif limit and len(value) > limit:
            problems.append(errors.invalid_value(shown, "", f"can have at most {limit} characters"))
    if len(obj.get("message") or "") > 1024:
        problems.append(errors.invalid_value("message", "", "can have at most 1024 characters"))
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
    name_problems = staticmethod(no_name_problems)

    def finish(self, obj: Object) -> None:
        # As it will be read back, so that an update that changes nothing is seen to.
        obj.setdefault("deprecatedSource", {})
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"):
            obj.setdefault(field, None)
        for field in ("reportingController", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: Object) -> list[FieldError]:
        problems: list[FieldError] = []
        if not obj.get("eventTime"):
            problems.append(errors.required("eventTime"))
        if obj.get("type") not in ("Normal", "Warning"):
            problems.append(errors.invalid_value("type", "", f"has invalid value: {obj.get('type') or ''}"))
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource"):
            if obj.get(field):
                problems.append(errors.invalid_value(field, "", "needs to be unset"))
        return problems + _new_style_problems(_renamed(obj, _TO_CORE))

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if not old.get("eventTime"):
            return []
        changed = [
            name
            for name in {**obj, **old}
            if name not in ("metadata", "series", "kind", "apiVersion")
            and (obj.get(name) or None) != (old.get(name) or None)
        ]
        return [errors.invalid_value(name, obj.get(name), "field is immutable") for name in changed]

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
