"""Deployments."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.strategy import WorkloadStrategy, default_update_strategy, drop_zeros
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
    nested_field,
    selector_text,
    status_count,
    template_spec_of,
    wide,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.apps.deployments import validation as deployment_validation


class DeploymentStrategy(WorkloadStrategy):
    """``apps/v1`` Deployments. A change of annotations also increments the generation."""

    generation_fields = ("spec",)
    kept_on_status_update = "labels"

    def default_spec(self, spec: Object) -> None:
        default_update_strategy(ensure_object(spec, "strategy"), {"maxUnavailable": "25%", "maxSurge": "25%"})
        set_default_fields(spec, {"revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
        drop_zeros(spec, "paused")

    def validate(self, obj: Object) -> ErrorList:
        return deployment_validation.validate_deployment(obj)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return deployment_validation.validate_deployment_status_update(obj, old)

    def increments_generation(self, obj: Object, old: Object) -> bool:
        return super().increments_generation(obj, old) or obj["metadata"].get("annotations") != old["metadata"].get(
            "annotations"
        )


def print_deployment(value: Doc, now: Now) -> Row:
    selector = selector_text(nested_field(value, "spec", "selector"))
    return [
        f"{status_count(value, 'readyReplicas')}/{nested_field(value, 'spec', 'replicas') or 0}",
        status_count(value, "updatedReplicas"),
        status_count(value, "availableReplicas"),
        *containers_of(template_spec_of(value)),
        "<invalid>" if selector is None else selector,
    ]


REGISTRATION = Registration(
    DeploymentStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Ready", "Up-to-date", "Available"), AGE, *wide("Containers", "Images", "Selector")),
        print_deployment,
    ),
)
