"""RuntimeClasses."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, duplicate, internal_value, invalid, repeated, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_labels
from pilothouse.apiserver.registry.generic.object_fields import validate_immutable_fields
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, fields_of
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_label_errors
from pilothouse.machinery.quantities import canonicalize

with lazy_imports():
    from pilothouse.apiserver.registry.core import validation as core_validation
    from pilothouse.apiserver.registry.core.nodes import warnings as node_warnings


_TOLERATION_KEY = ("key", "operator", "value", "effect")


class RuntimeClassStrategy(Strategy):
    """``node.k8s.io`` RuntimeClasses. ``handler`` is immutable."""

    allow_unconditional_update = False
    allow_create_on_update = True
    kube_finalizers = False
    update_steps = ("object meta", "object", "object meta update", "update")

    def set_defaults(self, obj: Object) -> None:
        canonicalize((obj.get("overhead") or {}).get("podFixed"))

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        for key in sorted((obj.get("scheduling") or {}).get("nodeSelector") or ()):
            if key in node_warnings.DEPRECATED_NODE_LABELS:
                yield f"scheduling.nodeSelector: {node_warnings.DEPRECATED_NODE_LABELS[key]}"

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        handler = obj.get("handler") or ""
        if not handler:
            errors = [required("handler")]
        else:
            errors = [invalid("handler", handler, msg) for msg in dns_label_errors(handler)]
        overhead = (obj.get("overhead") or {}).get("podFixed")
        errors += core_validation.validate_resource_requirements({"limits": overhead}, "overhead")
        scheduling = obj.get("scheduling") or {}
        errors += validate_labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or []
        errors += core_validation.validate_tolerations(tolerations, "scheduling.tolerations")
        keys = [tuple(toleration.get(field) or "" for field in _TOLERATION_KEY) for toleration in tolerations]
        return errors + [
            duplicate(f"scheduling.tolerations[{position}]", internal_value("core.Toleration", tolerations[position]))
            for position in sorted(repeated(keys))
        ]

    def validate_update(self, obj: Object, old: Object) -> ErrorList:
        return validate_immutable_fields(obj, old, "", {"handler": "string"})


REGISTRATION = Registration(
    RuntimeClassStrategy(),
    printer=lambda: Printer((NAME, *columns("Handler"), AGE), fields_of("handler")),
)
