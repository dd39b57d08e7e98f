"""ValidatingAdmissionPolicyBindings."""

from pilothouse.apiserver.field_errors import ErrorList, duplicate, invalid, not_supported, repeated, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.admissionregistration.mutatingadmissionpolicybindings import (
    MutatingAdmissionPolicyBindingStrategy,
)
from pilothouse.apiserver.registry.generic.printers import ADMISSION_POLICY_BINDING
from pilothouse.apiserver.registry.generic.registration import Registration

_ACTIONS = ("Audit", "Deny", "Warn")
_DENY_AND_WARN = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


class ValidatingAdmissionPolicyBindingStrategy(MutatingAdmissionPolicyBindingStrategy):
    def _validate_kind_specific(self, spec: Object) -> ErrorList:
        actions, path = spec.get("validationActions") or [], "spec.validationActions"
        errors: ErrorList = []
        duplicates = repeated(actions)
        for position, action in enumerate(actions):
            if action not in _ACTIONS:
                errors.append(not_supported(f"{path}[{position}]", action, _ACTIONS))
            if position in duplicates:
                errors.append(duplicate(f"{path}[{position}]", action))
        if "Deny" in actions and "Warn" in actions:
            errors.append(invalid(path, actions, _DENY_AND_WARN))
        if not actions:
            errors.append(required(path, "at least one validation action is required"))
        return errors


REGISTRATION = Registration(
    ValidatingAdmissionPolicyBindingStrategy(),
    printer=lambda: ADMISSION_POLICY_BINDING,
)
