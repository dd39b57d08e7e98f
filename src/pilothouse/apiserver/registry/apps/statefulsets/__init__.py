"""StatefulSets."""

from collections.abc import Iterable, Iterator

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.strategy import WorkloadStrategy
from pilothouse.apiserver.registry.core.pods.disabled_fields import GATES
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
    status_count,
    template_spec_of,
    wide,
)
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors
from pilothouse.machinery.quantities import canonicalize
from pilothouse.semantics.pod_defaults import default_claim_spec

with lazy_imports():
    from pilothouse.apiserver.registry.apps.statefulsets import validation as stateful_set_validation
    from pilothouse.apiserver.registry.core.persistentvolumeclaims import warnings as claim_warnings


def _rolling_update(obj: Object | None) -> Object:
    return {} if obj is None else obj["spec"]["updateStrategy"].get("rollingUpdate") or {}


class StatefulSetStrategy(WorkloadStrategy):
    generation_fields = ("spec",)
    status_steps = ("update", "object meta update")
    empty_status = {"replicas": 0, "availableReplicas": 0}  # read only
    disabled_gates = GATES | {"MaxUnavailableStatefulSet"}
    warns_about_names = False  # other names are invalid
    # Pods are named after their StatefulSet, and their names are host names.
    validate_name = staticmethod(dns_label_errors)

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        super().drop_disabled_fields(obj, old)
        if "MaxUnavailableStatefulSet" in self.disabled_gates and _rolling_update(old).get("maxUnavailable") is None:
            _rolling_update(obj).pop("maxUnavailable", None)

    def default_spec(self, spec: Object) -> None:
        spec.setdefault("serviceName", "")
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        strategy = ensure_object(spec, "updateStrategy")
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
            ensure_object(strategy, "rollingUpdate")
        # Unlike in other kinds, ``rollingUpdate`` is not added if the type is set.
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            set_default_fields(strategy["rollingUpdate"], {"partition": 0})
        set_default_fields(spec, {"revisionHistoryLimit": 10})
        retention: Object = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        spec["persistentVolumeClaimRetentionPolicy"] = retention
        for field in ("whenDeleted", "whenScaled"):
            if not retention.get(field):
                retention[field] = "Retain"
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
            claim.setdefault("metadata", {})
            claim_spec = claim.setdefault("spec", {})
            claim_spec.setdefault("resources", {})
            default_claim_spec(claim_spec)
            status: Object = claim.get("status") or {}
            claim["status"] = status
            if not status.get("phase"):
                status["phase"] = "Pending"
            canonicalize(status.get("capacity"))

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        yield from super().warnings_on_create(obj)
        yield from _warnings_for_spec(obj["spec"], "")

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        yield from super().warnings_on_update(obj, old)
        yield from _warnings_for_spec(obj["spec"], ".Spec")  # pkg/registry/apps/statefulset/strategy.go, v1.36

    def validate(self, obj: Object) -> ErrorList:
        return stateful_set_validation.validate_stateful_set(obj["spec"])

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return stateful_set_validation.validate_stateful_set_on_update(obj, old)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return stateful_set_validation.validate_stateful_set_status_update(obj, old)

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return stateful_set_validation.validate_stateful_set_update(obj, old)


def _warnings_for_spec(spec: Object, child: str) -> Iterator[str]:
    for position, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        path = f"spec.volumeClaimTemplates[{position}]{child}"
        yield from claim_warnings.warnings_for_persistent_volume_claim_spec(claim.get("spec") or {}, path)
    if (spec.get("revisionHistoryLimit") or 0) < 0:
        message = "a negative value retains all historical revisions; a value >= 0 is recommended"
        yield f"spec.revisionHistoryLimit: {message}"


def print_stateful_set(value: Doc, now: Now) -> Row:
    ready = f"{status_count(value, 'readyReplicas')}/{nested_field(value, 'spec', 'replicas') or 0}"
    return [ready, *containers_of(template_spec_of(value))]


REGISTRATION = Registration(
    StatefulSetStrategy(),
    printer=lambda: Printer((NAME, *columns("Ready"), AGE, *wide("Containers", "Images")), print_stateful_set),
)
