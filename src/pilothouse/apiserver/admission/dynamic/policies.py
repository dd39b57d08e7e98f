"""ValidatingAdmissionPolicy: expressions that validate writes, where bindings apply them.

After k8s.io/apiserver ``pkg/admission/plugin/policy/validating`` (v0.36).
"""

from collections.abc import AsyncIterator, Awaitable

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.admission.dynamic.bindings import Binding, Bound, Decision, bound, by_policy
from pilothouse.apiserver.admission.dynamic.configurations import Configurations
from pilothouse.apiserver.admission.dynamic.expressions import (
    Condition,
    Inputs,
    MatchConditions,
    Scope,
    VersionedAttributeAccessor,
)
from pilothouse.apiserver.admission.dynamic.matching import Criteria, may_concern
from pilothouse.apiserver.admission.dynamic.requests import NotConverted
from pilothouse.apiserver.audit.context import add_audit_annotation
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.metrics.admission import error_type
from pilothouse.apiserver.objects import Object
from pilothouse.cel.limits import Budget, OutOfBudget
from pilothouse.cel.scopes import ExpressionError
from pilothouse.env.logging import Log

_log = Log("admission-policy")
_CODES = {"Invalid": 422, "Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}
_KIND = "ValidatingAdmissionPolicy"
_MAX_MESSAGE = 5 * 1024
_MAX_ANNOTATION = 10 * 1024
_FAILURE = "validation.policy.admission.k8s.io/validation_failure"


class Policy:
    """One policy, compiled when it is first needed."""

    def __init__(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.param_kind: Object | None = spec.get("paramKind")
        self.criteria = Criteria.of_constraints(spec.get("matchConstraints") or {})
        self.scope = Scope(params=self.param_kind is not None, variables=spec.get("variables") or ())
        quiet = Scope(params=self.param_kind is not None, authorizer=False, variables=spec.get("variables") or ())
        matched = Scope(params=self.param_kind is not None)
        self.conditions = MatchConditions(matched, spec.get("matchConditions") or ())
        self.validations = [Validation(self.scope, quiet, one) for one in spec.get("validations") or ()]
        self.annotations = [
            (one.get("key") or "", Condition(self.scope, one.get("valueExpression") or "", ("string", "null_type")))
            for one in spec.get("auditAnnotations") or ()
        ]


class Validation:
    """One expression and the message for when it is false."""

    def __init__(self, scope: Scope, quiet: Scope, given: Object) -> None:
        self.condition = Condition(scope, given.get("expression") or "")
        self.reason: str = given.get("reason") or "Invalid"
        self._text = (given.get("message") or "").strip()
        expression = given.get("messageExpression") or ""
        self._message = Condition(quiet, expression, ("string",)) if expression else None

    async def message(self, inputs: Inputs, budget: Budget) -> str:
        """The message expression's text if it has one line of some, else the message, else the expression. Raises
        ``OutOfBudget``."""
        if self._message is not None:
            try:
                text = await self._message.evaluate(inputs, budget)
            except ExpressionError as error:
                _log.info("a messageExpression failed", error=str(error))
                text = ""
            text = text.strip() if isinstance(text, str) else ""
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
                return text
        return self._text or f"failed expression: {self.condition.source.strip()}"


class ValidatingAdmissionPolicy(Plugin):
    """Runs the policies that are bound."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._policies = Configurations(core, "validatingadmissionpolicies", Policy)
        self._bindings = Configurations(core, "validatingadmissionpolicybindings", Binding)

    def validate(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        if not may_concern(write, self._policies, self._bindings):
            return None
        return self._validate(write)

    async def _validate(self, write: AdmissionAttributes) -> None:
        bindings = by_policy(self._bindings.all)
        denied: list[Decision] = []
        accessor = VersionedAttributeAccessor(self._core, write)
        for policy in self._policies.all:
            if policy.name in bindings:
                denied += [one async for one in self._evaluate(write, accessor, policy, bindings[policy.name])]
        if denied:
            raise _status_error(write, denied[0])

    async def _evaluate(
        self, write: AdmissionAttributes, accessor: VersionedAttributeAccessor, policy: Policy, bindings: list[Binding]
    ) -> AsyncIterator[Decision]:
        annotations: dict[str, list[str]] = {}
        async for each in bound(self._core, write, policy.criteria, policy.param_kind, bindings):
            if isinstance(each, Bound):
                try:
                    inputs = Inputs(await accessor.attributes(each.info), each.parameters)
                except NotConverted as error:
                    if not policy.ignores_failures:
                        why = f"failed to configure binding: failed to convert object version: {error.why}"
                        yield Decision(_KIND, policy.name, each.binding.name, why)
                    continue
                async for decision in self._evaluate_binding(write, policy, each.binding, inputs, annotations):
                    yield decision
            elif not policy.ignores_failures:
                yield Decision(_KIND, policy.name, each.binding, each.message)
        for key, values in annotations.items():
            add_audit_annotation(f"{policy.name}/{key}", ", ".join(values))

    async def _evaluate_binding(
        self,
        write: AdmissionAttributes,
        policy: Policy,
        binding: Binding,
        inputs: Inputs,
        annotations: dict[str, list[str]],
    ) -> AsyncIterator[Decision]:
        checks = _Checks(self._core, write, policy, binding)
        try:
            if not await policy.conditions.match(inputs):
                return
            decisions = await checks.decide(inputs)
        except (ExpressionError, OutOfBudget) as error:
            for decision in checks.failed(str(error), 0):
                yield decision
            return
        for decision in decisions:
            yield decision
        async for decision in checks.annotate(inputs, annotations):
            yield decision


class _Checks:
    """The evaluation of one policy for one binding and one set of parameters, and what the binding asks for."""

    def __init__(self, core: Core, write: AdmissionAttributes, policy: Policy, binding: Binding) -> None:
        self._metrics = core.metrics
        self._clock = core.env.perf_counter
        self._write = write
        self._policy = policy
        self._binding = binding
        self._began = self._clock() if self._metrics is not None else 0.0

    async def decide(self, inputs: Inputs) -> list[Decision]:
        """What the validations come to. Raises ``OutOfBudget``, which stands for all of them."""
        found: list[Decision] = []
        budget = Budget()
        for index, validation in enumerate(self._policy.validations):
            if self._metrics is not None:
                self._began = self._clock()
            try:
                if await validation.condition.evaluate(inputs, budget) is True:
                    continue
                message = await _message(validation, inputs, budget)
            except ExpressionError as error:
                found += self.failed(str(error), index)
            else:
                found += self._act(message, validation.reason, index)
        return found

    def failed(self, message: str, index: int) -> list[Decision]:
        """What follows when an expression can't be evaluated."""
        if self._policy.ignores_failures:
            self._count(message, "allow")
            return []
        return self._act(message, "Invalid", index)

    def _act(self, message: str, reason: str, index: int) -> list[Decision]:
        """What the binding asks for when the validation of this index fails."""
        policy, binding, found = self._policy, self._binding, list[Decision]()
        for action in binding.actions:
            self._count(message, action.lower())
            if action == "Deny":
                found.append(Decision(_KIND, policy.name, binding.name, message, reason))
            elif action == "Warn":
                self._write.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}': "
                    f"{message}"
                )
            elif action == "Audit":
                failure = {
                    "message": message,
                    "policy": policy.name,
                    "binding": binding.name,
                    "expressionIndex": index,
                    "validationActions": binding.actions,
                }
                add_audit_annotation(_FAILURE, msgspec.json.encode([failure]).decode())
        return found

    async def annotate(self, inputs: Inputs, annotations: dict[str, list[str]]) -> AsyncIterator[Decision]:
        """Add the audit annotations of the binding, each value once. One that can't be evaluated rejects the write."""
        budget = Budget()
        for key, condition in self._policy.annotations:
            try:
                value = await condition.evaluate(inputs, budget)
            except (ExpressionError, OutOfBudget) as error:
                if not self._policy.ignores_failures:
                    self._count(str(error), "deny")
                    yield Decision(_KIND, self._policy.name, self._binding.name, str(error))
                if isinstance(error, OutOfBudget):
                    return
                continue
            if isinstance(value, str) and value.strip():
                shown = value.strip().encode()[:_MAX_ANNOTATION].decode(errors="ignore")
                values = annotations.setdefault(key, [])
                if shown not in values:
                    values.append(shown)

    def _count(self, message: str, action: str) -> None:
        if self._metrics is not None:
            seconds = self._clock() - self._began
            self._metrics.policies.validated(
                self._policy.name, self._binding.name, error_type(message), action, seconds
            )


async def _message(validation: Validation, inputs: Inputs, budget: Budget) -> str:
    try:
        return await validation.message(inputs, budget)
    except OutOfBudget as error:
        raise ExpressionError(f"failed messageExpression: {error}") from None


def _status_error(write: AdmissionAttributes, decision: Decision) -> errors.StatusError:
    error = new_forbidden(write, decision.text)
    details = {**(error.details or {}), "causes": [{"message": decision.text}]}
    return errors.StatusError(_CODES.get(decision.reason, 422), decision.reason, error.message, details=details)
