"""Events of the core group. Events of the group ``events.k8s.io`` are the same objects, stored as core Events."""

from functools import lru_cache
from typing import Any

from pilothouse.apiserver.field_errors import ErrorList, invalid, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.printers import Column, Doc, Now, Printer, Row, age, columns, name_of, wide
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import ResourceInfo, built_in
from pilothouse.machinery.names import qualified_name_errors


def no_name_errors(_name: str) -> list[str]:
    """Accepts any name: names of Events need only be valid path segments."""
    return []


REFERENCE_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_SYSTEM_NAMESPACES = ("default", "kube-system")
NAMES_IN_ERRORS = {"reportingComponent": "reportingController"}
FROM_CORE = {core: event for event, core in TO_CORE.items()}


class CoreEventStrategy(Strategy):
    """``v1`` events."""

    allow_create_on_update = True
    create_steps = ("object",)  # in addition to the validation common to all kinds
    update_steps = ("object",)
    garbage_collected = False
    selectable = {  # read only
        **{f"involvedObject.{field}": ("involvedObject", field) for field in REFERENCE_FIELDS},
        "reason": ("reason",),
        "reportingComponent": ("reportingComponent",),
        "source": ("source", "component"),
        "type": ("type",),
    }
    selectable_fallbacks = {"source": ("reportingComponent",)}  # read only
    validate_name = staticmethod(no_name_errors)

    def canonicalize(self, obj: Object) -> None:
        obj.setdefault("source", {})
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
            obj.setdefault(field, None)
        for field in ("reportingComponent", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: Object) -> ErrorList:
        return legacy_validate_event(obj, controller="reportingComponent")

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"


def legacy_validate_event(obj: Object, *, controller: str) -> ErrorList:
    """``legacyValidateEvent`` for an Event in the form of core/v1. ``controller`` is the name of the field
    ``reportingComponent`` in the version of the request."""
    involved_object, namespace = obj.get("involvedObject") or {}, obj["metadata"].get("namespace") or ""
    involved_namespace = involved_object.get("namespace") or ""
    mismatch = invalid("involvedObject.namespace", involved_namespace, "does not match event.namespace")
    if not obj.get("eventTime"):
        matches = involved_namespace == namespace or (not involved_namespace and namespace == "default")
        return [] if matches else [mismatch]
    errors: ErrorList = []
    if not involved_namespace and namespace not in _SYSTEM_NAMESPACES:
        errors.append(mismatch)
    name = obj.get("reportingComponent") or ""
    if not name:
        errors.append(required(controller))
    errors += [invalid(controller, name, msg) for msg in qualified_name_errors(name)]
    for field in ("reportingInstance", "action", "reason"):
        value = obj.get(field) or ""
        if not value:
            errors.append(required(field))
        if len(value.encode()) > 128:
            errors.append(invalid(field, "", "can have at most 128 characters"))
    if len((obj.get("message") or "").encode()) > 1024:
        errors.append(invalid("message", "", "can have at most 1024 characters"))
    return errors


def validate_series(series: Object | None) -> ErrorList:
    if series is None:
        return []
    errors: ErrorList = []
    if (series.get("count") or 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


@lru_cache(maxsize=1)
def core_events() -> ResourceInfo:
    return next(info for info in built_in() if info.resource == "events" and not info.group)


def rename_fields(obj: Object, names: dict[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in obj.items()}


def print_event(value: Doc, now: Now) -> Row:
    # events.k8s.io/v1 has the same fields with other names: regarding, note, deprecated*.
    first_seen = value.get("firstTimestamp") or value.get("deprecatedFirstTimestamp") or value.get("eventTime")
    last_seen = value.get("lastTimestamp") or value.get("deprecatedLastTimestamp")
    series = value.get("series") or {}
    last_seen = series.get("lastObservedTime") or last_seen or first_seen
    regarding = value.get("involvedObject") or value.get("regarding") or {}
    source = value.get("source") or value.get("deprecatedSource") or {}
    component = source.get("component") or value.get("reportingComponent") or value.get("reportingController") or ""
    host = source.get("host") or value.get("reportingInstance") or ""
    return [
        age(last_seen, now),
        value.get("type", ""),
        value.get("reason", ""),
        f"{regarding.get('kind', '').lower()}/{regarding.get('name', '')}",
        regarding.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (value.get("message") or value.get("note") or "").strip(),
        age(first_seen, now),
        series.get("count") or value.get("count") or value.get("deprecatedCount") or 1,
        name_of(value),
    ]


REGISTRATION = Registration(
    CoreEventStrategy(),
    printer=lambda: Printer(
        (
            *columns("Last Seen", "Type", "Reason", "Object"),
            *wide("Subobject", "Source"),
            *columns("Message"),
            *wide("First Seen", "Count"),
            Column("Name", format="name", priority=1),
        ),
        print_event,
    ),
)
