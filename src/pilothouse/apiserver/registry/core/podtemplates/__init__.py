"""PodTemplates."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.core.pods.disabled_fields import GATES, drop_disabled_template_fields
from pilothouse.apiserver.registry.generic.printers import (
    NAME,
    Doc,
    Now,
    Printer,
    Row,
    columns,
    containers_of,
    format_labels,
    nested_field,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.semantics.pod_defaults import default_template

with lazy_imports():
    from pilothouse.apiserver.registry.core.pods import validation as pod_validation
    from pilothouse.apiserver.registry.core.pods import warnings as pod_warnings


class PodTemplateStrategy(Strategy):
    return_deleted_object = True
    generation_fields = ("template",)
    disabled_gates = GATES

    def set_defaults(self, obj: Object) -> None:
        default_template(obj.setdefault("template", {}))

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        drop_disabled_template_fields(obj["template"], None if old is None else old["template"], self.disabled_gates)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return pod_warnings.warnings_for_pod_template(obj.get("template"), "template")

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj) if self.increments_generation(obj, old) else ()

    def validate(self, obj: Object) -> ErrorList:
        return pod_validation.validate_pod_template_spec(obj.get("template") or {}, "template")


def print_pod_template(value: Doc, now: Now) -> Row:
    labels = format_labels(nested_field(value, "template", "metadata", "labels"))
    return [*containers_of(nested_field(value, "template", "spec")), labels]


REGISTRATION = Registration(
    PodTemplateStrategy(),
    printer=lambda: Printer((NAME, *columns("Containers", "Images", "Pod Labels")), print_pod_template),
)
