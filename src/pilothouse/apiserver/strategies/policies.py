"""Admission policies and their bindings.

After kubernetes' ``pkg/apis/admissionregistration/{v1/defaults.go,validation}`` (v1.36).
"""

from typing import TYPE_CHECKING

from pilothouse.apiserver import errors
from pilothouse.apiserver.errors import FieldError
from pilothouse.apiserver.objects import Object
from pilothouse.apiserver.strategies.admission_rules import default_matched, matched_problems, mutable_problems
from pilothouse.apiserver.strategies.base import Strategy
from pilothouse.apiserver.strategies.conditions import condition_problems
from pilothouse.apiserver.strategies.filling import child, fill
from pilothouse.apiserver.strategies.selectors import selector_problems
from pilothouse.env.later import later
from pilothouse.machinery.names import dns_1035_label_errors, dns_subdomain_errors, path_segment_errors

if TYPE_CHECKING:
    from pilothouse.apiserver.strategies import expressions
else:
    expressions = later("pilothouse.apiserver.strategies.expressions")

FAILURE = ("Fail", "Ignore")
REINVOCATION = ("IfNeeded", "Never")
_ACTIONS = ("Audit", "Deny", "Warn")
_NOT_FOUND = ("Deny", "Allow")
_BOTH = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and "
    "headers serves no purpose)"
)


class PolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies."""

    def default(self, obj: Object) -> None:
        spec = child(obj, "spec")
        fill(spec, {"failurePolicy": "Fail"})
        constraints = spec.get("matchConstraints")
        if constraints is not None:
            default_matched(constraints)

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems: list[FieldError] = []
        if spec["failurePolicy"] not in FAILURE:
            problems.append(errors.not_supported("spec.failurePolicy", spec["failurePolicy"], FAILURE))
        if spec.get("paramKind") is not None:
            problems += _param_kind_problems(spec["paramKind"], "spec.paramKind")
        constraints, where = spec.get("matchConstraints"), "spec.matchConstraints"
        if constraints is None:
            problems.append(errors.required(where))
        else:
            problems += matched_problems(constraints, where)
            if not constraints.get("resourceRules"):
                problems.append(errors.required(f"{where}.resourceRules"))
            problems += self._more_constraints(constraints, where)
        return problems + expressions.variable_problems(spec) + self._actions(obj)

    def _more_constraints(self, constraints: Object, path: str) -> list[FieldError]:
        return []

    def _actions(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            text = "validations or auditAnnotations must contain at least one item"
            return [errors.required(f"spec.{field}", text) for field in ("validations", "auditAnnotations")]
        return expressions.validation_problems(spec, obj["metadata"].get("name") or "")

    def validate_status(self, obj: Object, old: Object) -> list[FieldError]:
        status = obj.get("status") or {}
        problems: list[FieldError] = []
        for position, warning in enumerate((status.get("typeChecking") or {}).get("expressionWarnings") or ()):
            where = f"status.typeChecking.expressionWarnings[{position}]"
            given = (warning.get("warning"), (warning.get("fieldRef") or "").strip())
            problems += [
                errors.required(f"{where}.{field}")
                for field, value in zip(("warning", "fieldRef"), given, strict=True)
                if not value
            ]
        return problems + condition_problems(status.get("conditions") or (), "status.conditions")


class MutatingPolicyStrategy(PolicyStrategy):
    """MutatingAdmissionPolicies."""

    def _more_constraints(self, constraints: Object, path: str) -> list[FieldError]:
        return mutable_problems(constraints, path)

    def _actions(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        problems = expressions.mutation_problems(spec)
        if not spec.get("mutations"):
            problems.append(errors.required("spec.mutations", "mutations must contain at least one item"))
        again = spec.get("reinvocationPolicy") or ""
        if not again:
            problems.append(errors.required("spec.reinvocationPolicy"))
        elif again not in REINVOCATION:
            problems.append(errors.not_supported("spec.reinvocationPolicy", again, REINVOCATION))
        return problems


def _param_kind_problems(kind: Object, path: str) -> list[FieldError]:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    problems = _version_problems(version, f"{path}.apiVersion")
    told = dns_1035_label_errors(name.lower()) if name else []
    if not name:
        problems.append(errors.required(f"{path}.kind"))
    elif told:
        text = "may have mixed case, but should otherwise match: " + ",".join(told)
        problems.append(errors.invalid_value(f"{path}.kind", name, text))
    return problems


def _version_problems(text: str, path: str) -> list[FieldError]:
    if not text:
        return [errors.required(path)]
    if text.count("/") > 1:
        return [errors.invalid_value(path, text, f"unexpected GroupVersion string: {text}")]
    group, _slash, version = text.rpartition("/")
    told = dns_subdomain_errors(group) if group else []
    problems = [errors.invalid_value(path, group, ",".join(told))] if told else []
    if not version:
        return [*problems, errors.invalid_value(path, text, "version must be specified")]
    told = dns_1035_label_errors(version)
    return problems + ([errors.invalid_value(path, version, ",".join(told))] if told else [])


class MutatingPolicyBindingStrategy(Strategy):
    """MutatingAdmissionPolicyBindings, and what all bindings have in common."""

    def default(self, obj: Object) -> None:
        matched = child(obj, "spec").get("matchResources")
        if matched is not None:
            default_matched(matched)

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        name, params, matched = spec.get("policyName") or "", spec.get("paramRef"), spec.get("matchResources")
        problems = [] if name else [errors.required("spec.policyName")]
        if name:
            told = dns_subdomain_errors(name)
            problems += [errors.invalid_value("spec.policyName", name, text) for text in told]
        problems += _params_problems(params, "spec.paramRef") if params is not None else []
        problems += matched_problems(matched, "spec.matchResources") if matched is not None else []
        return problems + self._more_problems(spec)

    def _more_problems(self, spec: Object) -> list[FieldError]:
        return mutable_problems(spec.get("matchResources") or {}, "spec.matchResources")


class PolicyBindingStrategy(MutatingPolicyBindingStrategy):
    """ValidatingAdmissionPolicyBindings."""

    def _more_problems(self, spec: Object) -> list[FieldError]:
        actions, where = spec.get("validationActions") or [], "spec.validationActions"
        problems: list[FieldError] = []
        for position, action in enumerate(actions):
            if action not in _ACTIONS:
                problems.append(errors.not_supported(f"{where}[{position}]", action, _ACTIONS))
            if action in actions[:position]:
                problems.append(errors.duplicate(f"{where}[{position}]", action))
        if "Deny" in actions and "Warn" in actions:
            problems.append(errors.invalid_value(where, actions, _BOTH))
        if not actions:
            problems.append(errors.required(where, "at least one validation action is required"))
        return problems


def _params_problems(params: Object, path: str) -> list[FieldError]:
    """Parameters by name or by labels, and what is done without any."""
    name, selector, otherwise = params.get("name") or "", params.get("selector"), params.get("parameterNotFoundAction")
    exclusive = "name and selector are mutually exclusive"
    problems = [errors.invalid_value(f"{path}.name", name, text) for text in path_segment_errors(name)]
    if name and selector is not None:
        problems.append(errors.not_allowed(f"{path}.name", exclusive))
    if selector is not None:
        problems += selector_problems(selector, f"{path}.selector")
        problems += [errors.not_allowed(f"{path}.selector", exclusive)] if name else []
    if not name and selector is None:
        problems.append(errors.required(path, "one of name or selector must be specified"))
    if not otherwise:
        problems.append(errors.required(f"{path}.parameterNotFoundAction"))
    elif otherwise not in _NOT_FOUND:
        problems.append(errors.not_supported(f"{path}.parameterNotFoundAction", otherwise, _NOT_FOUND))
    return problems
