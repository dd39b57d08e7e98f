"""DaemonSets."""

import re

from pilothouse.apiserver import errors
from pilothouse.apiserver.field_errors import ErrorList, format_value
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.strategy import WorkloadStrategy, default_update_strategy
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.printers import (
    AGE,
    NAME,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    containers_of,
    format_labels,
    format_selector,
    nested_field,
    status_count,
    template_spec_of,
    wide,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.apps.daemonsets import validation as daemon_set_validation


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(WorkloadStrategy):
    generation_fields = ("spec",)
    update_steps = ("object meta update", "update", "object")
    has_replicas = False
    warns_about_names = False
    empty_status = {  # read only
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    def default_spec(self, spec: Object) -> None:
        default_update_strategy(ensure_object(spec, "updateStrategy"), {"maxUnavailable": 1, "maxSurge": 0})
        set_default_fields(spec, {"revisionHistoryLimit": 10})

    def validate(self, obj: Object) -> ErrorList:
        return daemon_set_validation.validate_daemon_set(obj)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return daemon_set_validation.validate_daemon_set_status_update(obj, old)

    def prepare_for_create(self, obj: Object, now: str) -> None:
        _set_annotation(obj, _TEMPLATE_GENERATION, "1")

    def set_defaults(self, obj: Object) -> None:
        super().set_defaults(obj)
        # ``templateGeneration`` is a field of the internal type, converted from and to an annotation: an object without
        # the annotation has 0 (pkg/apis/apps/v1/conversion.go, v1.36).
        generation = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION)
        if generation is None:
            _set_annotation(obj, _TEMPLATE_GENERATION, "0")
        elif not re.fullmatch(r"[+-]?[0-9]+", generation):
            raise errors.bad_request(
                'DaemonSet in version "v1" cannot be handled as a DaemonSet: '
                f"strconv.ParseInt: parsing {format_value(generation)}: invalid syntax"
            )

    def prepare_for_status_update(self, obj: Object, old: Object, now: str) -> None:
        super().prepare_for_status_update(obj, old, now)
        _set_annotation(obj, _TEMPLATE_GENERATION, _template_generation(old))

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        generation = _template_generation(old)
        if obj["spec"].get("template") != old["spec"].get("template"):
            generation = str(int(generation) + 1)
        _set_annotation(obj, _TEMPLATE_GENERATION, generation)


def _template_generation(old: Object) -> str:
    return (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or "1"


def _set_annotation(obj: Object, name: str, value: str) -> None:
    meta = obj["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), name: value}


def print_daemon_set(value: Doc, now: Now) -> Row:
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        *(status_count(value, field) for field in counts),
        format_labels(nested_field(template_spec_of(value), "nodeSelector")),
        *containers_of(template_spec_of(value)),
        format_selector(nested_field(value, "spec", "selector")),
    ]


REGISTRATION = Registration(
    DaemonSetStrategy(),
    printer=lambda: Printer(
        (
            NAME,
            *columns("Desired", "Current", "Ready", "Up-to-date", "Available", type_="integer"),
            *columns("Node Selector"),
            AGE,
            *wide("Containers", "Images", "Selector"),
        ),
        print_daemon_set,
    ),
)
