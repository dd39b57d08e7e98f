"""ReplicationControllers."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.apps.strategy import drop_zeros
from pilothouse.apiserver.registry.core.pods.disabled_fields import GATES, drop_disabled_template_fields
from pilothouse.apiserver.registry.generic.object_fields import validate_nonnegative_fields
from pilothouse.apiserver.registry.generic.printers import REPLICAS
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.semantics.pod_defaults import default_template

with lazy_imports():
    from pilothouse.apiserver.registry.apps import validation as apps_validation
    from pilothouse.apiserver.registry.core.pods import validation as pod_validation
    from pilothouse.apiserver.registry.core.pods import warnings as pod_warnings


class ReplicationControllerStrategy(Strategy):
    """Selector and labels default to the labels of the template."""

    selects_by_map = True
    orphans_by_default = True
    generation_fields = ("spec",)
    disabled_gates = GATES
    validates_generate_name = False
    empty_status = {"replicas": 0}  # read only
    selectable = {"status.replicas": ("status", "replicas")}  # read only
    selectable_defaults = {"status.replicas": "0"}  # read only

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        return apps_validation.validate_replica_status(obj.get("status") or {})

    def set_defaults(self, obj: Object) -> None:
        spec: Object = obj.setdefault("spec", {})
        template = spec.get("template")
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        if template is not None:
            default_template(template)
            labels = (template.get("metadata") or {}).get("labels")
            if labels:
                if not spec.get("selector"):
                    spec["selector"] = dict(labels)
                if not obj["metadata"].get("labels"):
                    obj["metadata"]["labels"] = dict(labels)
        drop_zeros(spec, "minReadySeconds")

    def drop_disabled_fields(self, obj: Object, old: Object | None) -> None:
        old_template = None if old is None else old["spec"].get("template")
        drop_disabled_template_fields(obj["spec"].get("template") or {}, old_template, self.disabled_gates)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        yield from pod_warnings.warnings_for_name(obj["metadata"]["name"])
        yield from pod_warnings.warnings_for_pod_template(obj["spec"].get("template"), "spec.template")

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        if self.increments_generation(obj, old):
            # Upstream swaps old and new template (pkg/registry/core/replicationcontroller/strategy.go, v1.36).
            yield from pod_warnings.warnings_for_pod_template(old["spec"].get("template"), "spec.template")

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        selector, template = spec.get("selector") or {}, spec.get("template")
        errors = validate_nonnegative_fields(spec, "spec", ("minReadySeconds",))
        if not selector:
            errors.append(required("spec.selector"))
        errors += validate_nonnegative_fields(spec, "spec", ("replicas",))
        if not template:
            return [*errors, required("spec.template")]
        labels = (template.get("metadata") or {}).get("labels") or {}
        if any(labels.get(key) != value for key, value in selector.items()):
            errors.append(apps_validation.template_labels_mismatch(labels or None))
        errors += pod_validation.validate_pod_template_spec(template, "spec.template")
        return errors + apps_validation.validate_restart_policy_always(template, "ReplicationController")

    def validate_object_on_update(self, obj: Object, old: Object) -> ErrorList:
        return [] if obj["spec"] == old["spec"] else self.validate(obj)

    def unsupported_field(self, path: str) -> str:
        return f"field label not supported: {path}"


REGISTRATION = Registration(
    ReplicationControllerStrategy(),
    printer=lambda: REPLICAS,
    etcd_prefix="controllers",
)
