"""Expressions of policies and webhooks: what they may name, and what they come to.

After k8s.io/apiserver ``pkg/admission/plugin/cel/{compile,condition,composition}.go`` (v0.36). All objects are ``dyn``,
as upstream's are; variables are evaluated when they are used, at most once per write.
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
    AT_ONCE,
    BUDGET_OF_MATCH_CONDITIONS,
    Budget,
    Busy,
    EvaluationError,
    Evaluator,
    Hire,
    OutOfBudget,
    Questions,
    settled,
)
from pilothouse.cel.scopes import ExpressionError
from pilothouse.cel.work import Extent, measured, together
from pilothouse.env.lazy import lazy_imports

if TYPE_CHECKING:
    from pilothouse.cel.environment import Program

with lazy_imports():
    from pilothouse.cel import authorizers, tagged


_VARIABLE = re.compile(r"(?<![.\w])variables\.([A-Za-z_]\w*)")
_STRINGS = re.compile(r"""[rR]?(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')""", re.DOTALL)


class Scope(scopes.Scope):
    """The same, with what the variables are evaluated by."""

    def __init__(
        self, *, params: bool = False, authorizer: bool = True, variables: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        super().__init__(params=params, authorizer=authorizer, variables=variables)
        self._conditions: dict[str, Condition] = {}

    def variable(self, name: str) -> "Condition | None":
        """The expression of a variable."""
        if name not in self._conditions and name in self.sources:
            self._conditions[name] = Condition(self, self.sources[name], ())
        return self._conditions.get(name)


class Condition:
    """One expression of a configuration, compiled once, when it is first needed."""

    def __init__(self, scope: Scope, source: str, gives: Iterable[str] = ("bool",), *, rewritten: str = "") -> None:
        self.scope, self.source = scope, source
        self._text = rewritten or source
        self._gives = tuple(gives)
        self._program: Any = None
        self._compile_error = ""
        self.uses = tuple(dict.fromkeys(_VARIABLE.findall(_STRINGS.sub("''", source))))

    async def evaluate(self, inputs: "Inputs", budget: Budget) -> Any:
        """Its value. Raises ``ExpressionError`` and ``OutOfBudget``."""
        if self._program is None and not self._compile_error:
            async with self.scope.compiling:
                await self._compile(lambda: inputs.sandbox)
        if self._compile_error:
            raise ExpressionError(self._compile_error)
        for name in self.uses:
            await inputs.settle(self.scope, name, budget)
        try:
            return await inputs.evaluate(self._program, budget)
        except EvaluationError as error:
            raise ExpressionError(f"expression '{self.source}' resulted in error: {error}") from None

    async def _compile(self, evaluator: Hire) -> None:
        if self._program is not None or self._compile_error:
            return
        try:
            self._program = await self.scope.compile_in_background(self._text, self._gives, evaluator)
        except ExpressionError as error:
            self._compile_error = f"compilation error: {error}"
        except Busy:
            raise _too_many() from None
        await asyncio.sleep(0)  # a policy may have thousands; others get their turn between them


def _too_many() -> Exception:
    return errors.too_many_requests("too many expensive expressions, please try again later")


class VersionedAttributes:
    """What all expressions see of one write in one version, and how large it is (upstream's type of this name). ``obj``
    and ``old`` are the objects of the write in that version."""

    def __init__(
        self, core: Core, write: AdmissionAttributes, info: ResourceInfo, obj: Object | None, old: Object | None
    ) -> None:
        self.core = core
        self.ask = _asker(core, write.identity)
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
        """Measured when the first expression is evaluated."""
        if self._extent is None:
            self._extent = measured(self.values)
        return self._extent


async def versioned_attributes(core: Core, write: AdmissionAttributes, info: ResourceInfo) -> VersionedAttributes:
    """What expressions see of a write in the version of ``info``. Raises ``NotConverted``."""
    obj = await converted(core, write, write.obj, info)
    return VersionedAttributes(core, write, info, obj, await converted(core, write, write.old, info))


class VersionedAttributeAccessor:
    """Makes the attributes of one write once for each version, while the object does not change."""

    def __init__(self, core: Core, write: AdmissionAttributes) -> None:
        self._core, self._write = core, write
        self._made: dict[str, VersionedAttributes] = {}

    async def attributes(self, info: ResourceInfo) -> VersionedAttributes:
        """Those in the version of ``info``. Raises ``NotConverted``."""
        key = f"{info.api_version}/{info.resource}"
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = await versioned_attributes(self._core, self._write, info)
        return made


class Inputs:
    """What the expressions of one policy and binding see of one write."""

    def __init__(self, seen: VersionedAttributes, params: Object | None = None) -> None:
        self._seen = seen
        self._values = seen.values if params is None else {**seen.values, "params": params}
        self._params = params
        self._variables: dict[str, Any] = {}
        self._extent: Extent | None = None
        self._failed: dict[str, str] = {}

    @property
    def object(self) -> Any:
        """The object in the version that matched."""
        return self._values["object"]

    @property
    def sandbox(self) -> Evaluator | None:
        """What compiles and evaluates what may take long; None in virtual time."""
        return self._seen.core.long_work.sandbox

    async def evaluate(self, program: "Program", budget: Budget) -> Any:
        """The value of an expression whose variables are settled. Raises ``EvaluationError`` and ``OutOfBudget``."""
        values = {**self._values, "variables": self._variables}
        work = program.work(values, self._measured())
        questions = Questions(self._seen.ask)
        sandbox = None if budget.may_run_inline(work) else self.sandbox
        if sandbox is not None:
            try:
                result = await sandbox.run(program.task(values), questions.ask)
            except Busy:
                raise _too_many() from None
            questions.charge(budget)
            return settled(result, budget)
        if work > AT_ONCE:
            budget.charge_bound(program.bound(values))
        authorizers.asking.set(questions.ask)
        try:
            return program.evaluate(values)
        finally:
            questions.charge(budget)

    def _measured(self) -> Extent:
        if self._extent is None:
            extent = self._seen.extent
            self._extent = extent if self._params is None else together(extent, measured(self._params))
        return self._extent

    async def settle(self, scope: Scope, name: str, budget: Budget) -> None:
        """Evaluate a variable, once. Raises ``ExpressionError`` when it cannot be had, and ``OutOfBudget``."""
        if name in self._failed:
            raise ExpressionError(self._failed[name])
        variable = scope.variable(name)
        if name in self._variables or variable is None:
            return
        self._failed[name] = f'composited variable "{name}" fails to evaluate: it is used by itself'
        try:
            value = await variable.evaluate(self, budget)
        except ExpressionError as error:
            self._failed[name] = f'composited variable "{name}" fails to evaluate: {error}'
            raise ExpressionError(self._failed[name]) from None
        del self._failed[name]
        self._variables[name] = value
        self._extent = together(self._measured(), measured(value))


def _request_resource(write: AdmissionAttributes) -> Any:
    asked = {"group": write.info.group, "resource": write.info.resource, "namespace": write.namespace}
    asked |= {"name": write.name, "subresource": write.subresource}
    return tagged.tagged("authorization.ResourceCheck", "", **{key: value for key, value in asked.items() if value})


def _namespace(core: Core, write: AdmissionAttributes) -> Object | None:
    if not write.namespace or (write.info.resource == "namespaces" and not write.info.group):
        return None
    record = core.namespace(write.namespace)
    return decode(record.value) if record is not None else None


def _asker(core: Core, identity: Identity) -> Callable[[dict[str, str]], tuple[bool, str, str]]:
    def ask(question: dict[str, str]) -> tuple[bool, str, str]:
        user = identity
        if "user" in question:
            name = question["user"]
            namespace = name.split(":")[2]
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
            user = Identity(name, groups)
        fields = ("verb", "group", "resource", "subresource", "namespace", "name", "path")
        attributes = Attributes(**{"verb": "", **{key: question[key] for key in fields if key in question}})
        decision = core.authorizer.decide(user, attributes)
        return decision.allowed, decision.reason, decision.error

    return ask


class MatchConditions:
    """``matchConditions``: all must be true. One that is false decides, whatever others fail."""

    def __init__(self, scope: Scope, given: Sequence[Mapping[str, Any]]) -> None:
        self._conditions = [Condition(scope, one.get("expression") or "") for one in given]

    def __bool__(self) -> bool:
        return bool(self._conditions)

    async def match(self, inputs: Inputs) -> bool:
        """Whether all hold. Raises ``ExpressionError`` when that cannot be said."""
        failed: list[str] = []
        budget = Budget(BUDGET_OF_MATCH_CONDITIONS)
        for condition in self._conditions:
            try:
                if await condition.evaluate(inputs, budget) is not True:
                    return False
            except OutOfBudget as error:
                raise ExpressionError(str(error)) from None
            except ExpressionError as error:
                failed.append(str(error))
        if failed:
            raise ExpressionError(failed[0] if len(failed) == 1 else f"[{', '.join(failed)}]")
        return True
