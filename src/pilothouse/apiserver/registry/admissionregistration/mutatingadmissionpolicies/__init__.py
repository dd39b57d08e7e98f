"""MutatingAdmissionPolicies."""

from pilothouse.apiserver.field_errors import ErrorList, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.admissionregistration.rules import (
    REINVOCATION_POLICIES,
    validate_mutation_operations,
)
from pilothouse.apiserver.registry.admissionregistration.validatingadmissionpolicies import (
    ValidatingAdmissionPolicyStrategy,
)
from pilothouse.apiserver.registry.generic.printers import admission_policy_printer
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.admissionregistration import expressions


class MutatingAdmissionPolicyStrategy(ValidatingAdmissionPolicyStrategy):
    kept_on_status_update = "spec"

    def _validate_match_constraints(self, constraints: Object, path: str) -> ErrorList:
        return validate_mutation_operations(constraints, path)

    def _validate_actions(self, obj: Object, types: "expressions.VariableTypes") -> ErrorList:
        spec = obj["spec"]
        errors = expressions.validate_mutations(spec, types)
        if not spec.get("mutations"):
            errors.append(required("spec.mutations", "mutations must contain at least one item"))
        policy = spec.get("reinvocationPolicy") or ""
        if not policy:
            errors.append(required("spec.reinvocationPolicy"))
        elif policy not in REINVOCATION_POLICIES:
            errors.append(not_supported("spec.reinvocationPolicy", policy, REINVOCATION_POLICIES))
        return errors


REGISTRATION = Registration(
    MutatingAdmissionPolicyStrategy(),
    printer=lambda: admission_policy_printer("Mutations", "mutations"),
    storage_version="v1beta1",
)
