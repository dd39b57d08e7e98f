"""MutatingAdmissionPolicyBindings."""

from collections.abc import Iterable

from pilothouse.apiserver.field_errors import ErrorList, forbidden, invalid, not_supported, required
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.registry.generic.meta_validation import validate_label_selector
from pilothouse.apiserver.registry.generic.object_fields import ensure_object
from pilothouse.apiserver.registry.generic.printers import ADMISSION_POLICY_BINDING
from pilothouse.apiserver.registry.generic.registration import Registration
from pilothouse.apiserver.registry.generic.strategy import Strategy
from pilothouse.env.lazy import lazy_imports
from pilothouse.machinery.names import dns_subdomain_errors, path_segment_errors

with lazy_imports():
    from pilothouse.apiserver.registry.admissionregistration import rules


_NOT_FOUND_ACTIONS = ("Deny", "Allow")


class MutatingAdmissionPolicyBindingStrategy(Strategy):
    """MutatingAdmissionPolicyBindings; the base class of ValidatingAdmissionPolicyBindings."""

    allow_unconditional_update = False
    generation_fields = ("spec",)
    kube_finalizers = False
    update_steps = ("object meta", "object")

    def set_defaults(self, obj: Object) -> None:
        match_resources = ensure_object(obj, "spec").get("matchResources")
        if match_resources is not None:
            rules.set_defaults_match_resources(match_resources)

    def warnings_on_create(self, obj: Object) -> Iterable[str]:
        return rules.warnings_for_static_suffix(obj["metadata"]["name"])

    def warnings_on_update(self, obj: Object, old: Object) -> Iterable[str]:
        return self.warnings_on_create(obj)

    def validate(self, obj: Object) -> ErrorList:
        spec = obj["spec"]
        name, param_ref, match_resources = (
            spec.get("policyName") or "",
            spec.get("paramRef"),
            spec.get("matchResources"),
        )
        errors = [] if name else [required("spec.policyName")]
        if name:
            msgs = dns_subdomain_errors(name)
            errors += [invalid("spec.policyName", name, msg) for msg in msgs]
        errors += _validate_param_ref(param_ref, "spec.paramRef") if param_ref is not None else []
        errors += (
            rules.validate_match_resources(match_resources, "spec.matchResources")
            if match_resources is not None
            else []
        )
        return errors + self._validate_kind_specific(spec)

    def _validate_kind_specific(self, spec: Object) -> ErrorList:
        return rules.validate_mutation_operations(spec.get("matchResources") or {}, "spec.matchResources")


def _validate_param_ref(param_ref: Object, path: str) -> ErrorList:
    """``validateParamRef``."""
    name, selector, not_found = (
        param_ref.get("name") or "",
        param_ref.get("selector"),
        param_ref.get("parameterNotFoundAction"),
    )
    exclusive = "name and selector are mutually exclusive"
    errors = [invalid(f"{path}.name", name, msg) for msg in path_segment_errors(name)]
    if name and selector is not None:
        errors.append(forbidden(f"{path}.name", exclusive))
    if selector is not None:
        errors += validate_label_selector(selector, f"{path}.selector")
        errors += [forbidden(f"{path}.selector", exclusive)] if name else []
    if not name and selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    if not not_found:
        errors.append(required(f"{path}.parameterNotFoundAction"))
    elif not_found not in _NOT_FOUND_ACTIONS:
        errors.append(not_supported(f"{path}.parameterNotFoundAction", not_found, _NOT_FOUND_ACTIONS))
    return errors


REGISTRATION = Registration(
    MutatingAdmissionPolicyBindingStrategy(),
    printer=lambda: ADMISSION_POLICY_BINDING,
    storage_version="v1beta1",
)
