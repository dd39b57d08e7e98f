"""Events of the group ``events.k8s.io``, which are stored as core Events."""

from pilothouse.apiserver.field_errors import ErrorList, internal_value, invalid, required
from pilothouse.apiserver.objects import Object, decode, encode_object
from pilothouse.apiserver.registry.core.events import (
    FROM_CORE,
    NAMES_IN_ERRORS,
    REFERENCE_FIELDS,
    TO_CORE,
    CoreEventStrategy,
    core_events,
    legacy_validate_event,
    print_event,
    rename_fields,
    validate_series,
)
from pilothouse.apiserver.registry.generic.object_fields import IMMUTABLE
from pilothouse.apiserver.registry.generic.printers import Column, Printer, columns, wide
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.machinery.names import dns_subdomain_errors

_IMMUTABLE_FIELDS = (
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
"""The immutable fields with their types, in upstream's order, which has ``reason`` twice."""


class EventStrategy(Strategy):
    """``events.k8s.io/v1`` Events: core Events with other names for some fields."""

    allow_create_on_update = True
    create_steps = ("object", "object meta", "additional")
    update_steps = ("object", "object meta update", "update")
    group_in_errors = ""  # upstream reports them as core Events
    garbage_collected = False
    # Read from the stored object, so the paths are those of core/v1.
    selectable = {  # read only
        **{f"regarding.{field}": ("involvedObject", field) for field in REFERENCE_FIELDS},
        "reason": ("reason",),
        "reportingController": ("reportingComponent",),
        "type": ("type",),
    }
    validate_name = staticmethod(dns_subdomain_errors)

    def canonicalize(self, obj: Object) -> None:
        # The object as it will be read back, so that an update without changes is detected.
        obj.setdefault("deprecatedSource", {})
        for field in ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime"):
            obj.setdefault(field, None)
        for field in ("reportingController", "reportingInstance"):
            obj.setdefault(field, "")

    def validate(self, obj: Object) -> ErrorList:
        return legacy_validate_event(rename_fields(obj, TO_CORE), controller="reportingController")

    def validate_additional(self, obj: Object) -> ErrorList:
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
        core_event, old_core_event = rename_fields(obj, TO_CORE), rename_fields(old, TO_CORE)
        all_errors = (
            validate_series(core_event.get("series"))
            if core_event.get("series") != old_core_event.get("series")
            else []
        )
        return all_errors + [
            invalid(NAMES_IN_ERRORS.get(field, field), internal_value(type_, core_event.get(field)), IMMUTABLE)
            for field, type_ in _IMMUTABLE_FIELDS
            if (core_event.get(field) or None) != (old_core_event.get(field) or None)
        ]

    def stored_as(self, info: ResourceInfo) -> ResourceInfo:
        return core_events()

    def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        stored = rename_fields(obj, TO_CORE)
        stored.pop("kind", None)
        stored.pop("apiVersion", None)
        CoreEventStrategy().canonicalize(stored)
        return stored

    def from_storage(self, info: ResourceInfo, value: bytes) -> bytes:
        converted = rename_fields(decode(value), FROM_CORE)
        del converted["kind"], converted["apiVersion"]
        return encode_object(info, converted)

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
