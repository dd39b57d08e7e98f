"""ValidatingAdmissionPolicies."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_conditions
from pilothouse.apiserver.registry.generic.object_fields import ensure_object, set_default_fields
from pilothouse.apiserver.registry.generic.printers import admission_policy_printer
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import KeptOnStatusUpdate, Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors

with lazy_imports():
    from pilothouse.apiserver.registry.admissionregistration import expressions, rules


class ValidatingAdmissionPolicyStrategy(Strategy):
    allow_unconditional_update = False
    generation_fields = ("spec",)
    kept_on_status_update: KeptOnStatusUpdate = "user metadata"
    kube_finalizers = False
    update_steps = ("object meta", "object")
    status_steps = ("update",)

    def set_defaults(self, obj: Object) -> None:
        spec = ensure_object(obj, "spec")
        set_default_fields(spec, {"failurePolicy": "Fail"})
        constraints = spec.get("matchConstraints")
        if constraints is not None:
            rules.set_defaults_match_resources(constraints)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return rules.warnings_for_static_suffix(obj["metadata"]["name"])

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        errors: ErrorList = []
        if spec["failurePolicy"] not in rules.FAILURE_POLICIES:
            errors.append(not_supported("spec.failurePolicy", spec["failurePolicy"], rules.FAILURE_POLICIES))
        if spec.get("paramKind") is not None:
            errors += _validate_param_kind(spec["paramKind"], "spec.paramKind")
        constraints, path = spec.get("matchConstraints"), "spec.matchConstraints"
        if constraints is None:
            errors.append(required(path))
        else:
            errors += rules.validate_match_resources(constraints, path)
            if not constraints.get("resourceRules"):
                errors.append(required(f"{path}.resourceRules"))
            errors += self._validate_match_constraints(constraints, path)
        variable_errors, types = expressions.validate_variables(spec)
        return errors + variable_errors + self._validate_actions(obj, types)

    def _validate_match_constraints(self, constraints: Object, path: str) -> ErrorList:
        return []

    def _validate_actions(self, obj: Object, types: "expressions.VariableTypes") -> ErrorList:
        spec = obj["spec"]
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            detail = "validations or auditAnnotations must contain at least one item"
            return [required(f"spec.{field}", detail) for field in ("validations", "auditAnnotations")]
        return expressions.validate_validations(spec, obj["metadata"].get("name") or "", types)

    def validate_status_update(self, obj: Object, old: Object) -> ErrorList:
        status = obj.get("status") or {}
        errors: ErrorList = []
        for position, warning in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
            path = f"status.typeChecking.expressionWarnings[{position}]"
            values = (warning.get("warning"), (warning.get("fieldRef") or "").strip())
            errors += [
                required(f"{path}.{field}")
                for field, value in zip(("warning", "fieldRef"), values, strict=True)
                if not value
            ]
        return errors + validate_conditions(status.get("conditions") or (), "status.conditions")


def _validate_param_kind(kind: Object, path: str) -> ErrorList:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    errors = _validate_api_version(version, f"{path}.apiVersion")
    msgs = dns_1035_label_errors(name.lower()) if name else []
    if not name:
        errors.append(required(f"{path}.kind"))
    elif msgs:
        detail = "may have mixed case, but should otherwise match: " + ",".join(msgs)
        errors.append(invalid(f"{path}.kind", name, detail))
    return errors


def _validate_api_version(api_version: str, path: str) -> ErrorList:
    if not api_version:
        return [required(path)]
    if api_version.count("/") > 1:
        return [invalid(path, api_version, f"unexpected GroupVersion string: {api_version}")]
    group, _slash, version = api_version.rpartition("/")
    msgs = dns_subdomain_errors(group) if group else []
    all_errors = [invalid(path, group, ",".join(msgs))] if msgs else []
    if not version:
        return [*all_errors, invalid(path, api_version, "version must be specified")]
    msgs = dns_1035_label_errors(version)
    return all_errors + ([invalid(path, version, ",".join(msgs))] if msgs else [])


REGISTRATION = Registration(
    ValidatingAdmissionPolicyStrategy(),
    printer=lambda: admission_policy_printer("Validations", "validations"),
)
