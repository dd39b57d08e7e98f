"""Compiles and evaluates the CEL expressions of policies and webhooks.

After k8s.io/apiserver ``pkg/admission/plugin/cel/{compile,condition,composition}.go`` (v0.36). All objects have type
``dyn``, as upstream; variables are evaluated lazily, at most once per write.
"""

import asyncio
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pilothouse.apiserver import errors
from pilothouse.apiserver.admission.chain import AdmissionAttributes
from pilothouse.apiserver.admission.dynamic.requests import admission_request, converted
from pilothouse.apiserver.authentication.identity import Identity
from pilothouse.apiserver.authorization.authorizer import Attributes
from pilothouse.apiserver.core import Core
from pilothouse.apiserver.objects import Object, decode
from pilothouse.apiserver.resources import ResourceInfo
from pilothouse.cel import scopes
from pilothouse.cel.limits import (
    BUDGET_OF_MATCH_CONDITIONS,
    MAX_INLINE_WORK,
    AuthorizationChecks,
    Budget,
    Busy,
    EvaluationError,
    Evaluator,
    GetEvaluator,
    OutOfBudget,
    charged_value,
)
from pilothouse.cel.scopes import ExpressionError
from pilothouse.cel.source_text import without_strings
from pilothouse.cel.work import Extent, combined, measure
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.cel.environment import Program

with lazy_imports():
    from pilothouse.cel import authorizers, tagged


_VARIABLE = re.compile(r"(?<![.\w])variables\.([A-Za-z_]\w*)")


class Scope(scopes.Scope):
    """A ``scopes.Scope`` with the compiled expressions of its variables."""

    def __init__(
        self, *, params: bool = False, authorizer: bool = True, variables: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        super().__init__(params=params, authorizer=authorizer, variables=variables)
        self._compiled: dict[str, Expression] = {}

    def variable(self, name: str) -> "Expression | None":
        """The expression of a variable; None if it is not declared."""
        if name not in self._compiled and name in self.sources:
            self._compiled[name] = Expression(self, self.sources[name], ())
        return self._compiled.get(name)


class _EvaluationFailed(ExpressionError):
    """An expression could not be evaluated; ``cause`` is the message without the expression."""

    def __init__(self, source: str, cause: str) -> None:
        super().__init__(f"expression '{source}' resulted in error: {cause}")
        self.cause = cause


class Expression:
    """One CEL expression of a policy or webhook, compiled on first use. ``rewritten`` is compiled instead of
    ``source``, which is used in messages."""

    def __init__(
        self, scope: Scope, source: str, return_types: Iterable[str] = ("bool",), *, rewritten: str = ""
    ) -> None:
        self.scope, self.source = scope, source
        self._text = rewritten or source
        self._return_types = tuple(return_types)
        self._program: Any = None
        self._compile_error = ""
        self.variables_used = tuple(dict.fromkeys(_VARIABLE.findall(without_strings(source))))

    async def evaluate(self, activation: "Activation", budget: Budget) -> Any:
        """The value of the expression. Raises ``ExpressionError`` and ``OutOfBudget``."""
        if self._program is None and not self._compile_error:
            async with self.scope.compiling:
                await self._compile(lambda: activation.sandbox)
        if self._compile_error:
            raise ExpressionError(self._compile_error)
        failed: dict[str, str] = {}
        for name in self.variables_used:
            try:
                await activation.evaluate_variable(self.scope, name, budget)
            except ExpressionError as error:
                # An error only if the expression needs the variable, which is absent then.
                failed[f"no such key: {name}"] = str(error)
        try:
            return await activation.evaluate(self._program, budget)
        except EvaluationError as error:
            raise _EvaluationFailed(self.source, failed.get(str(error), str(error))) from None

    async def _compile(self, evaluator: GetEvaluator) -> None:
        if self._program is not None or self._compile_error:
            return
        try:
            self._program = await self.scope.compile_in_background(
                self._text, self._return_types, evaluator, uniform=self._text == self.source
            )
        except ExpressionError as error:
            self._compile_error = f"compilation error: {error}"
        except Busy:
            raise _too_many_expressions() from None
        await asyncio.sleep(0)  # a policy may have thousands of expressions: other tasks run in between


def _too_many_expressions() -> Exception:
    return errors.too_many_requests("too many expensive expressions, please try again later")


class VersionedAttributes:
    """The variables that all expressions share for one write in one version, and their size. ``obj`` and ``old`` are
    the objects of the write in that version."""

    def __init__(
        self, core: Core, write: AdmissionAttributes, info: ResourceInfo, obj: Object | None, old: Object | None
    ) -> None:
        self.core = core
        self.authorize = _authorizer_of(core, write.identity)
        self.values: dict[str, Any] = {
            "object": obj,
            "oldObject": old,
            "request": admission_request(write, info, ""),
            "params": None,
            "namespaceObject": _namespace(core, write),
            "authorizer": authorizers.AUTHORIZER,
            "authorizer.requestResource": _request_resource(write),
        }
        self._extent: Extent | None = None

    @property
    def extent(self) -> Extent:
        """The size of the values; measured before the first evaluation."""
        if self._extent is None:
            self._extent = measure(self.values)
        return self._extent


async def versioned_attributes(core: Core, write: AdmissionAttributes, info: ResourceInfo) -> VersionedAttributes:
    """The variables for a write, with its objects in the version of ``info``. Raises ``NotConverted``."""
    obj = await converted(core, write, write.obj, info)
    return VersionedAttributes(core, write, info, obj, await converted(core, write, write.old, info))


class VersionedAttributeAccessor:
    """Creates the versioned attributes of one write at most once per version. The object must not change in the
    meantime."""

    def __init__(self, core: Core, write: AdmissionAttributes) -> None:
        self._core, self._write = core, write
        self._cached: dict[str, VersionedAttributes] = {}

    async def attributes(self, info: ResourceInfo) -> VersionedAttributes:
        """The attributes in the version of ``info``. Raises ``NotConverted``."""
        key = f"{info.api_version}/{info.resource}"
        cached = self._cached.get(key)
        if cached is None:
            cached = self._cached[key] = await versioned_attributes(self._core, self._write, info)
        return cached


class Activation:
    """The variables of the expressions of one policy and param for one write (upstream's ``evaluationActivation``)."""

    def __init__(self, attributes: VersionedAttributes, params: Object | None = None) -> None:
        self._attributes = attributes
        self._values = attributes.values if params is None else {**attributes.values, "params": params}
        self._params = params
        self._variables: dict[str, Any] = {}
        self._extent: Extent | None = None
        self._variable_errors: dict[str, str] = {}

    @property
    def object(self) -> Any:
        """The object of the write, in the version that matched."""
        return self._values["object"]

    @property
    def sandbox(self) -> Evaluator | None:
        """The worker for expensive expressions; None in virtual time."""
        return self._attributes.core.long_work.sandbox

    async def evaluate(self, program: "Program", budget: Budget) -> Any:
        """The value of an expression whose variables have been evaluated. Raises ``EvaluationError`` and
        ``OutOfBudget``."""
        values = {**self._values, "variables": self._variables}
        work = program.work(values, self._measured())
        questions = AuthorizationChecks(self._attributes.authorize)
        sandbox = None if budget.may_run_inline(work) else self.sandbox
        if sandbox is not None:
            try:
                result = await sandbox.run(program.task(values), questions.ask)
            except Busy:
                raise _too_many_expressions() from None
            questions.charge(budget)
            return charged_value(result, budget)
        if work > MAX_INLINE_WORK:
            budget.charge_bound(program.bound(values))
        authorizers.asking.set(questions.ask)
        try:
            return program.evaluate(values)
        finally:
            questions.charge(budget)

    def _measured(self) -> Extent:
        if self._extent is None:
            extent = self._attributes.extent
            self._extent = extent if self._params is None else combined(extent, measure(self._params))
        return self._extent

    async def evaluate_variable(self, scope: Scope, name: str, budget: Budget) -> None:
        """Evaluate a variable, unless it has been evaluated. Raises ``ExpressionError`` and ``OutOfBudget``."""
        if name in self._variable_errors:
            raise ExpressionError(self._variable_errors[name])
        variable = scope.variable(name)
        if name in self._variables or variable is None:
            return
        self._variable_errors[name] = f'composited variable "{name}" fails to evaluate: it is used by itself'
        try:
            value = await variable.evaluate(self, budget)
        except ExpressionError as error:
            cause = error.cause if isinstance(error, _EvaluationFailed) else str(error)
            self._variable_errors[name] = f'composited variable "{name}" fails to evaluate: {cause}'
            raise ExpressionError(self._variable_errors[name]) from None
        del self._variable_errors[name]
        self._variables[name] = value
        self._extent = combined(self._measured(), measure(value))


def _request_resource(write: AdmissionAttributes) -> Any:
    check = {"group": write.info.group, "resource": write.info.resource, "namespace": write.namespace}
    check |= {"name": write.name, "subresource": write.subresource}
    return tagged.tagged("authorization.ResourceCheck", "", **{key: value for key, value in check.items() if value})


def _namespace(core: Core, write: AdmissionAttributes) -> Object | None:
    if not write.namespace or (write.info.resource == "namespaces" and not write.info.group):
        return None
    record = core.namespace(write.namespace)
    return decode(record.value) if record is not None else None


def _authorizer_of(core: Core, identity: Identity) -> Callable[[dict[str, str]], tuple[bool, str, str]]:
    def authorize(check: dict[str, str]) -> tuple[bool, str, str]:
        user = identity
        if "user" in check:
            name = check["user"]
            namespace = name.split(":")[2]
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            user = Identity(name, groups)
        fields = ("verb", "group", "resource", "subresource", "namespace", "name", "path")
        attributes = Attributes(**{"verb": "", **{key: check[key] for key in fields if key in check}})
        decision = core.authorizer.authorize(user, attributes)
        return decision.allowed, decision.reason, decision.error

    return authorize


class MatchConditions:
    """``matchConditions``: all must be true. If one is false the write does not match, even if others fail to evaluate
    (``pkg/admission/plugin/webhook/matchconditions/matcher.go``)."""

    def __init__(self, scope: Scope, conditions: Sequence[Mapping[str, Any]]) -> None:
        self._conditions = [Expression(scope, condition.get("expression") or "") for condition in conditions]

    def __bool__(self) -> bool:
        return bool(self._conditions)

    async def match(self, activation: Activation) -> bool:
        """Whether all conditions are true. Raises ``ExpressionError`` if some fail to evaluate and none is false."""
        failed: list[str] = []
        budget = Budget(BUDGET_OF_MATCH_CONDITIONS)
        for condition in self._conditions:
            try:
                if await condition.evaluate(activation, budget) is not True:
                    return False
            except OutOfBudget as error:
                raise ExpressionError(str(error)) from None
            except ExpressionError as error:
                failed.append(str(error))
        if failed:
            raise ExpressionError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
        return True
