"""ReplicaSets."""

from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.strategy import WorkloadStrategy, drop_zeros
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields
from pilothouse.apiserver.registry.generic.printers import REPLICAS
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.apps import validation as apps_validation


class ReplicaSetStrategy(WorkloadStrategy):
    generation_fields = ("spec",)
    empty_status = {"replicas": 0}  # read only

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        errors = validate_nonnegative_fields(spec, "spec", ("replicas", "minReadySeconds"))
        return (
            errors
            + apps_validation.validate_selector(spec, "deployment")
            + apps_validation.validate_pod_template_spec_for_replica_set(spec)
        )

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return apps_validation.validate_replica_status(obj.get("status") or {})

    def canonicalize(self, obj: Object) -> None:
        status = obj.get("status") or {}
        obj["status"] = {
            "replicas": status.get("replicas") or 0,
            **{k: v for k, v in status.items() if k != "replicas"},
        }
        drop_zeros(
            obj["status"],
            "fullyLabeledReplicas",
            "readyReplicas",
            "availableReplicas",
            "observedGeneration",
            "conditions",
        )


REGISTRATION = Registration(
    ReplicaSetStrategy(),
    printer=lambda: REPLICAS,
)
