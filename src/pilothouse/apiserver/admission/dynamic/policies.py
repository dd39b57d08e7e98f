"""The plugin ValidatingAdmissionPolicy: validates writes with CEL expressions.

After k8s.io/apiserver ``pkg/admission/plugin/policy/validating`` (v0.36).
"""

from collections.abc import AsyncIterator, Awaitable

import msgspec

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes, Plugin, new_forbidden
from pilothouse.apiserver.admission.dynamic.bindings import (
    Binding,
    Decision,
    PolicyInvocation,
    bindings_by_policy,
    policy_invocations,
)
from pilothouse.apiserver.admission.dynamic.configurations import EXEMPT_FROM_POLICIES, Configurations
from pilothouse.apiserver.admission.dynamic.expressions import (
    Activation,
    Expression,
    MatchConditions,
    Scope,
    VersionedAttributeAccessor,
)
from pilothouse.apiserver.admission.dynamic.matching import MatchCriteria, may_match
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
    """A ValidatingAdmissionPolicy with its expressions, which are compiled on first use."""

    def __init__(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        self.name: str = obj["metadata"]["name"]
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.param_kind: Object | None = spec.get("paramKind")
        self.criteria = MatchCriteria.of_match_resources(spec.get("matchConstraints") or {})
        self.scope = Scope(params=self.param_kind is not None, variables=spec.get("variables") or ())
        message_scope = Scope(
            params=self.param_kind is not None, authorizer=False, variables=spec.get("variables") or ()
        )
        match_scope = Scope(params=self.param_kind is not None)
        self.conditions = MatchConditions(match_scope, spec.get("matchConditions") or ())
        self.validations = [
            Validation(self.scope, message_scope, validation) for validation in spec.get("validations") or ()
        ]
        self.annotations = [
            (
                annotation.get("key") or "",
                Expression(self.scope, annotation.get("valueExpression") or "", ("string", "null_type")),
            )
            for annotation in spec.get("auditAnnotations") or ()
        ]


class Validation:
    """One of ``spec.validations``. Message expressions cannot use ``authorizer``, which ``message_scope`` lacks."""

    def __init__(self, scope: Scope, message_scope: Scope, validation: Object) -> None:
        self.expression = Expression(scope, validation.get("expression") or "")
        self.reason: str = validation.get("reason") or "Invalid"
        self._message = (validation.get("message") or "").strip()
        expression = validation.get("messageExpression") or ""
        self._message_expression = Expression(message_scope, expression, ("string",)) if expression else None

    async def message(self, activation: Activation, budget: Budget) -> str:
        """The value of ``messageExpression`` if it is a single non-empty line, else ``message``, else the expression.
        Raises ``OutOfBudget``."""
        if self._message_expression is not None:
            try:
                text = await self._message_expression.evaluate(activation, budget)
            except ExpressionError as error:
                _log.info("Failed to evaluate a messageExpression", error=str(error))
                text = ""
            text = text.strip() if isinstance(text, str) else ""
            if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
                return text
        return self._message or f"failed expression: {self.expression.source.strip()}"


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates the policies that have bindings."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._policies = Configurations(core, "validatingadmissionpolicies", Policy)
        self._bindings = Configurations(core, "validatingadmissionpolicybindings", Binding)

    def validate(self, write: AdmissionAttributes) -> Awaitable[None] | None:
        if not may_match(write, EXEMPT_FROM_POLICIES, self._policies, self._bindings):
            return None
        return self._validate(write)

    async def _validate(self, write: AdmissionAttributes) -> None:
        bindings = bindings_by_policy(self._bindings.all)
        denied: list[Decision] = []
        accessor = VersionedAttributeAccessor(self._core, write)
        for policy in self._policies.all:
            if policy.name in bindings:
                denied += [
                    decision async for decision in self._evaluate(write, accessor, policy, bindings[policy.name])
                ]
        if denied:
            raise _status_error(write, denied[0])

    async def _evaluate(
        self, write: AdmissionAttributes, accessor: VersionedAttributeAccessor, policy: Policy, bindings: list[Binding]
    ) -> AsyncIterator[Decision]:
        annotations: dict[str, list[str]] = {}
        async for invocation in policy_invocations(self._core, write, policy.criteria, policy.param_kind, bindings):
            if isinstance(invocation, PolicyInvocation):
                try:
                    activation = Activation(await accessor.attributes(invocation.info), invocation.param)
                except NotConverted as error:
                    if not policy.ignores_failures:
                        message = (
                            f"failed to configure binding: failed to convert object version: {error.conversion_error}"
                        )
                        yield Decision(_KIND, policy.name, invocation.binding.name, message)
                    continue
                async for decision in self._evaluate_binding(
                    write, policy, invocation.binding, activation, annotations
                ):
                    yield decision
            elif not policy.ignores_failures:
                yield Decision(_KIND, policy.name, invocation.binding, invocation.message)
        for key, values in annotations.items():
            add_audit_annotation(f"{policy.name}/{key}", ", ".join(values))

    async def _evaluate_binding(
        self,
        write: AdmissionAttributes,
        policy: Policy,
        binding: Binding,
        activation: Activation,
        annotations: dict[str, list[str]],
    ) -> AsyncIterator[Decision]:
        evaluation = _Evaluation(self._core, write, policy, binding)
        try:
            if not await policy.conditions.match(activation):
                return
            decisions = await evaluation.decide(activation)
        except (ExpressionError, OutOfBudget) as error:
            for decision in evaluation.failed(str(error), 0):
                yield decision
            return
        for decision in decisions:
            yield decision
        async for decision in evaluation.annotate(activation, annotations):
            yield decision


class _Evaluation:
    """The evaluation of one policy for one binding and one param, with the binding's validation actions."""

    def __init__(self, core: Core, write: AdmissionAttributes, policy: Policy, binding: Binding) -> None:
        self._metrics = core.metrics
        self._clock = core.env.perf_counter
        self._write = write
        self._policy = policy
        self._binding = binding
        self._started_at = self._clock() if self._metrics is not None else 0.0

    async def decide(self, activation: Activation) -> list[Decision]:
        """Evaluate the validations. Raises ``OutOfBudget``: the budget is shared by all of them."""
        decisions: list[Decision] = []
        budget = Budget()
        for index, validation in enumerate(self._policy.validations):
            if self._metrics is not None:
                self._started_at = self._clock()
            try:
                if await validation.expression.evaluate(activation, budget) is True:
                    continue
                message = await _message(validation, activation, budget)
            except ExpressionError as error:
                decisions += self.failed(str(error), index)
            else:
                decisions += self._perform_actions(message, validation.reason, index)
        return decisions

    def failed(self, message: str, index: int) -> list[Decision]:
        """The decisions for an expression that cannot be evaluated, by the policy's ``failurePolicy``."""
        if self._policy.ignores_failures:
            self._observe(message, "allow")
            return []
        return self._perform_actions(message, "Invalid", index)

    def _perform_actions(self, message: str, reason: str, index: int) -> list[Decision]:
        """Perform the binding's validation actions for the failed validation of this index."""
        policy, binding, decisions = self._policy, self._binding, list[Decision]()
        for action in binding.actions:
            self._observe(message, action.lower())
            if action == "Deny":
                decisions.append(Decision(_KIND, policy.name, binding.name, message, reason))
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
        return decisions

    async def annotate(self, activation: Activation, annotations: dict[str, list[str]]) -> AsyncIterator[Decision]:
        """Add the policy's audit annotations, each value once. An expression that cannot be evaluated denies the write,
        except with ``failurePolicy: Ignore``."""
        budget = Budget()
        for key, expression in self._policy.annotations:
            try:
                value = await expression.evaluate(activation, budget)
            except (ExpressionError, OutOfBudget) as error:
                if not self._policy.ignores_failures:
                    self._observe(str(error), "deny")
                    yield Decision(_KIND, self._policy.name, self._binding.name, str(error))
                if isinstance(error, OutOfBudget):
                    return
                continue
            if isinstance(value, str) and value.strip():
                text = value.strip().encode()[:_MAX_ANNOTATION].decode(errors="ignore")
                values = annotations.setdefault(key, [])
                if text not in values:
                    values.append(text)

    def _observe(self, message: str, action: str) -> None:
        if self._metrics is not None:
            seconds = self._clock() - self._started_at
            self._metrics.policies.validated(
                self._policy.name, self._binding.name, error_type(message), action, seconds
            )


async def _message(validation: Validation, activation: Activation, budget: Budget) -> str:
    try:
        return await validation.message(activation, budget)
    except OutOfBudget as error:
        raise ExpressionError(f"failed messageExpression: {error}") from None


def _status_error(write: AdmissionAttributes, decision: Decision) -> errors.StatusError:
    error = new_forbidden(write, decision.text)
    details = {**(error.details or {}), "causes": [{"message": decision.text}]}
    return errors.StatusError(_CODES.get(decision.reason, 422), decision.reason, error.message, details=details)
