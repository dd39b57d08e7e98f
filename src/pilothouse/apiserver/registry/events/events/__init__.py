"""Events of the group ``events.k8s.io``: the objects of core/v1 in another form."""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, required
from pilothouse.apiserver.objects import Object, decode, encode_object
from pilothouse.apiserver.registry.core.events import (
    FROM_CORE,
    REFERENCE,
    SHOWN,
    TO_CORE,
    CoreEventStrategy,
    core,
    print_event,
    renamed,
    validate_legacy,
    validate_series,
)
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE
from pilothouse.apiserver.registry.generic.printers import Column, Printer, columns, wide
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.names import dns_subdomain_errors

_FIXED = (
    ("involvedObject", "core.ObjectReference"),
    ("reason", "string"),
    ("message", "string"),
    ("source", "core.EventSource"),
    ("firstTimestamp", "time"),
    ("lastTimestamp", "time"),
    ("count", "int"),
    ("reason", "string"),
    ("type", "string"),
    ("eventTime", "microtime"),
    ("action", "string"),
    ("related", "*core.ObjectReference"),
    ("reportingComponent", "string"),
    ("reportingInstance", "string"),
)
"""What no update through the newer API may change with its type, in upstream's order, which names one twice."""


class EventStrategy(Strategy):
    """``events.k8s.io/v1`` events: the same objects, with other names for some fields."""

    allow_create_on_update = True
    create_steps = ("object", "object meta", "more")
    update_steps = ("object", "object meta update", "update")
    group_in_errors = ""  # they are core events by then
    garbage_collected = False
    # Read from the stored form, so the paths are those of v1.
    selectable = {  # read only
        **{f"regarding.{field}": ("involvedObject", field) for field in REFERENCE},
        "reason": ("reason",),
        "reportingController": ("reportingComponent",),
        "type": ("type",),
    }
    validate_name = staticmethod(dns_subdomain_errors)

    def canonicalize(self, obj: Object) -> None:
        # As it will be read back, so that an update that changes nothing is seen to.
        obj.setdefault("deprecatedSource", {})
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"):
            obj.setdefault(field, None)
        for field in ("reportingController", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: Object) -> ErrorList:
        return validate_legacy(renamed(obj, TO_CORE), controller="reportingController")

    def validate_more(self, obj: Object) -> ErrorList:
        errors = validate_series(obj.get("series"))
        if not obj.get("eventTime"):
            errors.append(required("eventTime"))
        if obj.get("type") not in ("Normal", "Warning"):
            errors.append(invalid("type", "", f"has invalid value: {obj.get('type') or ''}"))
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedCount", "deprecatedSource"):
            if obj.get(field):
                errors.append(invalid(TO_CORE[field], "", "needs to be unset"))
        return errors

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        now, before = renamed(obj, TO_CORE), renamed(old, TO_CORE)
        all_errors = validate_series(now.get("series")) if now.get("series") != before.get("series") else []
        return all_errors + [
            invalid(SHOWN.get(field, field), internal_value(type_, now.get(field)), IMMUTABLE)
            for field, type_ in _FIXED
            if (now.get(field) or None) != (before.get(field) or None)
        ]

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return core()

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        stored = renamed(obj, TO_CORE)
        stored.pop("kind", None)
        stored.pop("apiVersion", None)
        CoreEventStrategy().canonicalize(stored)
        return stored

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        shown = renamed(decode(value), FROM_CORE)
        del shown["kind"], shown["apiVersion"]
        return encode_object(info, shown)

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"


REGISTRATION = Registration(
    EventStrategy(),
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
