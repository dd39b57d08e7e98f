"""MutatingAdmissionPolicies."""

from pilothouse.apiserver import field_errors
from pilothouse.apiserver.field_errors import ErrorList
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.admissionregistration.rules import REINVOCATION, validate_mutation_operations
from pilothouse.apiserver.registry.admissionregistration.validatingadmissionpolicies import (
    ValidatingAdmissionPolicyStrategy,
)
from pilothouse.apiserver.registry.generic.printers import AGE, NAME, Printer, columns, print_admission_policy
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.env.lazy import lazy_imports

with lazy_imports():
    from pilothouse.apiserver.registry.admissionregistration import expressions


class MutatingAdmissionPolicyStrategy(ValidatingAdmissionPolicyStrategy):
    """MutatingAdmissionPolicies."""

    status_keeps = "spec"

    def _more_constraints(self, constraints: Object, path: str) -> ErrorList:
        return validate_mutation_operations(constraints, path)

    def _actions(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        errors = expressions.validate_mutations(spec)
        if not spec.get("mutations"):
            errors.append(field_errors.required("spec.mutations", "mutations must contain at least one item"))
        again = spec.get("reinvocationPolicy") or ""
        if not again:
            errors.append(field_errors.required("spec.reinvocationPolicy"))
        elif again not in REINVOCATION:
            errors.append(field_errors.not_supported("spec.reinvocationPolicy", again, REINVOCATION))
        return errors


REGISTRATION = Registration(
    MutatingAdmissionPolicyStrategy(),
    printer=lambda: Printer(
        (NAME, *columns("Mutations", type_="integer"), *columns("ParamKind"), AGE), print_admission_policy("mutations")
    ),
)
